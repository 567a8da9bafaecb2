"""Writes the seeds that fuzzing starts from: small streams of every kind, whole and damaged."""

from __future__ import annotations

from pathlib import Path

from tests.support.cores import framed, header

# Which bytes choose what is said at the top of each target.
OPTIONS = {
    "corpus": bytes([0x05, 0x00]),  # no limit but the format's, room for every record
    "file_corpus": bytes([0x05, 0x00, 0x00]),
}

SEEDS = {
    "empty": b"",
    "one": framed(b"record"),
    "three": framed(b"first", b"", b"the third record"),
    "sizes": framed(*(bytes(range(size)) for size in (0, 1, 7, 8, 9, 63, 64, 65, 191, 192, 255))),
    "folded": framed(bytes(range(256)) * 4),
    "cut": framed(b"a record that is cut")[:-3],
    "cut-header": framed(b"first") + header(7)[:9],
    "claim": framed(b"first") + header(2**62),
    "negative": header(2**64 - 1),
    "nested": framed(framed(b"a record", b"in a record")),
    "rubbish": b"rubbish" * 5 + framed(b"found") + b"\0" * 20,
}


def main() -> None:
    for name, options in OPTIONS.items():
        folder = Path(__file__).parent / name
        folder.mkdir(exist_ok=True)
        for seed, stream in SEEDS.items():
            (folder / f"seed-{seed}").write_bytes(options + stream)


if __name__ == "__main__":
    main()

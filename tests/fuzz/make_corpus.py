"""Writes the seeds that fuzzing starts from: small streams of every kind, whole and damaged."""

from __future__ import annotations

import struct
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


def segment(*records: bytes, first: int = 0, name: bytes = b"f") -> bytes:
    frames = framed(*records)
    return struct.pack("<4Q", len(frames), len(records), first, len(name)) + name + frames


def packs(*found: bytes) -> bytes:
    return b"".join(struct.pack("<H", len(pack)) + pack for pack in found)


WHOLE = segment(b"first", b"", b"the third")
PACKS = {  # behind: records of a batch, of a last one, the one that does not parse
    "one": bytes([2, 0, 0]) + packs(WHOLE),
    "many": bytes([4, 0, 0]) + packs(WHOLE, segment(b"x"), WHOLE + segment(b"y", first=7) + WHOLE),
    "bad": bytes([0, 0, 5]) + packs(WHOLE, WHOLE),
    "dropped": bytes([3, 15, 0]) + packs(WHOLE, segment(name=b""), WHOLE),
    "cut": bytes([1, 0, 0]) + packs(WHOLE, WHOLE[:-1]),
}


def main() -> None:
    folder = Path(__file__).parent / "pack_corpus"
    folder.mkdir(exist_ok=True)
    for seed, stream in PACKS.items():
        (folder / f"seed-{seed}").write_bytes(stream)
    for name, options in OPTIONS.items():
        folder = Path(__file__).parent / name
        folder.mkdir(exist_ok=True)
        for seed, stream in SEEDS.items():
            (folder / f"seed-{seed}").write_bytes(options + stream)


if __name__ == "__main__":
    main()

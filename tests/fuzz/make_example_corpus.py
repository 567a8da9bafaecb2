"""Writes the seeds that fuzzing the Example codec starts from."""

from __future__ import annotations

from pathlib import Path

from tests.support.examples import entry, field, floats, int64s, strings, varint, wire_example
from tfio_store import encode_example, encode_sequence_example

LONG = "a name over sixteen bytes"

SEEDS = {
    "kinds": encode_example({"a": [1, -1, 2**40], "label": [0.5], "image/raw": [b"\xff\xd8", ""]}),
    "long": encode_example({LONG: [1.5] * 70, "": b"x" * 200, "a": list(range(-9, 200))}),
    "unpacked": wire_example(
        entry(b"a", field(3, field(1, 1) + field(1, 300))),
        entry(b"label", field(2, varint(1 << 3 | 5) + bytes(4))),
    ),
    "repeated": wire_example(entry(b"a", int64s(1)), entry(b"a", floats(1))) * 2,
    "oneof": wire_example(entry(b"a", strings(b"x") + int64s(1) + int64s(2))),
    "unknown": field(7, b"?") + wire_example(entry(b"a", field(9, 5) + int64s(3)), field(2, 4)),
    "reversed": wire_example(field(1, field(2, int64s(1)) + field(1, b"label"))),
    "sequence": encode_sequence_example({"a": 1}, {"label": [[1, 2], [], [3]], "": ["x"]}),
    "claim": b"\x0a" + varint(2**63),
    "group": b"\x0b\x13\x14\x0c",
    "empty": b"",
}


def main() -> None:
    folder = Path(__file__).parent / "example_corpus"
    folder.mkdir(exist_ok=True)
    for name, record in SEEDS.items():
        (folder / f"seed-{name}").write_bytes(record)


if __name__ == "__main__":
    main()

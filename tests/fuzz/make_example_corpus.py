"""Writes the seeds that fuzzing the Example codec and TensorFlow's decoder starts from."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

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


FIXED, PADDED, RAGGED, RAGGED32, SPARSE, STEPS, ROWS = range(7)
BYTES, FLOAT, INT64 = 1, 2, 3


def column(
    key: bytes, kind: int, layout: int, dims: tuple[int, ...] = (), fallback: bytes | None = None
) -> bytes:
    """As ext/tensorflow/ops/op_decode.h draws it."""
    head = struct.pack("<BBBBI", kind, layout, len(dims), fallback is not None, len(key))
    return head + struct.pack(f"<{len(dims)}q", *dims) + key + (fallback or b"")


def batch(columns: list[bytes], *records: bytes) -> bytes:
    """An input of `fuzz_decode.c`."""
    parts = [b"".join(columns), *records]
    sized = (struct.pack("<H", len(part)) + part for part in parts)
    return struct.pack("<B", len(records)) + b"".join(sized)


def rows(feature: str, values: list[list[object]]) -> list[bytes]:
    return [encode_example({feature: row, "b": [i]}) for i, row in enumerate(values)]


INTS = rows("a", [[1, 2], [3, 4], [], [5, 6], [-7, 2**40], [9, 10], [11, 12, 13]])
TEXTS = rows("a", [["x", ""], ["y" * 40, "z"], ["1", "2", "3", "4", "5", "6"], []])
ZERO = struct.pack("<q", 0)


def sequences(*lists: list[Any]) -> list[bytes]:
    return [encode_sequence_example({"b": i}, {"a": steps}) for i, steps in enumerate(lists)]


PAIRS = sequences([[1, 2], [3, 4]], [], [[5, -6]] * 9, [[2**40, 7]])
RAGGED_STEPS = sequences([[1], [], [2, 3]], [], [[4] * 5] * 7, [[]])
RAGGED_TEXTS = sequences([["x"], ["", "y" * 40]], [["z"]] * 6)

DECODE_SEEDS = {
    "fixed": batch([column(b"a", INT64, FIXED, (2,)), column(b"b", INT64, FIXED)], *INTS[:2]),
    "fallback": batch([column(b"a", INT64, FIXED, (2,), ZERO * 2)], *INTS[:6]),
    "ragged": batch([column(b"a", INT64, RAGGED), column(b"b", INT64, RAGGED32)], *INTS),
    "sparse": batch([column(b"a", INT64, SPARSE), column(b"c", FLOAT, SPARSE)], *INTS),
    "padded": batch([column(b"a", INT64, PADDED, (), ZERO)], *INTS),
    "pairs": batch([column(b"a", INT64, PADDED, (2,), ZERO)], *INTS[:6]),
    "texts": batch([column(b"a", BYTES, RAGGED), column(b"b", INT64, FIXED)], *TEXTS),
    "padded texts": batch([column(b"a", BYTES, PADDED, (), struct.pack("<I", 1) + b"?")], *TEXTS),
    "floats": batch([column(b"a", FLOAT, FIXED, (1, 2))], *rows("a", [[0.5, 1.5]] * 5)),
    "missing": batch([column(b"c", FLOAT, FIXED)], *INTS),
    "kind": batch([column(b"a", FLOAT, FIXED, (2,))], *INTS),
    "wide": batch([column(b"a", INT64, FIXED, (2**30, 2**20))], *INTS),
    "wide nothing": batch([column(b"a", INT64, FIXED, (2**50, 0))], *INTS),
    "nothing": batch([column(b"a", BYTES, FIXED, (0,))], *INTS[2:3]),
    "steps": batch([column(b"b", INT64, FIXED), column(b"a", INT64, STEPS, (2,))], *PAIRS),
    "absent steps": batch([column(b"none", FLOAT, STEPS)], *PAIRS),
    "wide steps": batch([column(b"a", INT64, STEPS, (2**30, 2**20))], *PAIRS),
    "short steps": batch([column(b"a", INT64, STEPS, (2,))], *PAIRS, *RAGGED_STEPS),
    "rows": batch([column(b"a", INT64, ROWS), column(b"b", INT64, ROWS)], *RAGGED_STEPS),
    "rows of texts": batch([column(b"a", BYTES, ROWS)], *RAGGED_TEXTS),
    "rows of a kind": batch([column(b"a", FLOAT, ROWS)], *RAGGED_STEPS),
    "no steps before": batch([column(b"a", INT64, STEPS), column(b"b", INT64, FIXED)], *PAIRS),
    "damaged steps": batch([column(b"a", INT64, ROWS)], PAIRS[0], field(2, entry(b"a", b"\x0b"))),
    "damaged": batch([column(b"a", INT64, RAGGED)], INTS[0], b"\x0b"),
}


def main() -> None:
    here = Path(__file__).parent
    for folder, seeds in ((here / "example_corpus", SEEDS), (here / "decode_corpus", DECODE_SEEDS)):
        folder.mkdir(exist_ok=True)
        for name, data in seeds.items():
            (folder / f"seed-{name.replace(' ', '-')}").write_bytes(data)


if __name__ == "__main__":
    main()

"""What a loader's records are decoded to: as `decode_examples` has it, in whatever memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.loader.content import ByteStrings, LoaderContent
from tfio_store.records.framing import RecordBatch

LONG, SHORT = b"\x00\xff" * 500, b"a\x00"


def parts() -> list[RecordBatch]:
    """Records in parts that lie end to end; some lack a default's feature."""
    rows: list[dict[str, Any]] = [
        {"long": LONG + bytes([i]), "short": SHORT * i, "n": i, "text": f"ä{i}", "two": [b"x", b""]}
        for i in range(20)
    ]
    for row in rows[::3]:
        del row["short"]
    records = [tfs.encode_example(row) for row in rows]
    return [RecordBatch.from_records(records[a:b]) for a, b in ((0, 7), (7, 8), (8, 8), (8, 20))]


SCHEMAS: dict[str, dict[str, Any]] = {
    "bytes": {"long": "bytes"},
    "bytes and numbers": {"n": "int64", "long": "bytes"},
    "a default": {"short": tfs.Feature("bytes", default=b"none"), "long": "bytes"},
    "nulls": {"short": tfs.Feature("bytes", nullable=True), "long": "bytes"},
    "text": {"text": "str", "long": "bytes"},
    "two of a row": {"two": ("bytes", (2,)), "long": "bytes"},
    "rows of many": {"two": ("bytes", (None,)), "long": "bytes"},
    "few of the bytes": {"short": tfs.Feature("bytes", default=b""), "n": "int64"},
}


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize(("start", "stop"), [(0, 20), (3, 15), (7, 8), (19, 20), (5, 5)])
def test_columns_are_as_decode_examples_has_them(schema: str, start: int, stop: int) -> None:
    content = LoaderContent(tfs.Schema.of(SCHEMAS[schema]))
    records = [record for part in parts() for record in part]
    wanted = tfs.decode_examples(records[start:stop], SCHEMAS[schema])
    found = content.cut(content.made(parts(), 1, print), start, stop)
    assert list(found) == list(wanted)
    for name, column in wanted.items():
        assert len(found[name]) == stop - start
        assert found[name].tolist() == column.tolist()


def test_byte_strings_stay_in_their_records_until_they_are_wanted() -> None:
    """What threads make ahead is no memory of theirs: an allocator keeps that for each thread."""
    given = parts()
    column = LoaderContent(tfs.Schema.of({"long": "bytes"})).made(given, 1, print)["long"]
    assert isinstance(column, ByteStrings)
    for part, records in zip(column._parts, given, strict=True):
        if len(records):
            assert isinstance(part, RecordBatch)
            mine, theirs = (np.frombuffer(batch.buffer, np.uint8) for batch in (part, records))
            assert np.shares_memory(mine, theirs)


def test_records_do_not_stay_for_a_few_bytes_of_them() -> None:
    schema = tfs.Schema.of({"short": tfs.Feature("bytes", default=b"")})
    column = LoaderContent(schema).made(parts(), 1, print)["short"]
    assert all(isinstance(part, list) for part in column._parts)

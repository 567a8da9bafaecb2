"""Schemas of a few bytes whose shapes would take all memory, and records that have no values."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfio_store as tfs
from tests.support.examples import CODECS, use_codec
from tests.support.indexes import changed_root
from tfio_store.tables.texts import spec_text

WIDE = 1 << 39
"""Values of a shape: more than any memory holds."""


def put(folder: Path, schema: dict[str, Any], records: list[bytes]) -> Path:
    """A dataset whose manifest has this schema."""
    with tfs.ShardedWriter(folder / "t", num_shards=1) as writer:
        writer.write_batch(records)
    path = folder / "_t.manifest.json"
    path.write_bytes(changed_root(path.read_bytes(), schema=schema))
    return folder / "t"


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    ("dtype", "default"), [("int64", 0), ("float32", 0.5), ("uint8", 1), ("bool", True)]
)
@pytest.mark.parametrize("how", [{}, {"nullable": True}, {"raw": True}])
def test_no_records_take_no_memory(
    dtype: str, default: Any, how: dict[str, Any], codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_codec(codec, monkeypatch)
    schema = tfs.Schema({"x": tfs.Feature(dtype, (WIDE,), default=default, **how)})
    for nulls in ("mask", "default") if "nullable" in how else ("mask",):
        found = tfs.decode_examples([], schema, nulls=nulls)["x"]
        assert getattr(found, "values", found).shape == (0, WIDE)


@pytest.mark.parametrize("strings", ["object", "batch"])
@pytest.mark.parametrize(("dtype", "default"), [("str", "a"), ("bytes", b"a")])
def test_no_records_of_wide_texts(dtype: str, default: Any, strings: Any) -> None:
    schema = tfs.Schema({"x": tfs.Feature(dtype, (WIDE,), default=default)})
    assert len(tfs.decode_examples([], schema, strings=strings)["x"]) == 0


def test_the_table_of_no_records(tmp_path: Path) -> None:
    schema = {"features": {"x": {"dtype": "int64", "shape": [WIDE], "default": 0}}}
    assert tfs.read_table(put(tmp_path, schema, []))["x"].shape == (0, WIDE)


@pytest.mark.parametrize("item", [pa.time64("us"), pa.int64(), pa.string_view()])
def test_nulls_as_wide_lists(item: Any, tmp_path: Path) -> None:
    kind = pa.list_(item, (1 << 31) - 1)
    sink = pa.BufferOutputStream()
    rows = pa.record_batch([pa.array([], kind)], names=["x"])
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    dtype = "str" if item == pa.string_view() else "int64"
    schema = {
        "features": {"x": {"dtype": dtype, "shape": [None], "nullable": True}},
        "arrow": base64.b64encode(sink.getvalue()).decode(),
    }
    found = tfs.read_table(put(tmp_path, schema, [b""]))
    with pytest.raises(MemoryError, match=r"1 nulls as fixed_size_list.* would take \d+ bytes"):
        found.to_arrow()


def test_the_spec_of_a_wide_default_is_short() -> None:
    features = {
        "wide": tfs.Feature("int64", (3, WIDE // 4), default=7),
        "raw": tfs.Feature("uint8", (WIDE,), default=7, raw=True),
        "fits": tfs.Feature("float32", (5, 20), default=0.5),
        "memory": tfs.Feature("int16", (5, 20), default=-2, raw=True),
        "short": tfs.Feature("int64", (2,), default=7),
    }
    text = spec_text(tfs.Schema(features))
    assert f"[[7] * {WIDE // 4}] * 3" in text
    assert rf"b'\x07' * {WIDE}" in text
    assert "[7, 7]" in text
    lines = {line.split("'")[1]: line for line in text.splitlines() if line.startswith("    ")}
    said = eval(lines["fits"].partition("tf.float32, ")[2].removesuffix("),"))
    assert np.array_equal(said, np.full((5, 20), 0.5))
    memory = eval(lines["memory"].partition("tf.string, ")[2].removesuffix("),"))
    assert memory == np.full((5, 20), -2, "<i2").tobytes()

"""Tables that are very wide, very long, empty, or oddly named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import tfio_store as tfs


def there_and_back(table: Any, folder: Path, **options: Any) -> Any:
    url = str(folder / "table")
    tfs.write_table(table, url, **options)
    return tfs.read_table(url).to_arrow()


def test_five_thousand_columns(tmp_path: Path) -> None:
    table = pa.table({f"c{i:04d}": pa.array([i, None, -i]) for i in range(5000)})
    assert there_and_back(table, tmp_path).equals(table)
    assert len(tfs.infer_schema(f"{tmp_path}/table")) == 5000


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"x": pa.array([], pa.int64()), "y": pa.array([], pa.list_(pa.string()))}),
        pa.table({}),
    ],
    ids=["no rows", "no columns"],
)
def test_nothing(tmp_path: Path, table: Any) -> None:
    assert there_and_back(table, tmp_path).equals(table)


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../x", "a.b", "\0", "\n", "é", "日本", "🎉", "'\"`\\", "x" * 10_000],
)
def test_names_with_any_character(tmp_path: Path, name: str) -> None:
    table = pa.table({name: pa.array([1, 2]), "other": pa.array(["a", None])})
    assert there_and_back(table, tmp_path, compression="GZIP").equals(table)


@pytest.mark.long
@pytest.mark.skipif(psutil.virtual_memory().available < 14 << 30, reason="needs 14 GiB")
@pytest.mark.parametrize("kind", [pa.large_binary(), pa.large_string()], ids=str)
def test_more_than_2_to_the_31_bytes_in_one_column(tmp_path: Path, kind: Any) -> None:
    value, rows = b"x" * (1 << 20), (1 << 11) + 5
    offsets = np.arange(rows + 1, dtype=np.int64) << 20
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * rows)]
    column = pa.Array.from_buffers(kind, rows, buffers)
    tfs.write_table(pa.table({"x": column, "i": pa.array(range(rows))}), f"{tmp_path}/long")
    seen = 0
    for batch in tfs.iter_tables(f"{tmp_path}/long", batch_rows=rows):
        assert batch.schema.field("x").type == kind
        assert batch["i"].to_pylist() == list(range(seen, seen + batch.num_rows))
        assert all(size == 1 << 20 for size in pc.binary_length(batch["x"]).to_pylist())
        seen += batch.num_rows
    assert seen == rows
    assert tfs.read_table(f"{tmp_path}/long", columns=["i"])["i"].tolist() == list(range(rows))

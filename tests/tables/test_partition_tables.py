"""Rows of partitions for engines: by whole partitions, and by single batches of records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.example.schema import Schema
from tfio_store.tables.partitions import row_batches
from tfio_store.tables.read_table import row_types, rows_maker

pa = pytest.importorskip("pyarrow")

TABLE = pa.table({"x": [1, 2, 3], "text": ["a", None, "c"], "list": [[1], [], [2, 3]]})


@pytest.fixture
def part(tmp_path: Path) -> tfs.Partition:
    tfs.write_table(TABLE, str(tmp_path / "t"))
    (found,) = tfs.partitions(str(tmp_path / "t"))
    return found


@pytest.mark.parametrize("columns", [None, ["x"], ["list", "text"], []])
def test_both_ways_give_the_same(part: tfs.Partition, columns: list[str] | None) -> None:
    make = rows_maker(part.schema, columns, part)
    by_batch = [rows for batch in part.batches() for rows in make(batch)]
    assert by_batch == list(row_batches(part, None, columns, {}))
    assert sum(rows.num_rows for rows in by_batch) == 3
    types = row_types(part.schema, columns)
    assert [rows.schema.names for rows in by_batch] == [types.names]


@pytest.mark.parametrize("columns", [None, ["record"], []])
def test_records_that_no_schema_tells_of(part: tfs.Partition, columns: list[str] | None) -> None:
    make = rows_maker(None, columns, part)
    (rows,) = [rows for batch in part.batches() for rows in make(batch)]
    assert rows.num_rows == 3
    if columns != []:
        assert rows["record"].to_pylist() == list(part.reader())
    with pytest.raises(KeyError, match="no column 'x': no schema says"):
        rows_maker(None, ["x"], part)


def test_an_error_names_the_source(part: tfs.Partition) -> None:
    schema = Schema({"x": "float32"})
    (batch,) = part.batches()
    with pytest.raises(tfs.SchemaError, match="partition 0 of"):
        list(rows_maker(schema, None, part)(batch))


def test_a_task_that_takes_tables_one_by_one(tmp_path: Path) -> None:
    from tfio_store.tables.write_table import TableJob

    job = TableJob(tfs.WriteJob(str(tmp_path / "t")))
    task, other = job.open(1), job.open(0)
    for start in range(3):
        task.write(TABLE.slice(start, 1))
    other.write(TABLE.slice(0, 0))
    job.commit([task.close(), other.close()])
    found: Any = tfs.read_table(str(tmp_path / "t")).to_arrow()
    assert found.to_pydict() == TABLE.to_pydict()


def test_a_task_that_is_aborted_leaves_nothing(tmp_path: Path) -> None:
    from tfio_store.tables.write_table import TableJob

    job = TableJob(tfs.WriteJob(str(tmp_path / "t")))
    task = job.open()
    task.write(TABLE)
    task.abort()
    job.abort()
    assert list(tmp_path.iterdir()) == []

"""A column of serialized Examples is no feature of other Examples, unless somebody says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.example.codec import is_example
from tfio_store.tables.write_table import TableJob

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

RECORDS = [tfs.encode_example({"x": i, "s": "a"}) for i in range(5)]
STEPS = tfs.encode_sequence_example({}, {"frames": [[1.0], [2.0]]})

TABLES: dict[str, Any] = {
    "a dict": {"record": RECORDS},
    "of any name": {"x": [1] * 5, "payload": RECORDS},
    "Arrow": pa.table({"record": pa.array(RECORDS, pa.large_binary())}),
    "pandas": pd.DataFrame({"record": RECORDS}),
    "with nulls": pa.table({"record": pa.array([None, *RECORDS[1:]])}),
    "lists": pa.table({"record": pa.array([[], RECORDS, [], [], []])}),
    "SequenceExamples": {"record": [STEPS] * 5},
    "a batch": {"record": tfs.encode_examples({"x": [1, 2]})},
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_column_of_examples_is_refused(tmp_path: Path, table: Any) -> None:
    with pytest.raises(ValueError, match=r"column '(record|payload)' holds serialized Examples"):
        tfs.write_table(table, tmp_path / "t")
    assert not list(tmp_path.iterdir())
    job = TableJob(tfs.WriteJob(tmp_path / "t"))
    with pytest.raises(ValueError, match='schema="bytes"'):
        job.write([table])
    job.abort()


def test_who_asks_gets_the_feature_or_the_records(tmp_path: Path) -> None:
    table = {"record": RECORDS}
    tfs.write_table(table, tmp_path / "nested", schema={"record": "bytes"})
    assert tfs.read_table(tmp_path / "nested")["record"].tolist() == RECORDS
    tfs.write_table(table, tmp_path / "nested", if_exists="append")  # its schema has said so
    for one in (table, pa.table({"record": RECORDS}), pd.DataFrame({"record": RECORDS}), [table]):
        manifest = tfs.write_table(
            one, tmp_path / "t", schema="bytes", num_shards=1, if_exists="overwrite"
        )
        assert (manifest.schema, manifest.records) == (None, 5)
        assert list(tfs.RecordReader(tmp_path / "t")) == RECORDS
    tfs.write_table(table, tmp_path / "t", schema="bytes", if_exists="append")
    assert tfs.read_table(tmp_path / "t")["x"].tolist() == [*range(5)] * 2
    job = TableJob(tfs.WriteJob(tmp_path / "job"), schema="bytes")
    job.commit([job.write([table], i) for i in range(2)])
    assert list(tfs.RecordReader(tmp_path / "job")) == RECORDS * 2


def test_records_go_through_a_table_and_back(tmp_path: Path) -> None:
    tfs.write_table({"x": [1, 2, 3]}, tmp_path / "a", num_shards=1)
    frame = tfs.read_table(tmp_path / "a", schema="bytes")
    with pytest.raises(ValueError, match="holds serialized Examples"):
        tfs.write_table(frame, tmp_path / "b")
    tfs.write_table(frame, tmp_path / "b", schema="bytes")
    assert tfs.read_table(tmp_path / "b")["x"].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"record": RECORDS, "x": [1] * 5}, "one column of bytes as records; there are 'record'"),
        ({"x": [1, 2]}, "column 'x': schema=\"bytes\" writes a column of bytes"),
        ({"x": ["a", "b"]}, "column 'x': schema=\"bytes\" writes a column of bytes"),
        ({"x": [b"a", None]}, "column 'x': row 1 is null"),
    ],
)
def test_other_tables_are_no_records(tmp_path: Path, table: Any, says: str) -> None:
    with pytest.raises((ValueError, TypeError), match=says):
        tfs.write_table(table, tmp_path / "t", schema="bytes")
    assert not list(tmp_path.iterdir())


def test_a_mapping_that_holds_an_example_is_refused(tmp_path: Path) -> None:
    row = {"x": 1, "record": RECORDS[0]}
    for many in (False, True):
        writer = tfs.ShardedWriter(tmp_path / "t", num_shards=1)
        with pytest.raises(tfs.SchemaError, match=r"record 0: feature 'record' is a serialized .*"):
            writer.write_batch([row]) if many else writer.write(row)
        writer.abort()
        assert not list(tmp_path.iterdir())
    with tfs.ShardedWriter(tmp_path / "t", num_shards=1, schema={"record": "bytes"}) as writer:
        writer.write({"record": RECORDS[0]})
    assert tfs.read_table(tmp_path / "t")["record"].tolist() == RECORDS[:1]


def test_what_is_no_example() -> None:
    images = [b"\xff\xd8\xff\xe0", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"BM", b"RIFF"]
    texts = [b"", b"\n", b"\n\0", b"\x12\0", b"\nhello\n", b"\x12\x34", json.dumps({}).encode()]
    assert not any(map(is_example, [*images, *texts, None, 5, "\n\0", np.zeros(3)]))
    chance = np.random.default_rng(0)
    for _ in range(2000):
        head = chance.choice([b"\n", b"\x12", b"\n\x04"])
        assert not is_example(head + chance.bytes(int(chance.integers(1, 40))))
    assert all(map(is_example, [*RECORDS, STEPS, memoryview(RECORDS[0])]))

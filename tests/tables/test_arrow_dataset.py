"""`arrow_dataset`: pyarrow's Dataset over Examples, scanned by columns and rows, as a stream."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed

pa = pytest.importorskip("pyarrow")
pc = pytest.importorskip("pyarrow.compute")
pds = pytest.importorskip("pyarrow.dataset")

ROWS = 3000
TABLE = pa.table(
    {
        "n": pa.array([None if i % 3 == 0 else i for i in range(ROWS)], pa.int16()),
        "s": pa.array([f"é{i % 10}" for i in range(ROWS)]),
        "list": pa.array([[str(j) for j in range(i % 3)] for i in range(ROWS)]),
        "when": pa.array(range(ROWS), pa.timestamp("s", tz="Europe/Paris")),
        "kind": pa.array([f"{i % 5}" for i in range(ROWS)]).dictionary_encode(),
        "blob": pa.array([b"%d" % i * 100 for i in range(ROWS)]),
    }
).replace_schema_metadata({"made": "here"})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"{tmp_path_factory.mktemp('tables')}/t"
    tfs.write_table(TABLE, url, max_shard_bytes=1 << 18, compression="GZIP")
    return url


SCANS: dict[str, dict[str, Any]] = {
    "all": {},
    "some columns": {"columns": ["when", "n"]},
    "one column twice": {"columns": ["n", "s", "n"]},
    "no column": {"columns": []},
    "expressions": {"columns": {"twice": pc.field("n") * 2, "s": pc.field("s")}},
    "rows": {"filter": (pc.field("n") > 100) & (pc.field("s") == "é1")},
    "no row": {"filter": pc.field("n") < 0},
    "rows by a column that is not wanted": {"columns": ["list"], "filter": pc.field("n") > 100},
    "both": {"columns": {"s": pc.field("s")}, "filter": pc.field("kind").cast("string") == "3"},
    "nulls": {"filter": pc.field("n").is_null()},
    "few rows at a time": {"columns": ["n"], "batch_size": 7},
    "a filter of no column": {"filter": pc.scalar(True)},
    "no column of all rows": {"columns": [], "filter": pc.scalar(True)},
    "no column of no row": {"columns": [], "filter": pc.scalar(False)},
    "a constant": {"columns": {"one": pc.scalar(1)}},
    "a constant of some rows": {"columns": {"one": pc.scalar(1)}, "filter": pc.field("n") > 100},
    "no expression": {"columns": {}},
    "no expression of some rows": {"columns": {}, "filter": pc.field("n") > 100},
}


@pytest.mark.parametrize("name", SCANS)
def test_scans_are_those_of_pyarrow_over_the_same_table(url: str, name: str) -> None:
    asked = SCANS[name]
    wanted = pds.InMemoryDataset(TABLE).scanner(**asked, use_threads=False).to_table()
    dataset = tfs.arrow_dataset(url)
    assert isinstance(dataset, pds.Dataset)
    for _ in range(2):
        found = dataset.to_table(**asked)
        assert found.num_rows == wanted.num_rows
        assert found.equals(wanted) or not wanted.num_columns
    assert dataset.scanner(**asked).projected_schema.equals(wanted.schema)
    first = wanted.slice(0, min(5, wanted.num_rows))
    assert dataset.head(5, **asked).equals(first)
    batches = list(dataset.to_batches(**asked))
    assert max((batch.num_rows for batch in batches), default=0) <= asked.get("batch_size", ROWS)
    assert dataset.count_rows(filter=asked.get("filter")) == wanted.num_rows


@pytest.mark.parametrize("columns", ["n", b"n", [pc.field("n")], ["n", 1]], ids=str)
def test_columns_that_are_no_names(url: str, columns: Any) -> None:
    with pytest.raises(TypeError, match="columns= takes a list of names"):
        tfs.arrow_dataset(url).to_table(columns=columns)


def test_the_types_are_those_of_the_table(url: str) -> None:
    dataset = tfs.arrow_dataset(url)
    assert dataset.schema.equals(TABLE.schema, check_metadata=True)
    found = dataset.to_table(filter=pc.field("n") > 100)
    assert found.schema.equals(TABLE.schema, check_metadata=True)
    reader = dataset.scanner().to_reader()
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all().equals(TABLE, check_metadata=True)


def test_a_schema_and_columns(url: str) -> None:
    dataset = tfs.arrow_dataset(url, {"n": tfs.Feature("int64", nullable=True), "s": "bytes"})
    assert dataset.schema.names == ["n", "s"]
    assert dataset.to_table()["s"][1].as_py() == "é1".encode()
    dataset = tfs.arrow_dataset(url, columns=["s", "n"])
    assert dataset.to_table().equals(TABLE.select(["s", "n"]))
    with pytest.raises(KeyError, match="no feature 'z'; there are n, s"):
        tfs.arrow_dataset(url, columns=["z"])
    with pytest.raises(KeyError, match="no column 'list'; there are s, n"):
        dataset.scanner(columns=["list"])
    with pytest.raises(pa.ArrowInvalid, match="__filename"):
        dataset.to_table(columns={"file": pc.field("__filename")})
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        dataset.to_table(batch_size=0)


def test_only_what_a_scan_needs_is_decoded(tmp_path: Path) -> None:
    """A column that does not fit its schema is an error where it is decoded."""
    tfs.write_table({"x": [1, 2], "y": [1, 2]}, f"{tmp_path}/t", num_shards=1)
    dataset = tfs.arrow_dataset(f"{tmp_path}/t", {"x": "int64", "y": "str", "z": "str"})
    assert dataset.to_table(columns=["x"], filter=pc.field("x") > 1)["x"].to_pylist() == [2]
    assert dataset.to_table(columns={"y": pc.field("x")})["y"].to_pylist() == [1, 2]
    for asked in ({"filter": pc.field("y") == "a", "columns": ["x"]}, {"columns": ["z"]}):
        with pytest.raises(tfs.SchemaError, match=f"{tmp_path}/t"):
            dataset.to_table(**asked)


def test_foreign_files_and_lists(tmp_path: Path) -> None:
    for name, rows in (("a", range(5)), ("b", range(5, 9))):
        with tfs.TFRecordWriter(tmp_path / name) as writer:
            for x in rows:
                writer.write({"x": x} | ({"late": 1.5} if x == 8 else {}))
    dataset = tfs.arrow_dataset(tmp_path / name for name in ("a", "b"))
    for _ in range(2):
        assert dataset.to_table()["x"].to_pylist() == list(range(9))
    assert dataset.count_rows() == 9
    assert dataset.count_rows(filter=pc.field("late") > 1) == 1
    assert repr(dataset) == "<ExampleDataset of 2 sources: late, x>"


def test_a_part_of_a_dataset(url: str) -> None:
    parts = tfs.partitions(url, num_partitions=3)
    datasets = [tfs.arrow_dataset(part) for part in parts]
    assert [each.count_rows() for each in datasets] == [part.num_records for part in parts]
    found = pa.concat_tables([each.to_table(columns=["n"]) for each in datasets])
    assert found.equals(TABLE.select(["n"]))
    last = tfs.arrow_dataset(tfs.slice(url, "80%:"))
    assert last.to_table(columns=["n"]).equals(TABLE.select(["n"]).slice(ROWS * 8 // 10))
    assert last.count_rows() == ROWS // 5
    assert repr(datasets[0]).startswith(f"<ExampleDataset of partition 0 of {url}-00000.tfrecord")


def test_no_rows(tmp_path: Path) -> None:
    tfs.write_table(TABLE[:0], f"{tmp_path}/t")
    dataset = tfs.arrow_dataset(f"{tmp_path}/t")
    assert dataset.to_table().equals(TABLE[:0])
    assert dataset.to_table(filter=pc.field("n") > 1).equals(TABLE[:0])
    assert (dataset.count_rows(), list(dataset.to_batches())) == (0, [])
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(tfs.errors.NoRecordsError, match="infer a schema"):
        tfs.arrow_dataset(tmp_path / "empty")


def test_it_pickles_as_names_and_shows_no_secret(url: str) -> None:
    dataset = pickle.loads(pickle.dumps(tfs.arrow_dataset(url)))
    assert dataset.to_table().equals(TABLE)
    signed = tfs.arrow_dataset("https://user:S3CR3T@host/t?token=S3CR3T", {"x": "int64"})
    assert repr(signed) == "<ExampleDataset of https://host/t?token=…: x>"


def test_a_damaged_record_is_named_behind_what_is_right(tmp_path: Path) -> None:
    records = [tfs.encode_example({"x": np.arange(i, i + 2000)}) for i in range(600)]
    data = bytearray(framed(records))
    data[-100] ^= 1
    (tmp_path / "f").write_bytes(data)
    dataset = tfs.arrow_dataset(tmp_path / "f", {"x": ("int64", (2000,))})
    offset = len(framed(records[:-1]))
    right = 0
    with pytest.raises(tfs.CorruptRecordError, match=re.escape(str(tmp_path))) as found:
        for batch in dataset.to_batches(filter=pc.field("x").is_valid()):
            right += batch.num_rows
    assert found.value.offset == offset
    assert right > 0
    for read in (lambda: dataset.scanner().to_reader().read_all(), lambda: pa.table(dataset)):
        with pytest.raises(Exception, match=rf"{tmp_path}.*{offset}"):
            read()


def test_a_scan_that_ends_early_reads_no_more(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [tfs.encode_example({"x": b"%07d" % i * (1 << 15)}) for i in range(400)]
    memory.put("f", framed(records))
    whole = sum(map(len, records))
    counted = Counted(memory.open()[0], monkeypatch)
    dataset = tfs.arrow_dataset(memory.url("f"), {"x": "bytes"}, memory_budget=1 << 20)
    ways: dict[str, Callable[[], Any]] = {
        "batches": lambda: next(dataset.to_batches()),
        "filtered": lambda: next(dataset.to_batches(filter=pc.field("x") != b"a")),
        "reader": lambda: dataset.scanner().to_reader().read_next_batch(),
        "capsule": lambda: pa.RecordBatchReader.from_stream(dataset).read_next_batch(),
        "head": lambda: dataset.head(1),
    }
    for name, way in ways.items():
        counted.clear()
        assert way()["x"][0].as_py() == b"0000000" * (1 << 15)
        assert counted.nbytes < whole // 2, name


def test_nothing_is_read_before_it_is_asked_for(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    tfs.write_table(TABLE, s3.url("t"), storage_options=s3.storage_options, num_shards=1)
    dataset = tfs.arrow_dataset(s3.url("t"), storage_options=s3.storage_options)
    counted = Counted(s3.open()[0], monkeypatch)
    dataset.scanner(columns=["n"]).to_reader()
    dataset.to_batches()
    assert counted.ranges == []


def unbased() -> set[str]:
    """The methods of pyarrow's class which only C++ could do, so that ours must not inherit them:
    there is nothing beneath, and Python would end without a word."""
    through_scanner = {"to_batches", "to_table", "take", "head", "count_rows"}
    python = {name for name in dir(pds.Dataset) if not name.startswith("__")}
    return python - through_scanner - {"_scan_options"}


def test_nothing_of_pyarrow_is_inherited_but_what_goes_through_the_scanner(url: str) -> None:
    dataset = tfs.arrow_dataset(url)
    for name in unbased():
        assert getattr(type(dataset), name) is not getattr(pds.Dataset, name), name
    for refused in (
        lambda: dataset.partition_expression,
        lambda: list(dataset.get_fragments()),
        lambda: dataset.filter(pc.field("n") > 1),
        lambda: dataset.sort_by("n"),
        lambda: dataset.join(dataset, "n"),
        lambda: dataset.take([1]),
        lambda: pds.dataset([dataset, dataset]),
    ):
        with pytest.raises(NotImplementedError, match="pass columns= and filter="):
            refused()


def test_pyarrow_writes_it(url: str, tmp_path: Path) -> None:
    pds.write_dataset(tfs.arrow_dataset(url), tmp_path / "parquet", format="parquet")
    found = pds.dataset(tmp_path / "parquet").to_table()
    # its threads write the batches in any order
    assert sorted(found["blob"].to_pylist()) == sorted(TABLE["blob"].to_pylist())

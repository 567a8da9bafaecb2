"""Columns go through the engines: those that a writer of mappings learned, round trips of each, and
a chain of all of them. docs/engines.md has the table."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support import learned

pa = pytest.importorskip("pyarrow")
pytestmark = pytest.mark.timeout(900)

COUNT = 2_000
Read = Callable[..., Any]


class Engine:
    """One engine's doors, in the words of Arrow: what it gives is a table, and so is what it
    takes. ``wide`` ones hold fixed arrays."""

    def __init__(self, name: str, request: pytest.FixtureRequest) -> None:
        self.name, self._request = name, request
        getattr(self, f"_begin_{name}")()

    def read(self, url: str, **options: Any) -> Any:
        return getattr(self, f"_read_{self.name}")(url, **options)

    def write(self, table: Any, url: str, **options: Any) -> None:
        getattr(self, f"_write_{self.name}")(table, url, **options)

    # Ray

    def _begin_ray(self) -> None:
        pytest.importorskip("ray")
        self._request.getfixturevalue("ray_cluster")

    def _read_ray(self, url: str, **options: Any) -> Any:
        from tfio_store.ray import read_tfrecords

        return read_tfrecords(url, override_num_blocks=2, **options).take_all()

    def _write_ray(self, table: Any, url: str, **options: Any) -> None:
        import ray

        from tfio_store.ray import write_tfrecords

        write_tfrecords(ray.data.from_arrow(table).repartition(2), url, **options)

    # Dask

    def _begin_dask(self) -> None:
        pytest.importorskip("dask")

    def _read_dask(self, url: str, **options: Any) -> Any:
        import dask

        from tfio_store.dask import read_tfrecords

        with dask.config.set(scheduler="synchronous"):
            return read_tfrecords(url, npartitions=2, **options).compute().to_dict("records")

    def _write_dask(self, table: Any, url: str, **options: Any) -> None:
        import dask
        import dask.dataframe as dd
        import pandas as pd

        from tfio_store.dask import to_tfrecords

        dtypes = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame = table.to_pandas(types_mapper=dtypes.get)
        with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
            to_tfrecords(dd.from_pandas(frame, npartitions=2), url, **options)

    # Spark

    def _begin_spark(self) -> None:
        pytest.importorskip("pyspark")
        self._spark = self._request.getfixturevalue("spark")

    def _read_spark(self, url: str, schema: Any = None, **options: Any) -> Any:
        reader = self._spark.read.format("tfio_store").options(**options)
        if schema is not None:
            reader = reader.option("schema", schema)
        return [row.asDict() for row in reader.load(url).collect()]

    def _write_spark(self, table: Any, url: str, schema: Any = None) -> None:
        writer = self._spark.createDataFrame(table).repartition(2).write.format("tfio_store")
        if schema is not None:
            writer = writer.option("schema", schema if schema == "bytes" else json.dumps(schema))
        writer.mode("append").save(url)

    # Beam

    def _begin_beam(self) -> None:
        pytest.importorskip("apache_beam")

    def _read_beam(self, url: str, **options: Any) -> Any:
        import apache_beam as beam

        from tfio_store.beam import ReadFromTFRecord

        FOUND.clear()
        with beam.Pipeline("FnApiRunner") as pipeline:
            _ = pipeline | ReadFromTFRecord(url, batched=True, **options) | beam.Map(find)
        return list(FOUND)

    def _write_beam(self, table: Any, url: str, **options: Any) -> None:
        import apache_beam as beam

        from tfio_store.beam import WriteToTFRecord

        batches = table.to_batches(max_chunksize=max(1, len(table) // 2))
        with beam.Pipeline("FnApiRunner") as pipeline:
            tables = pipeline | beam.Create(batches)
            _ = tables | WriteToTFRecord(url, batched=True, **options)


FOUND: list[dict[str, Any]] = []


def find(batch: Any) -> None:
    FOUND.extend(batch.to_pylist())


ENGINES = ["ray", "dask", "spark", "beam"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return Engine(request.param, request)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("learned") / "train")
    learned.write(found, COUNT)
    return found


def plain(value: Any) -> Any:
    """Arrays as lists, and each engine's null as None."""
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    if isinstance(value, np.generic):
        return value.item()
    return None if value is None or str(value) in ("<NA>", "nan", "NaT") else value


def rows_of(found: Iterable[Any], key: str = "number") -> list[dict[str, Any]]:
    rows = [{name: plain(row[name]) for name in row} for row in found]
    return sorted(rows, key=lambda row: row[key])


def test_mappings_come_back_with_their_columns(engine: Engine, url: str) -> None:
    found = engine.read(url)
    assert tuple(found[0]) == learned.NAMES
    assert rows_of(found) == [learned.row(i) for i in range(COUNT)]


def test_bytes_are_the_records(engine: Engine, url: str, tmp_path: Path) -> None:
    found = [plain(row["record"]) for row in engine.read(url, schema="bytes")]
    with tfs.RecordReader(url) as reader:
        records = sorted(reader)
    assert sorted(found) == records
    table = pa.table({"record": pa.array(found[:10], pa.binary())})
    with pytest.raises(Exception, match="holds serialized Examples"):
        engine.write(table, str(tmp_path / "a"))
    engine.write(table, str(tmp_path / "b"), schema="bytes")
    assert sorted(tfs.RecordReader(tmp_path / "b")) == sorted(found[:10])
    engine.write(table, str(tmp_path / "c"), schema={"record": "bytes"})
    assert sorted(tfs.read_table(tmp_path / "c")["record"]) == sorted(found[:10])


def test_auto_makes_columns_of_foreign_files(engine: Engine, tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "t.tfrecord") as writer:
        for i in range(30):
            writer.write(tfs.encode_example({"number": i, "ids": [1] * (i % 3), "name": b"a"}))
    found = engine.read(str(tmp_path / "t.tfrecord"))
    assert [*found[0]] == ["record"]
    found = rows_of(engine.read(str(tmp_path / "t.tfrecord"), schema="auto"))
    assert found == [{"ids": [1] * (i % 3), "name": b"a", "number": i} for i in range(30)]


def test_what_tensorflow_datasets_wrote_has_columns(engine: Engine, tmp_path: Path) -> None:
    from tests.support.framed import framed

    folder = tmp_path / "made" / "1.0.0"
    folder.mkdir(parents=True)
    scalar = {"tensor": {"shape": {}, "dtype": "int64", "encoding": "none"}}
    features = {"number": scalar, "text": {"text": {}}}
    told = {"featuresDict": {"features": features}}
    (folder / "features.json").write_text(json.dumps(told))
    info = {"name": "made", "splits": [{"name": "train", "shardLengths": ["3"]}]}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    records = [tfs.encode_example({"number": i, "text": "é"}) for i in range(3)]
    (folder / "made-train.tfrecord-00000-of-00001").write_bytes(framed(records))
    found = rows_of(engine.read(f"{folder}/train"))
    assert found == [{"number": i, "text": "é"} for i in range(3)]


# Round trips

DAY = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000)
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "whole number": (pa.int64(), [5, -(2**62), 0, 7]),
    "small number": (pa.int32(), [5, -7, 0, 7]),
    "float": (pa.float32(), [0.5, -1.5, 0.0, 3.0]),
    "flag": (pa.bool_(), [True, False, True, True]),
    "text": (pa.string(), ["é", "", "a\0b", "d"]),
    "bytes": (pa.binary(), [b"\xff", b"", b"a\0", b"d"]),
    "time": (pa.timestamp("us"), [DAY] * 4),
    "maybe number": (pa.int64(), [2**53 + 1, None, 0, None]),
    "maybe float": (pa.float32(), [0.5, None, 0.0, None]),
    "maybe flag": (pa.bool_(), [True, None, False, None]),
    "maybe text": (pa.string(), ["é", None, "", None]),
    "maybe bytes": (pa.binary(), [b"\xff", None, b"", None]),
    "maybe time": (pa.timestamp("us"), [DAY, None, DAY, None]),
    "numbers": (pa.list_(pa.int64()), [[1, 2], [], [3], [4, 5, 6]]),
    "floats": (pa.list_(pa.float32()), [[0.5], [], [3.0, 1.5], []]),
    "texts": (pa.list_(pa.string()), [["é", ""], [], ["a"], []]),
    "maybe numbers": (pa.list_(pa.int64()), [[1, 2], None, [], [3]]),
    "maybe texts": (pa.list_(pa.string()), [["a"], None, [], None]),
    "pairs": (pa.list_(pa.int64()), [[1, 2], [3, 4], [5, 6], [7, 8]]),
    "no values": (pa.list_(pa.int64()), [[], [], [], []]),
    "only nulls": (pa.int64(), [None] * 4),
}


def table_of_kinds() -> Any:
    made = {"z": pa.array(range(4), pa.int64())}
    made |= {name: pa.array(values, kind) for name, (kind, values) in KINDS.items()}
    made["a"] = pa.array(range(4), pa.int64())
    return pa.table(made)


@pytest.fixture(scope="module", params=ENGINES)
def there_and_back(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[str, Any]:
    engine = Engine(request.param, request)
    url = str(tmp_path_factory.mktemp("kinds") / "t")
    engine.write(table_of_kinds(), url)
    return url, engine.read(url)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_comes_back(there_and_back: tuple[str, Any], kind: str) -> None:
    shown = [row[kind] for row in rows_of(there_and_back[1], "z")]
    shown = [getattr(value, "to_pydatetime", lambda value=value: value)() for value in shown]
    assert shown == KINDS[kind][1]
    assert [type(value) for value in shown] == [type(value) for value in KINDS[kind][1]]


def test_columns_keep_their_order(there_and_back: tuple[str, Any]) -> None:
    url, found = there_and_back
    assert [*found[0]] == ["z", *KINDS, "a"] == [*tfs.infer_schema(url)]


# Months of other columns

MONTHS: list[dict[str, Any]] = [
    {"number": [0, 1], "name": pa.array(["a", "b"])},
    {"number": [2, 3], "price": pa.array([0.5, None], pa.float32()), "ids": [[1], [2, 3]]},
    {"number": [4, 5], "name": pa.array([None, "c"], pa.string())},
]


def test_months_of_other_columns_are_one_dataset(engine: Engine, tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    mode = {} if engine.name == "spark" else {"if_exists": "append"}
    for month in MONTHS:
        engine.write(pa.table(month), url, **mode)
    rows = [row for month in MONTHS for row in pa.table(month).to_pylist()]
    names = ("number", "name", "price", "ids")
    assert rows_of(engine.read(url)) == [{name: row.get(name) for name in names} for row in rows]
    with pytest.raises(Exception, match=r"feature 'price'.*row 0 is str.*float32"):
        engine.write(pa.table({"number": [6, 7], "price": ["1", "2"]}), url, **mode)
    assert tfs.count(url) == 6


# The chain


def pipe(name: str, source: str, target: str, request: pytest.FixtureRequest) -> None:
    """Read a dataset by an engine, and write what it has, in the engine's own form."""
    engine = Engine(name, request)
    if name == "ray":
        from tfio_store.ray import read_tfrecords, write_tfrecords

        write_tfrecords(read_tfrecords(source), target)
    elif name == "dask":
        import dask

        from tfio_store.dask import read_tfrecords as read_frame, to_tfrecords

        with dask.config.set(scheduler="synchronous"):
            to_tfrecords(read_frame(source, npartitions=2), target)
    elif name == "spark":
        frame = engine._spark.read.format("tfio_store").load(source)
        frame.write.format("tfio_store").mode("append").save(target)
    else:
        import apache_beam as beam

        from tfio_store.beam import ReadFromTFRecord, WriteToTFRecord

        with beam.Pipeline("FnApiRunner") as pipeline:
            batches = pipeline | ReadFromTFRecord(source, batched=True)
            _ = batches | WriteToTFRecord(target, batched=True)


def kind_of(feature: tfs.Feature, *, shaped: bool) -> tuple[Any, ...]:
    """What an engine keeps of a feature: the shape if it has arrays, else how deep lists are. A
    feature without values is one of bytes in Arrow."""
    dtype = "bytes" if feature.dtype == "unknown" else feature.dtype
    return dtype, feature.shape if shaped else len(feature.shape), feature.nullable


@pytest.mark.parametrize("made_of", ["mappings", "a table"])
@pytest.mark.parametrize(
    "engines", [[name] for name in ENGINES] + [["ray", "spark", "dask", "beam"]]
)
def test_a_chain_of_engines_changes_nothing(
    engines: list[str], made_of: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first = at = str(tmp_path / "first")
    if made_of == "mappings":
        learned.write(first, COUNT)
    else:
        tfs.write_table(table_of_kinds().rename_columns({"z": "number"}), first)
    for name in engines:
        pipe(name, at, str(tmp_path / name), request)
        at = str(tmp_path / name)
    before, after = tfs.read_table(first), tfs.read_table(at)
    assert [*after] == [*before]
    rows, wanted = (rows_of(table.to_arrow().to_pylist()) for table in (after, before))
    assert rows == wanted
    shaped = {*engines} <= {"ray", "beam"}
    kinds, known = (
        {name: kind_of(table.schema[name], shaped=shaped) for name in table}
        for table in (after, before)
    )
    assert kinds == known

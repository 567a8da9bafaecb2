"""What one engine writes, every other one reads record for record, and so does TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

import tfio_store as tfs

pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

Row = tuple[int, str, float, "int | None"]

ROWS: list[Row] = [(i, f"ж{i}", i / 4, None if i % 3 else i) for i in range(200)]
NAMES = ("number", "text", "quarter", "maybe")


def arrow_table() -> Any:
    import pyarrow as pa

    types = (pa.int64(), pa.string(), pa.float32(), pa.int64())
    columns = zip(zip(*ROWS, strict=True), types, strict=True)
    return pa.table([pa.array(list(c), kind) for c, kind in columns], names=NAMES)


def frame() -> Any:
    import pandas as pd

    return arrow_table().to_pandas(types_mapper={arrow_table()["maybe"].type: pd.Int64Dtype()}.get)


def by_ray(url: str, request: pytest.FixtureRequest) -> None:
    ray = pytest.importorskip("ray")
    request.getfixturevalue("ray_cluster")
    from tfio_store.ray import write_tfrecords

    write_tfrecords(ray.data.from_arrow(arrow_table()).repartition(3), url)


def by_dask(url: str, request: pytest.FixtureRequest) -> None:
    dask = pytest.importorskip("dask")
    import dask.dataframe as dd

    from tfio_store.dask import to_tfrecords

    with dask.config.set(scheduler="synchronous"):
        to_tfrecords(dd.from_pandas(frame(), npartitions=3), url)


def by_spark(url: str, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("pyspark")
    rows = request.getfixturevalue("spark").createDataFrame(
        ROWS, "number bigint, text string, quarter float, maybe bigint"
    )
    rows.repartition(3).write.format("tfio_store").mode("append").save(url)


def by_beam(url: str, request: pytest.FixtureRequest) -> None:
    beam = pytest.importorskip("apache_beam")
    from tfio_store.beam import WriteToTFRecord

    with beam.Pipeline("FnApiRunner") as pipeline:
        tables = pipeline | beam.Create(arrow_table().to_batches(max_chunksize=50))
        _ = tables | WriteToTFRecord(url, num_shards=3, batched=True)


def in_ray(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    pytest.importorskip("ray")
    request.getfixturevalue("ray_cluster")
    from tfio_store.ray import read_tfrecords

    found: list[dict[str, Any]] = read_tfrecords(url).take_all()
    return found


def in_dask(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    dask = pytest.importorskip("dask")
    from tfio_store.dask import read_tfrecords

    with dask.config.set(scheduler="synchronous"):
        found: list[dict[str, Any]] = read_tfrecords(url).compute().to_dict("records")
    return found


def in_spark(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    pytest.importorskip("pyspark")
    reader = request.getfixturevalue("spark").read.format("tfio_store")
    return [row.asDict() for row in reader.load(url).collect()]


def in_beam(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    beam = pytest.importorskip("apache_beam")
    from tfio_store.beam import ReadFromTFRecord

    FOUND.clear()
    with beam.Pipeline("FnApiRunner") as pipeline:
        _ = pipeline | ReadFromTFRecord(url, batched=True) | beam.Map(find)
    return FOUND


FOUND: list[dict[str, Any]] = []
"""What Beam's functions find, which run in this process."""


def find(batch: Any) -> None:
    FOUND.extend(batch.to_pylist())


def in_ours(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    found: list[dict[str, Any]] = tfs.read_table(url).to_arrow().to_pylist()
    return found


def in_tensorflow(url: str, request: pytest.FixtureRequest) -> Iterable[Mapping[str, Any]]:
    """Its own reader and parser, with no more of ours than the names of the files."""
    import tensorflow as tf

    files = [shard.url for shard in tfs.info(url).shards]
    for record in tf.data.TFRecordDataset(files):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        maybe = features["maybe"].int64_list.value if "maybe" in features else []
        yield {
            "number": features["number"].int64_list.value[0],
            "text": features["text"].bytes_list.value[0].decode(),
            "quarter": features["quarter"].float_list.value[0],
            "maybe": maybe[0] if maybe else None,
        }


WRITERS: dict[str, Callable[[str, pytest.FixtureRequest], None]] = {
    "ray": by_ray,
    "dask": by_dask,
    "spark": by_spark,
    "beam": by_beam,
}
READERS: dict[str, Callable[[str, pytest.FixtureRequest], Iterable[Mapping[str, Any]]]] = {
    "ray": in_ray,
    "dask": in_dask,
    "spark": in_spark,
    "beam": in_beam,
    "ours": in_ours,
    "tensorflow": in_tensorflow,
}


@pytest.fixture(scope="module", params=sorted(WRITERS))
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    url = str(tmp_path_factory.mktemp(request.param) / "t")
    WRITERS[request.param](url, request)
    return url


@pytest.mark.parametrize("reader", sorted(READERS))
def test_each_reads_what_each_wrote(
    written: str, reader: str, request: pytest.FixtureRequest
) -> None:
    found = [row_of(each) for each in READERS[reader](written, request)]
    assert sorted(found) == sorted(map(row_of_tuple, ROWS))


def row_of(found: Mapping[str, Any]) -> tuple[int, str, float, int]:
    """As numbers and text that sort. Engines have nulls of several kinds, of which a NaN is one."""
    return row_of_tuple(tuple(found[name] for name in NAMES))


def row_of_tuple(row: Any) -> tuple[int, str, float, int]:
    number, text, quarter, maybe = row
    is_null = maybe is None or str(maybe) in ("<NA>", "nan")
    return int(number), str(text), float(quarter), -1 if is_null else int(maybe)

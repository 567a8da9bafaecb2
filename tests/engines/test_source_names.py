"""Names of sources in Ray, Beam, Spark and Dask, and files that others compressed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.foreign import short_blocks
from tests.support.named import MEANINGS, MISTAKES, put_in
from tests.vectors.make_foreign import COUNT, FOLDER

pytestmark = pytest.mark.timeout(900)  # on a machine with other work, Spark takes minutes

NAMES = (
    "{}dv/examples.tfrecord@*",
    "{}dv",
    "tfrecord:{}ydf/ds@2,{}basenji/train-0.tfr",
    "{}basenji/{{train,valid}}-{{1,0}}.tfr",
    "{}lit/a,b",
)
"""One of each kind: a job takes a second or more."""

SCHEMA: dict[str, dict[str, Any]] = {"name": {"name": "str"}, "i": {"i": "int64"}}

MISTAKEN = ("{}dv/exmaples.tfrecord@3.gz", "{}holes/x@4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return put_in(tmp_path_factory.mktemp("named"))


def by_ray(names: list[str], column: str, request: pytest.FixtureRequest) -> list[list[Any]]:
    pytest.importorskip("ray")
    request.getfixturevalue("ray_cluster")
    from tfio_store.ray import read_tfrecords

    read = [read_tfrecords(name, schema=SCHEMA[column]) for name in names]
    return [[row[column] for row in rows.take_all()] for rows in read]


def by_beam(names: list[str], column: str, request: pytest.FixtureRequest) -> list[list[Any]]:
    beam = pytest.importorskip("apache_beam")
    from apache_beam.options.pipeline_options import PipelineOptions

    from tfio_store.beam import ReadFromTFRecord

    kept = request.getfixturevalue("tmp_path")
    with beam.Pipeline("FnApiRunner", options=PipelineOptions([])) as pipeline:
        for number, name in enumerate(names):
            records = pipeline | f"read {number}" >> ReadFromTFRecord(name)
            _ = records | f"write {number}" >> beam.io.WriteToTFRecord(f"{kept}/read-{number}")
    found = [list(tfs.RecordReader(f"{kept}/read-{i}-*")) for i in range(len(names))]
    return [list(tfs.decode_examples(each, SCHEMA[column])[column]) for each in found]


def by_spark(names: list[str], column: str, request: pytest.FixtureRequest) -> list[list[Any]]:
    pytest.importorskip("pyspark")
    read = request.getfixturevalue("spark").read.format("tfio_store")
    read = read.schema(f"{column} {'string' if column == 'name' else 'bigint'}")
    return [[row[column] for row in read.load(name).collect()] for name in names]


def by_dask(names: list[str], column: str, request: pytest.FixtureRequest) -> list[list[Any]]:
    pytest.importorskip("dask.dataframe")
    from tfio_store.dask import read_tfrecords

    frames = [read_tfrecords(name, schema=SCHEMA[column]) for name in names]
    return [list(frame.compute(scheduler="synchronous")[column]) for frame in frames]


Door = Callable[[list[str], str, pytest.FixtureRequest], list[list[Any]]]
DOORS = pytest.mark.parametrize("door", [by_ray, by_beam, by_spark, by_dask])


@DOORS
def test_meanings(folder: str, door: Door, request: pytest.FixtureRequest) -> None:
    found = door([name.format(*[f"{folder}/"] * 9) for name in NAMES], "name", request)
    for name, files in zip(NAMES, found, strict=True):
        assert sorted(map(str, files)) == sorted(MEANINGS[name]), name


@DOORS
@pytest.mark.parametrize("name", MISTAKEN)
def test_mistakes(folder: str, name: str, door: Door, request: pytest.FixtureRequest) -> None:
    _, text = MISTAKES[name]
    with pytest.raises(Exception, match=text):
        door([name.format(f"{folder}/")], "name", request)


@DOORS
def test_files_that_others_compressed(
    tmp_path: Path, door: Door, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(shutil.copy(FOLDER / name, tmp_path)) for name in ("hadoop.gz", "bgzip.gz")]
    short_blocks(monkeypatch)
    for path in paths:
        tfs.build_index(path)
    assert len(tfs.partitions(paths[0], num_partitions=3)) == 3
    assert [sorted(each) for each in door(paths, "i", request)] == [list(range(COUNT))] * 2


def test_tasks_write_no_number_of_shards(tmp_path: Path) -> None:
    pytest.importorskip("dask.dataframe")
    import dask.dataframe as dd

    from tfio_store.dask import to_tfrecords

    frame = dd.from_dict({"x": [1, 2]}, npartitions=2)
    with pytest.raises(ValueError, match="tasks write shards of their own"):
        to_tfrecords(frame, str(tmp_path / "x@2"))
    assert list(tmp_path.iterdir()) == []

"""Beam reads and writes datasets, on the runner that is made of the same parts as distant ones."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed

pytest.importorskip("apache_beam", reason="Beam is not installed")

import apache_beam as beam
from apache_beam.coders import VarIntCoder
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import fn_runner
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment

from tfio_store.beam import ReadAllFromTFRecord, ReadFromTFRecord, WriteToTFRecord

RECORDS = [b"record %d" % i for i in range(3000)]


def pipeline(**options: Any) -> Any:
    """By name: the default runner would look for another one outside of this machine."""
    return beam.Pipeline("FnApiRunner", options=PipelineOptions([], **options))


def pipeline_by_grpc() -> Any:
    """One whose worker goes on while the runner speaks to it."""
    runner = fn_runner.FnApiRunner(default_environment=EmbeddedPythonGrpcEnvironment())
    return beam.Pipeline(runner, options=PipelineOptions([]))


def records(*, times: int = 1) -> Callable[[list[bytes]], None]:
    """What `assert_that` takes. An error tells a few records, not thousands, and how many of each
    are missing."""

    def check(found: list[bytes]) -> None:
        missing, more = Counter(RECORDS * times), Counter(found)
        missing.subtract(more)
        odd = {record: count for record, count in missing.items() if count}
        assert not odd, f"{len(odd)} records have other counts, such as {[*odd.items()][:5]}"

    return check


def gzip_blocks(place: Place, name: str = "t") -> str:
    """One GZIP shard of many blocks."""
    url = place.url(name)
    with tfs.ShardedWriter(
        url,
        num_shards=1,
        compression="GZIP",
        block_bytes=4096,
        storage_options=place.storage_options,
    ) as writer:
        for record in RECORDS:
            writer.write(record)
    return url


def read_back(url: str, place: Place) -> list[bytes]:
    return sorted(tfs.RecordReader(url, storage_options=place.storage_options))


def left_over(url: str, place: Place) -> list[str]:
    """What is beside the dataset and no claim of a job that was begun twice."""
    found = tfs.clean(url, older_than=0, storage_options=place.storage_options)
    return [name for name in (*found.objects, *found.uploads) if ".claim" not in name]


def test_records_there_and_back(s3: Place) -> None:
    url = s3.url("folder/t ж")
    with pipeline() as p:
        written = (
            p | beam.Create(RECORDS) | WriteToTFRecord(url, storage_options=s3.storage_options)
        )
        assert_that(written, equal_to([url]))
    assert read_back(url, s3) == sorted(RECORDS)
    assert left_over(url, s3) == []
    with pipeline() as p:
        read = p | ReadFromTFRecord(url, storage_options=s3.storage_options)
        assert_that(read, records())


def test_as_many_shards_as_are_asked_for(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    with pipeline() as p:
        records_in = p | beam.Create(RECORDS)
        _ = records_in | WriteToTFRecord(url, num_shards=5, compression_type="gzip", names="plain")
    assert read_back(url, Place(str(tmp_path))) == sorted(RECORDS)
    found = tfs.info(url)
    assert (len(found.shards), found.compression) == (5, "GZIP")
    assert len(list(tmp_path.glob("t-*-of-00005.tfrecord"))) == 5


def test_mappings_and_columns(tmp_path: Path) -> None:
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    rows = [{"x": i, "text": "ж" * (i % 5)} for i in range(500)]
    schema = {"x": "int64", "text": "str"}
    with pipeline() as p:
        written = p | beam.Create(rows) | WriteToTFRecord(one, schema=schema)
        tables = written | ReadAllFromTFRecord(batched=True)
        _ = tables | "again" >> WriteToTFRecord(two, batched=True)
        assert_that(written, equal_to([one]))
    for url in (one, two):
        table = tfs.read_table(url)
        assert sorted(zip(table["x"], table["text"], strict=True)) == sorted(
            (row["x"], row["text"]) for row in rows
        )
    with pipeline() as p:
        read = p | ReadFromTFRecord(two, batched=True, columns=["x"])
        names = read | "names" >> beam.FlatMap(lambda batch: batch.schema.names)
        assert_that(names | beam.Distinct(), equal_to(["x"]), label="only the wanted columns")
        numbers = read | "numbers" >> beam.FlatMap(lambda batch: batch.to_pydict()["x"])
        assert_that(numbers, equal_to(range(500)))


def test_files_without_a_manifest(s3: Place) -> None:
    for shard in range(3):
        s3.put(f"f-{shard}", framed(RECORDS[shard * 1000 : (shard + 1) * 1000]))
    where: Any = {"storage_options": s3.storage_options}
    with pipeline() as p:
        assert_that(p | ReadFromTFRecord(s3.url("f-*"), **where), records())
        sources = p | beam.Create([s3.url("f-1"), s3.url("f-2"), s3.url("nothing-*")])
        named = sources | ReadAllFromTFRecord(with_filename=True, **where)
        wanted = [(s3.url(f"f-{i // 1000}"), RECORDS[i]) for i in range(1000, 3000)]
        assert_that(named, equal_to(wanted), label="with the file of each")
        tables = p | "tables" >> ReadFromTFRecord(s3.url("f-0"), batched=True, **where)
        columns = tables | beam.Map(lambda batch: batch.schema.names) | beam.Map(tuple)
        assert_that(columns | beam.Distinct(), equal_to([("record",)]), label="as bytes")


def test_a_coder(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    with pipeline() as p:
        _ = p | beam.Create(range(100)) | WriteToTFRecord(url, coder=VarIntCoder())
    with pipeline() as p:
        assert_that(p | ReadFromTFRecord(url, coder=VarIntCoder()), equal_to(range(100)))


@pytest.mark.parametrize("num_shards", [0, 3])
def test_no_elements(tmp_path: Path, num_shards: int) -> None:
    url = str(tmp_path / "t")
    with pipeline() as p:
        empty = p | beam.Create([])
        _ = empty | WriteToTFRecord(url, num_shards=num_shards, schema={"x": "int64"})
    assert tfs.count(url) == 0
    assert list(tfs.infer_schema(url)) == ["x"]
    with pipeline() as p:
        assert_that(p | ReadFromTFRecord(url), equal_to([]))


AT_WORK = threading.Event()


def slowly(record: bytes) -> bytes:
    """So slow that a split finds something left."""
    AT_WORK.set()
    time.sleep(0.001)
    return record


def test_a_task_is_split_while_it_runs_within_a_gzip_shard(tmp_path: Path) -> None:
    url = gzip_blocks(Place(str(tmp_path)))
    AT_WORK.clear()
    splits: list[Any] = []

    def splitting(elements: int) -> Iterator[float | None]:
        """Half of what is left is to be another task's, and half of that again."""
        yield None
        assert AT_WORK.wait(60)
        for fraction in (0.5, 0.5):
            splits.append((yield fraction))

    with fn_runner.split_manager("Source/Read", splitting), pipeline_by_grpc() as p:
        read = p | "Source" >> ReadFromTFRecord(url)
        assert_that(read | beam.Map(slowly), records())
    assert any(split is not None and split.residual_roots for split in splits)


@contextlib.contextmanager
def every_bundle_twice(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A runner loses what the first attempt at each bundle gave, also at the job's beginning and at
    the commit. Gives the stages that ran."""
    once: Callable[..., Any] = fn_runner.BundleManager.process_bundle
    stages: list[str] = []

    def twice(manager: Any, *arguments: Any, **more: Any) -> Any:
        context = manager.bundle_context_manager.process_bundle_descriptor
        stages.extend(one.unique_name for one in context.transforms.values())
        once(manager, *arguments, **{**more, "dry_run": True})
        return once(manager, *arguments, **more)

    with monkeypatch.context() as patch:
        patch.setattr(fn_runner.BundleManager, "process_bundle", twice)
        yield stages


@pytest.mark.parametrize("num_shards", [0, 4])
def test_every_step_runs_twice(s3: Place, monkeypatch: pytest.MonkeyPatch, num_shards: int) -> None:
    url = s3.url("t")
    where: Any = {"storage_options": s3.storage_options}
    modes: Any = (("error", RECORDS), ("append", RECORDS * 2), ("overwrite", RECORDS))
    for mode, wanted in modes[: 1 if num_shards else 3]:
        with every_bundle_twice(monkeypatch) as stages, pipeline() as p:
            written = (
                p
                | beam.Create(RECORDS)
                | "Write"
                >> WriteToTFRecord(
                    url, num_shards=num_shards, if_exists=mode, keep_replaced=0, **where
                )
            )
            assert_that(written, equal_to([url]))
        assert "Write/Commit" in stages
        assert read_back(url, s3) == sorted(wanted)
        assert left_over(url, s3) == []


@pytest.mark.parametrize("told", [True, False], ids=["schema", "learned"])
def test_rows_with_other_columns_are_appended(tmp_path: Path, told: bool) -> None:
    url = str(tmp_path / "t")
    months: list[list[dict[str, int]]] = [[{"x": 1}, {"x": 2}], [{"y": 3}, {"y": 4}]]
    for rows in months:
        schema = dict.fromkeys(rows[0], "int64") if told else None
        with pipeline() as p:
            _ = p | beam.Create(rows) | WriteToTFRecord(url, schema=schema, if_exists="append")
    found = tfs.read_table(url)
    xs, ys = found["x"].tolist(), found["y"].tolist()
    assert (sorted(xs[:2]), sorted(ys[2:])) == ([1, 2], [3, 4])
    assert (xs[2:], ys[:2]) == ([None, None], [None, None])


def test_a_step_that_fails_leaves_nothing_to_be_seen(tmp_path: Path) -> None:
    def fail_at_the_last(record: bytes) -> bytes:
        if record == RECORDS[-1]:
            raise RuntimeError("this step fails")
        return record

    place = Place(str(tmp_path))
    with pytest.raises(Exception, match="this step fails"), pipeline() as p:
        _ = p | beam.Create(RECORDS) | beam.Map(fail_at_the_last) | WriteToTFRecord(place.url("t"))
    with pytest.raises(FileNotFoundError):
        tfs.RecordReader(place.url("t"))
    tfs.clean(place.url("t"), older_than=0)
    assert place.names() == []


def test_damage(tmp_path: Path) -> None:
    url = gzip_blocks(Place(str(tmp_path)))
    (path,) = tmp_path.glob("t-*")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match="the gzip data is damaged"), pipeline() as p:
        _ = p | ReadFromTFRecord(url)
    with pipeline() as p:
        count = p | ReadFromTFRecord(url, on_corrupt="skip") | beam.combiners.Count.Globally()
        assert_that(count | beam.Map(lambda n: 0 < n < 3000), equal_to([True]))


def test_what_is_refused(tmp_path: Path) -> None:
    url = str(tmp_path / "t")
    with pytest.raises(FileNotFoundError):
        ReadFromTFRecord(url)
    ReadFromTFRecord(url, validate=False)
    for arguments, words in (
        ({"compression_type": "bzip2"}, "compression_type='bzip2': TFRecord files have one of"),
        ({"columns": ["x"]}, "schema= and columns= take batched=True"),
        ({"coder": VarIntCoder(), "batched": True}, "coder= is for single records"),
    ):
        with pytest.raises(ValueError, match=words):
            ReadAllFromTFRecord(**arguments)
    for arguments, words in (
        ({"file_name_suffix": ".gz"}, 'shards always end in ".tfrecord"'),
        ({"shard_name_template": "-SS"}, "shards have names of their own"),
        ({"num_shards": -1}, "num_shards must be"),
    ):
        with pytest.raises(ValueError, match=words):
            WriteToTFRecord(url, **arguments)
    gzip_blocks(Place(str(tmp_path)))
    with pytest.raises(KeyError, match="no column 'x'"):
        ReadFromTFRecord(url, batched=True, columns=["x"])


def test_a_collection_without_end_is_refused() -> None:
    from apache_beam.testing.test_stream import TestStream

    p = beam.Pipeline("FnApiRunner")
    with pytest.raises(ValueError, match="this PCollection has no end"):
        _ = p | TestStream() | WriteToTFRecord("t")


def test_an_element_that_is_no_record(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="must be bytes-like"), pipeline() as p:
        _ = p | beam.Create([7]) | WriteToTFRecord(str(tmp_path / "t"))

"""`ShardedWriter`: what goes where, and that a dataset is there whole or not at all."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import numbered, read, sharded
from tests.write.test_file_writer import pending, wait_until_empty

COMPRESSIONS = [None, "GZIP", "ZLIB", "ZSTD"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_records_go_round_the_shards(place: Place, compression: str | None) -> None:
    records = numbered(1000)
    with sharded(place, compression=compression) as writer:
        for record in records[:333]:
            writer.write(record)
        writer.write_batch(records[333:700])
        writer.write_batch(tfs.RecordBatch.from_records(records[700:]))
    assert place.names() == [
        "ds/_train.index",
        "ds/_train.manifest.json",
        *(f"ds/train-{i:05d}-of-00004.tfrecord" for i in range(4)),
    ]
    for i, shard in enumerate(writer.manifest.shards):
        assert read(place, f"ds/{shard.name}") == records[i::4]
        assert shard.records == 250
        assert shard.nbytes == len(place.get(f"ds/{shard.name}"))
        assert shard.crc32c == tfs.crc32c(place.get(f"ds/{shard.name}"))
    assert sorted(read(place, "ds/train")) == sorted(records)
    assert not pending(place)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_index_finds_every_record(tmp_path: Path, compression: str | None) -> None:
    place = Place(str(tmp_path))
    records = [os.urandom(random.randrange(5000)) for _ in range(4000)]
    with sharded(place, compression=compression) as writer:
        writer.write_batch(records)
    blocks = [len(shard.blocks or ()) for shard in writer.manifest.shards]
    assert min(blocks) > 1
    source = tfs.RecordSource(place.url("ds/train"))
    in_order = [record for i in range(4) for record in records[i::4]]
    for i in random.sample(range(4000), 100):
        assert source[i] == in_order[i]


def test_roll_over_by_records(place: Place) -> None:
    records = numbered(2500)
    with sharded(place, num_shards=None, max_shard_records=1000) as writer:
        for record in records[:10]:
            writer.write(record)
        writer.write_batch(records[10:])
    assert [shard.records for shard in writer.manifest.shards] == [1000, 1000, 500]
    assert writer.manifest.shards[1].name == "train-00001.tfrecord"
    assert read(place, "ds/train") == records


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_roll_over_by_bytes_never_passes_the_limit(tmp_path: Path, compression: str | None) -> None:
    place = Place(str(tmp_path))
    records = [os.urandom(random.randrange(2000)) for _ in range(1000)]
    limit = 100_000
    with sharded(place, num_shards=None, max_shard_bytes=limit, compression=compression) as writer:
        for record in records[:99]:
            writer.write(record)
        writer.write_batch(records[99:])
    framed_bytes = [int(s.blocks.raw_offsets[-1]) for s in writer.manifest.shards if s.blocks]
    assert max(framed_bytes) <= limit
    assert min(framed_bytes[:-1]) > limit - 2016
    assert read(place, "ds/train") == records


def test_a_record_larger_than_the_limit_has_a_shard_of_its_own(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    records = [b"a", bytes(500), b"b", b"c"]
    with sharded(place, num_shards=None, max_shard_bytes=100) as writer:
        writer.write_batch(records)
    assert [shard.records for shard in writer.manifest.shards] == [1, 1, 2]
    assert read(place, "ds/train") == records


def test_without_a_number_or_a_limit_shards_roll_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tfio_store.write.sharded_writer.DEFAULT_SHARD_BYTES", 100)
    with tfs.ShardedWriter(str(tmp_path / "train")) as writer:
        writer.write_batch([bytes(50)] * 3)
    assert [shard.records for shard in writer.manifest.shards] == [1, 1, 1]


def test_shard_for_and_keys_choose_the_shard(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    with sharded(place, shard_for=lambda record: record[0] % 4 if record[0] < 255 else 4) as writer:
        writer.write_batch([bytes([i]) for i in range(100)])
        writer.write(bytes([7]))
        with pytest.raises(ValueError, match="0 to 3"):
            writer.write(b"\xff")
    for i, shard in enumerate(writer.manifest.shards):
        assert {r[0] % 4 for r in read(place, f"ds/{shard.name}")} == {i}
    with sharded(place, "ds/keyed") as writer:
        for i in range(100):
            writer.write(b"%d" % i, key=b"%d" % (i % 10))
    for shard in writer.manifest.shards:
        found = [int(r) for r in read(place, f"ds/{shard.name}")]
        assert len(found) == 10 * len({i % 10 for i in found})


def test_an_exception_leaves_no_object(place: Place) -> None:
    with pytest.raises(RuntimeError, match="in the block"), sharded(place) as writer:
        writer.write_batch([os.urandom(1 << 20) for _ in range(40)])
        raise RuntimeError("in the block")
    assert place.names() == []
    assert not pending(place)
    with pytest.raises(ValueError, match="not committed"):
        _ = writer.manifest
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"x")


def test_an_existing_dataset_is_an_error_before_anything_is_written(place: Place) -> None:
    with sharded(place) as writer:
        writer.write(b"old")
    before = place.names()
    with pytest.raises(FileExistsError, match="ds/train") as caught:
        sharded(place)
    assert "overwrite" in str(caught.value)
    assert place.names() == before


def test_an_overwrite_replaces_at_once_and_removes_the_old(place: Place) -> None:
    with sharded(place) as writer:
        writer.write_batch([b"old"] * 10)
    with sharded(place, if_exists="overwrite", num_shards=2, keep_replaced=0) as writer:
        writer.write_batch([b"new"] * 5)
        writer._uploads.drain()
        assert read(place, "ds/train") == [b"old"] * 10
    assert read(place, "ds/train") == [b"new"] * 5
    assert len(place.names()) == 4
    assert len([name for name in place.names() if "/train-" in name]) == 2


def test_an_append_keeps_the_old_shards(place: Place) -> None:
    for i in range(3):
        options: dict[str, Any] = {"if_exists": "append", "num_shards": 2, "metadata": {"i": i}}
        with sharded(place, keep_replaced=0, **options) as writer:
            writer.write_batch([b"%d" % i] * 10)
    assert [shard.records for shard in writer.manifest.shards] == [5] * 6
    assert all(shard.blocks is not None for shard in writer.manifest.shards)
    assert writer.manifest.metadata == {"i": 2}
    assert read(place, "ds/train") == [b"0"] * 10 + [b"1"] * 10 + [b"2"] * 10
    assert len(place.names()) == 8


@pytest.mark.parametrize("codec", [None, "GZIP"])
@pytest.mark.parametrize(
    "how",
    [{"num_shards": 2}, {"num_shards": None}, {"num_shards": 3, "shuffle_seed": 0}],
    ids=["fixed", "rolling", "shuffled"],
)
def test_an_append_of_nothing_adds_no_shard(
    place: Place, how: dict[str, Any], codec: str | None
) -> None:
    how = {"if_exists": "append", "compression": codec, **how}
    with sharded(place, **how) as first:  # a dataset of its own has a shard, which a glob finds
        pass
    assert first.manifest.records == 0
    assert first.manifest.shards
    with sharded(place, **how) as writer:
        writer.write(b"one")
    before = sorted(place.names())
    with sharded(place, metadata={"seen": True}, **how) as last:
        pass
    assert list(last.manifest.shards) == list(writer.manifest.shards)
    assert last.manifest.metadata == {"seen": True}
    assert not [name for name in place.names() if "tfrecord" in name and name not in before]
    assert read(place, "ds/train") == [b"one"]


def test_appending_needs_the_same_compression(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    sharded(place, compression="GZIP").close()
    with pytest.raises(ValueError, match="compression is None, and that of the dataset"):
        sharded(place, if_exists="append")


@pytest.mark.parametrize("if_exists", ["overwrite", "append"])
def test_a_failed_replacement_leaves_the_old_dataset(place: Place, if_exists: str) -> None:
    with sharded(place) as writer:
        writer.write_batch([b"old"] * 10)
    before = {name: place.get(name) for name in place.names()}
    with pytest.raises(RuntimeError), sharded(place, if_exists=if_exists) as writer:
        writer.write_batch([b"new"] * 10)
        raise RuntimeError
    assert {name: place.get(name) for name in place.names()} == before


@pytest.mark.parametrize("if_exists", ["error", "overwrite"])
def test_of_two_writers_the_second_loses_and_leaves_nothing(place: Place, if_exists: str) -> None:
    if if_exists != "error":
        sharded(place).close()
    first, second = (sharded(place, if_exists=if_exists, keep_replaced=0) for _ in range(2))
    first.write_batch([b"first"] * 10)
    second.write_batch([b"second"] * 10)
    second.close()
    with pytest.raises(FileExistsError, match="ds/train"):
        first.close()
    assert read(place, "ds/train") == [b"second"] * 10
    left = {name.removeprefix("ds/") for name in place.names()}
    assert left == {*second.manifest.names(), "_train.manifest.json"}


def test_a_dead_writers_claim_leads_to_other_names(place: Place) -> None:
    place.put("ds/_train.claim", b"whatever")
    with sharded(place, num_shards=1) as writer:
        writer.write(b"x")
    tag = writer.manifest.generation
    assert writer.manifest.shards[0].name == f"train-{tag}-00000-of-00001.tfrecord"
    assert "ds/_train.claim" in place.names()


def test_plain_files_that_are_there_are_not_touched(place: Place) -> None:
    place.put("ds/train-00000-of-00099.tfrecord", b"somebody's")
    waits = pytest.warns(RuntimeWarning, match="names as its shards have .train-00000-of-00099")
    with waits, sharded(place, num_shards=1) as writer:
        writer.write(b"x")
    assert writer.manifest.shards[0].name.startswith("_train-00000-of-00001.tfrecord.")
    assert place.get("ds/train-00000-of-00099.tfrecord") == b"somebody's"
    assert read(place, "ds/train") == [b"x"]


def test_a_dropped_writer_publishes_nothing_and_says_so(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    writer = sharded(place, "train")
    writer.write_batch([bytes(1 << 20)] * 20)
    with pytest.warns(UserWarning, match="dropped without close"):
        del writer
        gc.collect()
    wait_until_empty(tmp_path)


def test_closing_twice_is_no_error(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    writer = sharded(place)
    writer.close()
    writer.close()
    writer.abort()
    assert len(place.names()) == 6


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"num_shards": 0}, "num_shards"),
        ({"num_shards": 2, "max_shard_bytes": 5}, "num_shards"),
        ({"num_shards": None, "max_shard_bytes": 0}, "max_shard_bytes"),
        ({"num_shards": None, "max_shard_records": 1, "shard_for": len}, "shard_for"),
        ({"num_shards": None, "max_shard_records": 1, "shuffle_seed": 0}, "shuffle_seed"),
        ({"shuffle_seed": 1, "shard_for": len}, "shard_for or shuffle_seed"),
        ({"compression": "LZ4"}, "compression"),
        ({"compression": "GZIP", "level": 11}, "level"),
        ({"if_exists": "replace"}, "if_exists"),
        ({"memory_budget": 10}, "memory_budget"),
        ({"shard_template": "x"}, "shard_template"),
    ],
)
def test_wrong_arguments_are_named(tmp_path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        sharded(Place(str(tmp_path)), **options)
    assert list(tmp_path.iterdir()) == []


def test_other_wrong_arguments(tmp_path: Path, s3: Place) -> None:
    with pytest.raises(TypeError, match="JSON"):
        sharded(Place(str(tmp_path)), metadata={"x": object()})
    with pytest.raises(ValueError, match="must end in its name"):
        sharded(Place(str(tmp_path)), "train/")
    with pytest.raises(FileNotFoundError, match="no-such-bucket-1"):
        sharded(Place("s3://no-such-bucket-1", s3.storage_options))


def test_progress_is_told_as_blocks_fill_and_shards_land(tmp_path: Path) -> None:
    told: list[tfs.results.Progress] = []
    with sharded(Place(str(tmp_path)), on_progress=told.append) as writer:
        writer.write_batch([bytes(1000)] * 20_000)
    assert [p.records for p in told] == sorted(p.records for p in told)
    assert told[-1] == tfs.results.Progress(records=20_000, nbytes=20_000 * 1016, shards=4)
    assert len(told) > 8


def test_an_exception_in_on_progress_reaches_the_caller(tmp_path: Path) -> None:
    def fail(_: tfs.results.Progress) -> None:
        raise RuntimeError("in on_progress")

    with pytest.raises(RuntimeError, match="in on_progress"):
        sharded(Place(str(tmp_path)), on_progress=fail).close()
    assert Place(str(tmp_path)).names() == []


def test_the_schema_and_metadata_are_kept(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    sharded(place, schema={"label": "int64"}, metadata={"by": "me"}).close()
    with sharded(place, if_exists="append") as writer:
        pass
    assert writer.manifest.schema == tfs.Schema({"label": "int64"}).to_json()
    assert writer.manifest.metadata == {"by": "me"}


@pytest.mark.tensorflow
@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tensorflow_reads_every_shard(tmp_path: Path, compression: str) -> None:
    import tensorflow as tf

    place = Place(str(tmp_path))
    records = [os.urandom(random.randrange(3000)) for _ in range(10_000)]
    with sharded(place, compression=compression) as writer:
        writer.write_batch(records)
        writer.write_batch([bytes(3 << 20)] * 4)
    for i, shard in enumerate(writer.manifest.shards):
        path = place.url(f"ds/{shard.name}")
        found = tf.data.TFRecordDataset(path, compression_type=compression).as_numpy_iterator()
        assert list(found) == [*records[i::4], bytes(3 << 20)]


@pytest.mark.tensorflow
@pytest.mark.long
def test_the_order_of_a_million_records(tmp_path: Path) -> None:
    """Told by TensorFlow: each shard holds its records, in order, once."""
    import tensorflow as tf

    place = Place(str(tmp_path))
    with sharded(place, num_shards=16, compression="GZIP", level=1) as writer:
        for i in range(100_000):
            writer.write(b"%d" % i)
        writer.write_batch(b"%d" % i for i in range(100_000, 1_000_000))
    assert writer.manifest.records == 1_000_000
    for i, shard in enumerate(writer.manifest.shards):
        dataset = tf.data.TFRecordDataset(place.url(f"ds/{shard.name}"), "GZIP").batch(100_000)
        found = [int(r) for batch in dataset.as_numpy_iterator() for r in batch]
        assert found == list(range(i, 1_000_000, 16))


@pytest.mark.parametrize("if_exists", ["error", "overwrite", "append"])
@pytest.mark.parametrize("name", ["plain", "train-00000-of-00001.tfrecord"])
def test_a_dataset_does_not_take_the_name_of_a_file(
    place: Place, if_exists: Any, name: str
) -> None:
    """Who reads that name would get the file."""
    options: dict[str, Any] = {"storage_options": place.storage_options}
    place.put("ds/plain", b"of another program")
    tfs.write_table({"x": [1]}, place.url("ds/train"), num_shards=1, **options)
    before = place.names()
    url = place.url(f"ds/{name}")
    for begin in (tfs.ShardedWriter, tfs.WriteJob):
        with pytest.raises(FileExistsError, match="a file has this name"):
            begin(url, num_shards=1, if_exists=if_exists, **options)
    with pytest.raises(FileExistsError, match="a file has this name"):
        tfs.write_table({"x": [1]}, url, if_exists=if_exists, **options)
    assert place.names() == before

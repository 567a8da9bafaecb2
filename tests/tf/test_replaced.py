"""Files replaced while a dataset reads them: records of one version, or an error; no mixture."""

from __future__ import annotations

import gc
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.servers.place import Place  # noqa: E402
from tests.support.long import long  # noqa: E402
from tests.tf.run_program import run  # noqa: E402
from tfio_store.errors import ReplacedError  # noqa: E402
from tfio_store.storage.cloud.bucket_store import BucketStore  # noqa: E402
from tfio_store.storage.cloud.obstore import ObstoreReads  # noqa: E402
from tfio_store.tf.dataset import ops, runtime  # noqa: E402
from tfio_store.tf.dataset.options import Settings  # noqa: E402
from tfio_store.tf.dataset.spans import Blocks, group_of, mark_of  # noqa: E402

pytestmark = pytest.mark.tensorflow

COUNT = 1_000
TAILS = [random.Random(i).randbytes(10_000) for i in range(COUNT)]  # 10 MB


@dataclass(frozen=True)
class Kind:
    """A source, and how it is read."""

    source: str
    options: dict[str, Any]


KINDS = {
    "raw stream": Kind("raw", {}),
    "raw blocks": Kind("raw", {"shard": (1, 0)}),
    "raw batches": Kind("raw", {"batch_size": 40}),
    "raw, shuffled": Kind("raw", {"shuffle": True, "seed": 1}),
    "raw, skipping damage": Kind("raw", {"on_corrupt": "skip", "shard": (1, 0)}),
    "gzip stream": Kind("gzip", {}),
    "two gzip streams": Kind("gzip", {"num_parallel_reads": 2}),
    "raw set": Kind("rawset", {}),
    "zstd set": Kind("zstdset", {}),
    "zstd set, in batches": Kind("zstdset", {"batch_size": 7}),
    "zstd set, shuffled": Kind("zstdset", {"shuffle": True, "seed": 1, "batch_size": 40}),
    "zstd set, parallel reads": Kind("zstdset", {"num_parallel_reads": 2}),
    "zstd set, skipping damage": Kind("zstdset", {"on_corrupt": "skip", "batch_size": 7}),
}
SETS = {
    name: KINDS[name]
    for name in ("raw set", "zstd set", "zstd set, shuffled", "zstd set, parallel reads")
} | {
    "raw set, in batches": Kind("rawset", {"batch_size": 40}),
    "zstd set, in batches": Kind("zstdset", {"batch_size": 40}),
    "zstd set, a share in batches": Kind("zstdset", {"batch_size": 40, "shard": (3, 1)}),
    "zstd set, parallel batches": Kind("zstdset", {"batch_size": 40, "num_parallel_reads": 2}),
    "zstd set, batches in turns": Kind(
        "zstdset", {"batch_size": 40, "num_parallel_reads": 2, "memory_budget": 12 << 20}
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders "old" and "new", each with all sources, of the same sizes."""
    root = tmp_path_factory.mktemp("replaced")
    for word in ("old", "new"):
        records = [word.encode() + tail for tail in TAILS]
        folder = root / word
        folder.mkdir()
        for name, codec in (("raw", None), ("gzip", "GZIP")):
            with tfs.TFRecordWriter(str(folder / name), codec) as writer:
                writer.write_batch(records)
        for name, codec in (("rawset", None), ("zstdset", "ZSTD")):
            with tfs.ShardedWriter(str(folder / name), num_shards=2, compression=codec) as sharded:
                sharded.write_batch(records)
    return root


@pytest.fixture(params=["local", "s3+obstore", long("s3")])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    server, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    place: Place = Place(str(tmp_path)) if server == "local" else request.getfixturevalue(server)
    place.backend = backend or "fsspec"
    return place


@pytest.fixture(autouse=True)
def no_iterators_left() -> Iterator[None]:
    """TensorFlow waits for what an iterator reads where that is collected: not in the thread that
    reads."""
    yield
    gc.collect()


@pytest.fixture(autouse=True)
def little_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "STREAM_BUDGET", 2 << 20)
    for store in (BucketStore, ObstoreReads):
        monkeypatch.setattr(store, "range_bytes", 1 << 20)


def put(place: Place, folder: Path, source: str) -> str:
    """By new objects, as writers do; not into the old ones' bytes. The URL of the source."""
    for path in sorted(folder.iterdir()):
        if path.name == source or (source.endswith("set") and source in path.name):
            store, at = place.open(path.name)
            output = store.open_output(at)
            output.write(path.read_bytes())
            output.commit()
    return place.url(source)


def dataset(place: Place, kind: Kind) -> Any:
    memory_budget = 12 << 20 if kind.source == "raw" else 2 << 20  # finding blocks reads it all
    return tfs.TFRecordDataset(
        place.url(kind.source),
        storage=tfs.Storage(place.storage_options or None, backend=place.backend),
        **{"memory_budget": memory_budget, **kind.options},
    )


def versions(elements: Any) -> list[bytes]:
    """Of each record the version that it is of."""
    found: list[bytes] = []
    for element in elements:
        value = element.numpy()
        records = [value] if isinstance(value, bytes) else value.tolist()
        found += [record[:3] for record in records]
    return found


def saved(iterator: Any, tmp_path: Path) -> str:
    """A checkpoint of an iterator that has given one element."""
    next(iterator)
    path: str = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved" / "checkpoint"))
    return path


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_one_version(kept: Place, made: Path, kind: Kind) -> None:
    put(kept, made / "old", kind.source)
    old = dataset(kept, kind)
    iterator = iter(old.repeat(2))
    found = versions([next(iterator)])
    put(kept, made / "new", kind.source)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"was replaced.*again") as error:
        for element in iterator:
            found += versions([element])
    assert set(found) == {b"old"}
    assert kept.url(kind.source) in error.value.message
    assert versions(dataset(kept, kind)) == [b"new"] * COUNT


def test_a_dataset_of_blocks_is_of_the_version_that_it_was_made_of(kept: Place, made: Path) -> None:
    kind = KINDS["zstd set, in batches"]
    put(kept, made / "old", kind.source)
    old = dataset(kept, kind)
    put(kept, made / "new", kind.source)
    with pytest.raises(tf.errors.FailedPreconditionError):
        next(iter(old))


def test_a_stream_reads_what_is_there_when_it_begins(kept: Place, made: Path) -> None:
    kind = KINDS["gzip stream"]
    put(kept, made / "old", kind.source)
    old = dataset(kept, kind)
    put(kept, made / "new", kind.source)
    assert versions(old) == [b"new"] * COUNT


def test_blocks_that_are_kept_are_of_one_version(kept: Place, made: Path) -> None:
    """An iterator over the old and one over the new each take a part of the same block in turns."""
    kind = KINDS["zstd set, in batches"]
    put(kept, made / "old", kind.source)
    first = iter(dataset(kept, kind))
    found: dict[bytes, list[bytes]] = {b"old": versions([next(first)]), b"new": []}
    put(kept, made / "new", kind.source)
    second = iter(dataset(kept, kind))
    for _ in range(20):
        found[b"new"] += versions([next(second)])
        try:
            found[b"old"] += versions([next(first)])
        except tf.errors.FailedPreconditionError:
            break
    assert {word: set(records) for word, records in found.items()} == {
        word: {word} for word in found
    }
    found[b"new"] += versions(second)
    assert found[b"new"] == [b"new"] * COUNT


@pytest.mark.parametrize("name", ["gzip stream", "raw stream", "raw blocks", "zstd set"])
def test_a_saved_iterator(kept: Place, made: Path, tmp_path: Path, name: str) -> None:
    kind = KINDS[name]
    put(kept, made / "old", kind.source)
    old = dataset(kept, kind).repeat(2)
    iterator = iter(old)
    path = saved(iterator, tmp_path)
    put(kept, made / "new", kind.source)
    restored = iter(old)
    tf.train.Checkpoint(iterator=restored).read(path)
    found = []
    with pytest.raises(tf.errors.FailedPreconditionError):
        for element in restored:
            found += versions([element])
    assert set(found) <= {b"old"}


def test_a_stream_restored_over_another_file(kept: Place, made: Path, tmp_path: Path) -> None:
    """Made anew: which version it was goes with where it stood."""
    kind = KINDS["gzip stream"]
    put(kept, made / "old", kind.source)
    iterator = iter(dataset(kept, kind))
    path = saved(iterator, tmp_path)
    put(kept, made / "new", kind.source)
    restored = iter(dataset(kept, kind))
    tf.train.Checkpoint(iterator=restored).read(path)
    with pytest.raises(tf.errors.FailedPreconditionError):
        versions(restored)


def test_streams_that_were_not_begun_are_read_as_they_are_then(
    kept: Place, made: Path, tmp_path: Path
) -> None:
    """Whoever wants one version of all files makes their blocks known."""
    kind = KINDS["gzip stream"]
    first, second = kind.source, f"second-{kind.source}"

    def put_second(version: str) -> None:
        store, at = kept.open(second)
        output = store.open_output(at)
        output.write((made / version / kind.source).read_bytes())
        output.commit()

    def both() -> Any:
        names = [kept.url(first), kept.url(second)]
        storage = tfs.Storage(kept.storage_options or None, backend=kept.backend)
        return tfs.TFRecordDataset(names, storage=storage, **kind.options)

    put(kept, made / "old", first)
    put_second("old")
    iterator = iter(both())
    path = saved(iterator, tmp_path)
    put_second("new")
    restored = iter(both())
    tf.train.Checkpoint(iterator=restored).read(path)
    found = versions(restored)
    assert found == [b"old"] * (COUNT - 1) + [b"new"] * COUNT


@pytest.mark.parametrize("name", SETS)
def test_a_dataset_made_anew_of_other_shards(
    kept: Place, made: Path, tmp_path: Path, name: str
) -> None:
    """Its manifest says what is in them. The iterator's state does too."""
    kind = SETS[name]
    put(kept, made / "old", kind.source)
    iterator = iter(dataset(kept, kind).repeat(2))
    path = saved(iterator, tmp_path)
    put(kept, made / "new", kind.source)
    restored = iter(dataset(kept, kind).repeat(2))
    found = []
    with pytest.raises(tf.errors.FailedPreconditionError, match="were replaced since"):
        tf.train.Checkpoint(iterator=restored).read(path)
        for element in restored:
            found += versions([element])
    assert set(found) <= {b"old"}  # which the state holds, read and not given yet


@pytest.mark.parametrize("name", SETS)
def test_a_dataset_made_anew_of_a_copy(made: Path, tmp_path: Path, name: str) -> None:
    kind = SETS[name]
    there, here = Place(str(tmp_path / "there")), Place(str(tmp_path / "here"))
    put(there, made / "old", kind.source)
    iterator = iter(dataset(there, kind))
    path = saved(iterator, tmp_path)
    put(here, made / "old", kind.source)
    restored = iter(dataset(here, kind))
    tf.train.Checkpoint(iterator=restored).read(path)
    for ours, theirs in zip(restored, iterator, strict=True):
        assert np.array_equal(ours, theirs)


SAME_RECORDS: dict[str, Callable[[Any], Any]] = {
    "blocks": lambda made: made(),
    "batches": lambda made: made(batch_size=40),
    "shuffled blocks": lambda made: made(shuffle=True, seed=1),
    "shuffled batches": lambda made: made(shuffle=True, seed=1, batch_size=40),
    "windows": lambda made: made(shuffle=4, seed=1, batch_size=40),
    "a fused shuffle": lambda made: made().shuffle(100, seed=1).map(tf.identity).batch(40),
    "turns": lambda made: made(num_parallel_reads=2),
    "batches of turns": lambda made: made(num_parallel_reads=2, batch_size=40),
}


@pytest.mark.parametrize("codec", [None, "ZSTD"])
@pytest.mark.parametrize("name", SAME_RECORDS)
def test_a_dataset_made_anew_of_the_same_records_in_other_blocks(
    place: Place, tmp_path: Path, name: str, codec: str | None
) -> None:
    """What is left comes once, or it is an error: a number may mean other records now."""
    records = [b"%03d" % i + TAILS[i] for i in range(COUNT)]
    where: dict[str, Any] = {"storage_options": place.storage_options or None}

    def written(block_bytes: int) -> Any:
        with tfs.ShardedWriter(
            place.url("set"), num_shards=2, compression=codec, block_bytes=block_bytes,
            if_exists="overwrite", **where,
        ) as writer:  # fmt: skip
            writer.write_batch(records)
        return SAME_RECORDS[name](partial(tfs.TFRecordDataset, place.url("set"), **where))

    iterator = iter(written(1 << 20))
    found = versions([next(iterator)])
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "checkpoint"))
    restored = iter(written(100_000))
    refused = False
    try:
        tf.train.Checkpoint(iterator=restored).read(path)
        found += versions(restored)
    except tf.errors.FailedPreconditionError as error:
        refused = "were replaced since" in error.message
    assert len(set(found)) == len(found)
    assert refused or len(found) == COUNT
    if (name, codec) == ("batches", None):
        assert not refused  # each number means the same records of the same bytes


THESE, OTHERS = mark_of("", "[1]"), mark_of("", "[2]")
ELSEWHERE = mark_of("['s3://bucket/train']", "[2]")


@pytest.mark.parametrize(
    ("saved", "now", "same"),
    [
        (THESE, THESE, True),
        (OTHERS, THESE, False),
        (ELSEWHERE, THESE, True),
        (mark_of("", ""), THESE, True),
        (THESE, mark_of("", ""), True),
    ],
)
def test_the_mark_of_a_number(saved: int, now: int, same: bool) -> None:
    """The op and Python take the same ones."""
    number = 1 << 32 | saved
    text, groups, mark = tf.constant([""]), tf.zeros([3], tf.int64), tf.constant([now], tf.int64)
    table, spans = tf.zeros([0, 8], tf.int64), tf.zeros([0, 3], tf.int64)
    asked = Blocks(text, text, text, table, spans, groups, mark)
    read = partial(ops.read_blocks, asked, tf.constant(number, tf.int64), Settings())
    if same:
        assert group_of(number, [now]) == 1
        assert len(tf.function(read)()[0]) == 0
        return
    with pytest.raises(RuntimeError, match="were replaced since") as python:
        group_of(number, [now])
    with pytest.raises(tf.errors.OpError, match="were replaced since") as op:
        tf.function(read)()
    assert str(python.value) in op.value.message


@pytest.mark.parametrize("name", ["raw stream", "raw batches"])
def test_a_local_file_written_in_place(tmp_path: Path, made: Path, name: str) -> None:
    place = Place(str(tmp_path))
    put(place, made / "old", "raw")
    iterator = iter(dataset(place, KINDS[name]))
    found = versions([next(iterator)])
    with open(tmp_path / "raw", "r+b") as file:
        file.write((made / "new" / "raw").read_bytes())
    os.utime(tmp_path / "raw", ns=(1, 1))  # the clock of files ticks slowly
    with pytest.raises(tf.errors.FailedPreconditionError):
        for element in iterator:
            found += versions([element])
    assert set(found) == {b"old"}


@pytest.mark.parametrize("when", [-5, -(1 << 61), 0, (1 << 33) * 10**9])
@pytest.mark.parametrize("options", [{}, {"batch_size": 40}, {"on_corrupt": "skip"}])
def test_a_file_of_any_time(tmp_path: Path, when: int, options: dict[str, Any]) -> None:
    """Python and C call a version the same."""
    for name, codec in (("raw", None), ("gzip", "GZIP")):
        path = tmp_path / name
        with tfs.TFRecordWriter(str(path), codec) as writer:
            writer.write_batch([b"old"] * 100)
        os.utime(path, ns=(when, when))
        assert versions(tfs.TFRecordDataset(str(path), **options)) == [b"old"] * 100


FALLBACK = """
from tests.servers.place import Place
from tests.tf import test_replaced as t
from tfio_store.tf.dataset import ops
place, made = Place(ARGS["place"]), t.Path(ARGS["made"])
assert ops.bridge() == "tensorflow"
for name in ("raw blocks", "zstd set", "gzip stream"):
    kind = t.KINDS[name]
    t.put(place, made / "old", kind.source)
    iterator = iter(t.dataset(place, kind).repeat(2))
    found = t.versions([next(iterator)])
    t.put(place, made / "new", kind.source)
    try:
        for element in iterator:
            found += t.versions([element])
    except tf.errors.UnknownError as error:
        assert "was replaced" in error.message, error.message
    else:
        assert name == "gzip stream"  # begins anew
        assert found == [b"old"] * t.COUNT + [b"new"] * t.COUNT
        continue
    assert set(found) == {b"old"}
    assert t.versions(t.dataset(place, kind)) == [b"new"] * t.COUNT
kind = t.SETS["raw set, in batches"]
t.put(place, made / "old", kind.source)
path = t.saved(iter(t.dataset(place, kind)), t.Path(ARGS["place"]))
t.put(place, made / "new", kind.source)
restored = iter(t.dataset(place, kind))
try:
    tf.train.Checkpoint(iterator=restored).read(path)
    t.versions(restored)
except tf.errors.UnknownError as error:
    assert "were replaced since" in error.message, error.message
else:
    raise AssertionError("restored")
"""


def test_in_tensorflow_s_own_ops(tmp_path: Path, made: Path) -> None:
    run(
        FALLBACK,
        env={"TFIO_STORE_TF_BRIDGE": "off"},
        place=str(tmp_path),
        made=str(made),
        timeout=250,
    )


@pytest.mark.parametrize("scheme", ["", "memory://"])
@pytest.mark.parametrize(
    "options",
    [{}, {"batch_size": 7}, {"shuffle": True}, {"num_parallel_reads": 2}, {"shard": (1, 0)}],
    ids=str,
)
def test_a_shorter_shard_of_as_many_records(
    tmp_path: Path, scheme: str, options: dict[str, Any]
) -> None:
    """Its counts are as the index tells, and it ends before the block does."""
    root = f"{scheme}{tmp_path}"
    for word, size in (("now", 300), ("then", 200)):
        with tfs.ShardedWriter(f"{root}/{word}/train", num_shards=2) as writer:
            writer.write_batch([word.encode() * size] * 1_200)
    now, then = (tfs.open(f"{root}/{word}/train").shards[0].url for word in ("now", "then"))
    with fsspec.open(then, "rb") as source, fsspec.open(now, "wb") as target:
        target.write(source.read())
    given = []
    with pytest.raises(tf.errors.DataLossError, match="bytes are missing") as error:
        for element in tfs.TFRecordDataset(f"{root}/now/train", **options):
            given += np.ravel(element.numpy()).tolist()
    assert now in str(error.value)
    assert set(given) <= {b"now" * 300}  # of the other shard


@pytest.mark.parametrize("scheme", ["", "memory://"])
@pytest.mark.parametrize(
    "read",
    [
        lambda url: tfs.TFRecordDataset(url),
        lambda url: tfs.TFRecordDataset(url, batch_size=7),
        lambda url: tfs.TFRecordDataset(url).batch(7),
        lambda url: tfs.TFRecordDataset(url, num_parallel_reads=2),
        lambda url: tfs.TFRecordDataset(url, num_parallel_reads=2).batch(7),
        lambda url: tfs.TFRecordDataset(url, shuffle=True, batch_size=7),
    ],
    ids=["records", "batch_size", "batch", "turns", "turns in batches", "shuffled"],
)
@pytest.mark.parametrize("old_size", [1_000, 1_100], ids=["same sizes", "longer"])
def test_another_shard_whose_own_checksums_hold(
    tmp_path: Path, scheme: str, read: Callable[[str], Any], old_size: int
) -> None:
    """Only the index's sums know that it is another. The longer one has a record where the block
    ends."""
    root = f"{scheme}{tmp_path}"
    for word, size in (("now", 1_000), ("old", old_size)):
        with tfs.ShardedWriter(f"{root}/{word}/train", num_shards=2) as writer:
            writer.write_batch([word.encode() * size] * 1_200)
    now, old = (tfs.open(f"{root}/{word}/train").shards[1].url for word in ("now", "old"))
    with fsspec.open(old, "rb") as source, fsspec.open(now, "wb") as target:
        target.write(source.read())
    given = []
    replaced = (tf.errors.FailedPreconditionError, ReplacedError)
    with pytest.raises(replaced, match=r"index (tells|say)") as error:
        for element in read(f"{root}/now/train"):
            given += np.ravel(element.numpy()).tolist()
    assert now in str(error.value)
    assert set(given) <= {b"now" * 1_000}

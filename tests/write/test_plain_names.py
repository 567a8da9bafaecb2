"""Jobs whose shards get plain names, for readers that glob."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending
from tests.write.test_tasks import records_of, run, written
from tfio_store.storage.local import LocalStore


def job_at(place: Place, **options: Any) -> tfs.WriteJob:
    url = place.url("ds/train")
    return tfs.WriteJob(url, names="plain", storage_options=place.storage_options, **options)


def committed(place: Place, tasks: Any, **options: Any) -> tfs.DatasetManifest:
    job = job_at(place, **options)
    return job.commit([run(job, task) for task in tasks])


def plain(place: Place) -> list[str]:
    """What a glob finds."""
    return [name for name in place.names() if name.startswith("ds/train-")]


def globbed(place: Place) -> list[bytes]:
    return list(tfs.RecordReader(place.url("ds/train-*"), storage_options=place.storage_options))


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_shards_are_named_as_a_glob_expects(place: Place, compression: str | None) -> None:
    job = job_at(place, compression=compression)
    results = [run(job, task) for task in (2, 0, 1)]
    assert plain(place) == []
    manifest = job.commit(results)
    expected = [f"train-{i:05d}-of-00003.tfrecord" for i in range(3)]
    assert [shard.name for shard in manifest.shards] == expected
    assert len(place.names()) == 5
    assert globbed(place) == read(place, "ds/train") == written(range(3))
    assert tfs.verify(place.url("ds/train"), storage_options=place.storage_options).ok
    assert not pending(place)
    assert pickle.loads(pickle.dumps(job)).commit([]).to_bytes() == manifest.to_bytes()


def test_shards_of_many_parts(place: Place) -> None:
    record = os.urandom(1 << 20)
    job = job_at(place, memory_budget=128 << 20)
    job.commit([job.write([record] * 7, order=0), job.write([record], order=1)])
    assert plain(place) == [f"ds/train-{i:05d}-of-00002.tfrecord" for i in range(2)]
    assert globbed(place) == [record] * 8


def test_a_known_number_of_shards(place: Place) -> None:
    job = job_at(place, num_shards=2, shard_template="{name}.{shard}.of.{num_shards}")
    manifest = job.commit([job.write_shard(shard, [b"%d" % shard]) for shard in (1, 0)])
    assert [shard.name for shard in manifest.shards] == ["train.0.of.2", "train.1.of.2"]
    assert read(place, "ds/train") == [b"0", b"1"]


def test_no_records(local: Place) -> None:
    assert committed(local, []).records == 0
    assert plain(local) == ["ds/train-00000-of-00001.tfrecord"]
    assert globbed(local) == []


@pytest.mark.parametrize("before", ["plain job", "writer", "rolling writer", "tagged job"])
def test_patterns_find_what_is_appended(local: Place, before: str) -> None:
    if before == "plain job":
        committed(local, [0, 1])
    elif before == "tagged job":
        job = tfs.WriteJob(local.url("ds/train"))
        job.commit([run(job, 0), run(job, 1)])
        assert plain(local) == []
    else:
        limit = {"num_shards": 2} if before == "writer" else {"num_shards": None}
        with sharded(local, **limit, max_shard_records=None if limit["num_shards"] else 50) as w:
            for task in range(2):
                w.write_batch(records_of(task))
    for task in (2, 3):
        committed(local, [task], if_exists="append")
    assert len(plain(local)) == 4
    assert sorted(globbed(local)) == sorted(read(local, "ds/train")) == sorted(written(range(4)))
    manifest = tfs.WriteJob(local.url("ds/train"), if_exists="append").commit([])
    assert {f"ds/{shard.name}" for shard in manifest.shards} == {*plain(local)}


def test_an_append_that_loses_a_race(local: Place, on_put: Any) -> None:
    committed(local, [0])
    job = job_at(local, if_exists="append")
    result = run(job, 2)
    lost: list[None] = []

    def overtaken(put: Callable[[], Any]) -> Any:
        if not lost:
            lost.append(None)
            committed(local, [1], if_exists="append")
        return put()

    on_put("_train.manifest.json", overtaken)
    manifest = job.commit([result])
    other, own = manifest.history[0], manifest.generation
    assert [shard.name for shard in manifest.shards] == [
        "train-00000-of-00001.tfrecord",
        f"train-{other}-00000-of-00001.tfrecord",
        f"train-{own}-00000-of-00001.tfrecord",
    ]
    assert read(local, "ds/train") == written(range(3))
    assert sorted(globbed(local)) == sorted(written(range(3)))
    assert len(plain(local)) == 3
    assert not [name for name in local.names() if "claim" in name]


@pytest.mark.parametrize("names", ["tagged", "plain"])
def test_an_overwrite_leaves_what_readers_still_read(local: Place, names: Any) -> None:
    committed(local, [0, 1])
    reader = tfs.RecordReader(local.url("ds/train"))
    job = tfs.WriteJob(local.url("ds/train"), names=names, if_exists="overwrite")
    manifest = job.commit([run(job, task) for task in (2, 3)])
    tag = manifest.generation
    end = "-of-00002.tfrecord" if names == "plain" else ".tfrecord"
    assert [shard.name for shard in manifest.shards] == [
        f"train-{tag}-0000{i}{end}" for i in (0, 1)
    ]
    assert list(reader) == written([0, 1])
    assert globbed(local) == read(local, "ds/train") == written([2, 3])
    committed(local, [4], if_exists="overwrite", keep_replaced=0)
    tfs.clean(local.url("ds/train"), keep_replaced=False)
    assert globbed(local) == written([4])
    assert len(local.names()) == 3


TAKEN = "train-00001-of-00002.tfrecord"


def test_shards_wait_until_files_of_others_are_gone(place: Place) -> None:
    job = job_at(place)
    results = [run(job, task) for task in range(2)]
    place.put(f"ds/{TAKEN}", b"another program's")
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=rf"names as its shards have .{TAKEN}"):
            manifest = job.commit(results)
    assert all(shard.name.startswith("_train-") for shard in manifest.shards)
    assert read(place, "ds/train") == written(range(2))
    with pytest.warns(RuntimeWarning, match=TAKEN):
        cleaned(place)
    assert place.get(f"ds/{TAKEN}") == b"another program's"
    assert plain(place) == [f"ds/{TAKEN}"]
    place.open()[0].delete([place.open(f"ds/{TAKEN}")[1]])
    cleaned(place)
    assert globbed(place) == read(place, "ds/train") == written(range(2))
    assert len(place.names()) == 4


def test_a_job_of_known_names_learns_at_once_that_they_are_taken(local: Place) -> None:
    local.put(f"ds/{TAKEN}", b"another program's")
    with pytest.raises(FileExistsError, match=TAKEN):
        job_at(local, num_shards=2)
    job_at(local, num_shards=3).abort()
    assert local.names() == [f"ds/{TAKEN}"]


def test_a_name_that_is_taken_during_the_commit(
    local: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_at(local)
    results = [run(job, task) for task in range(2)]
    copy = LocalStore.copy

    def overtaken(self: LocalStore, source: str, target: str) -> Any:
        if target.endswith(TAKEN):
            local.put(f"ds/{TAKEN}", b"another program's")
        return copy(self, source, target)

    monkeypatch.setattr(LocalStore, "copy", overtaken)
    with pytest.warns(RuntimeWarning, match=TAKEN):
        job.commit(results)
    assert local.get(f"ds/{TAKEN}") == b"another program's"
    assert read(local, "ds/train") == written(range(2))


@pytest.mark.parametrize("then", ["commit", "commit elsewhere", "abort", "clean"])
def test_a_commit_whose_copies_fail_stands(
    local: Place, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    job = job_at(local)
    results = [run(job, task) for task in range(3)]
    copy = LocalStore.copy

    def failing(self: LocalStore, source: str, target: str) -> Any:
        if "00001-of" in target:
            raise TimeoutError(errno.ETIMEDOUT, "in the store", target)
        return copy(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "copy", failing)
        with pytest.warns(RuntimeWarning, match="patterns do not find all of it yet"):
            job.commit(results)
    assert read(local, "ds/train") == written(range(3))
    if then == "clean":
        cleaned(local)
    elif then == "abort":
        job.abort()  # it has landed
        assert read(local, "ds/train") == written(range(3))
        return
    else:
        other = pickle.loads(pickle.dumps(job)) if "elsewhere" in then else job
        assert other.commit(results).records == 150
    assert globbed(local) == read(local, "ds/train") == written(range(3))
    assert len(local.names()) == 5


def die_while_committing(url: str, copies: int, if_exists: Any) -> None:
    job = tfs.WriteJob(url, names="plain", if_exists=if_exists)
    results = [run(job, task) for task in range(3)]
    copy, made = LocalStore.copy, list[str]()

    def dying(self: LocalStore, source: str, target: str) -> Any:
        if len(made) == copies:
            os.kill(os.getpid(), 9)
        made.append(target)
        return copy(self, source, target)

    LocalStore.copy = dying  # type: ignore[method-assign]
    job.commit(results)


@pytest.mark.parametrize("if_exists", ["error", "overwrite"])
@pytest.mark.parametrize("copies", [0, 1, 3])
def test_a_driver_killed_among_its_copies(local: Place, copies: int, if_exists: Any) -> None:
    if if_exists == "overwrite":
        committed(local, [7, 8])
    context = multiprocessing.get_context("spawn")
    url = local.url("ds/train")
    child = context.Process(target=die_while_committing, args=(url, copies, if_exists))
    child.start()
    child.join()
    assert child.exitcode == (0 if (copies, if_exists) == (3, "error") else -9)
    assert read(local, "ds/train") == written(range(3))
    found = set(globbed(local)) if plain(local) else set()
    assert found <= set(written(range(3))) or found <= set(written([7, 8]))
    cleaned(local)
    assert globbed(local) == read(local, "ds/train") == written(range(3))


def test_what_is_no_way_of_naming(local: Place) -> None:
    with pytest.raises(ValueError, match="names must be"):
        tfs.WriteJob(local.url("ds/train"), names="short")  # type: ignore[arg-type]
    job = tfs.WriteJob(local.url("ds/train"))
    with pytest.raises(ValueError, match='make the job with names="plain"'):
        job.commit([], names="plain")
    with pytest.raises(ValueError, match="names must be"):
        job.commit([], names="short")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shard_template"):
        job_at(local, shard_template="{name}")

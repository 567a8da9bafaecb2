"""Jobs whose shards get plain names, for readers that glob."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending
from tests.write.test_tasks import records_of, run, written
from tfio_store.storage.local import LocalStore
from tfio_store.write.plain_names import NamesTakenError, plain_copies


@pytest.fixture
def local(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


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
def test_an_append_goes_on_counting(local: Place, before: str) -> None:
    if before == "plain job":
        committed(local, [0, 1])
    elif before == "tagged job":
        job = tfs.WriteJob(local.url("ds/train"))
        job.commit([run(job, 0), run(job, 1)])
    else:
        limit = {"num_shards": 2} if before == "writer" else {"num_shards": None}
        with sharded(local, **limit, max_shard_records=None if limit["num_shards"] else 50) as w:
            for task in range(2):
                w.write_batch(records_of(task))
    for task in (2, 3):
        committed(local, [task], if_exists="append")
    last = "train-00003" + (".tfrecord" if before.startswith(("r", "t")) else "-of-00004.tfrecord")
    manifest = tfs.WriteJob(local.url("ds/train"), if_exists="append").commit([])
    assert [shard.name for shard in manifest.shards][-1] == last
    assert sorted(read(local, "ds/train")) == sorted(written(range(4)))
    assert len(plain(local)) == (2 if before == "tagged job" else 4)


def test_an_append_that_loses_a_race_counts_again(local: Place, on_put: Any) -> None:
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
    names = [shard.name for shard in manifest.shards]
    tag = manifest.history[0]  # of the one who found our name for it taken
    assert names == [
        "train-00000-of-00001.tfrecord",
        f"train-{tag}-00001-of-00002.tfrecord",
        "train-00002-of-00003.tfrecord",
    ]
    assert read(local, "ds/train") == written(range(3))
    assert sorted(globbed(local)) == sorted(written(range(3)))
    assert len(plain(local)) == 3
    assert not [name for name in local.names() if "claim" in name]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_copies_of_the_writer_that_was_first_are_not_in_the_way(
    local: Place, monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    """It commits, and its claim goes, after the base was read and before the names are listed."""
    committed(local, [0])
    job = job_at(local, if_exists=mode)
    result = run(job, 2)
    looks: list[None] = []

    def overtaken(*args: Any, **options: Any) -> Any:
        looks.append(None)
        if len(looks) == 1:
            committed(local, [1], if_exists="append")
        return plain_copies(*args, **options)

    monkeypatch.setattr("tfio_store.write.commit.plain_copies", overtaken)
    if mode == "append":
        job.commit([result])
        assert read(local, "ds/train") == written(range(3))
    else:
        with pytest.raises(FileExistsError, match="another writer has committed this dataset"):
            job.commit([result])
        assert read(local, "ds/train") == written(range(2))
    assert not [name for name in local.names() if "claim" in name]


def test_an_overwrite_leaves_what_readers_still_read(local: Place) -> None:
    committed(local, [0, 1])
    reader = tfs.RecordReader(local.url("ds/train"))
    manifest = committed(local, [2, 3], if_exists="overwrite")
    names = [shard.name for shard in manifest.shards]
    tag = manifest.generation
    assert names == [f"train-{tag}-0000{i}-of-00002.tfrecord" for i in range(2)]
    assert list(reader) == written([0, 1])
    assert read(local, "ds/train") == written([2, 3])
    now = committed(local, [4], if_exists="overwrite", keep_replaced=0)
    assert [shard.name for shard in now.shards] == ["train-00000-of-00001.tfrecord"]
    tfs.clean(local.url("ds/train"), keep_replaced=False)
    assert globbed(local) == written([4])
    assert len(local.names()) == 3


def test_an_overwrite_by_the_same_records_needs_no_copies(local: Place) -> None:
    before = committed(local, [0, 1])
    after = committed(local, [0, 1], if_exists="overwrite")
    assert [shard.name for shard in after.shards] == [shard.name for shard in before.shards]
    tfs.clean(local.url("ds/train"), keep_replaced=False)
    assert globbed(local) == read(local, "ds/train") == written([0, 1])


TAKEN = "train-00001-of-00002.tfrecord"


def test_names_that_are_taken_are_named_and_left(place: Place) -> None:
    job = job_at(place)
    results = [run(job, task) for task in range(2)]
    place.put(f"ds/{TAKEN}", b"another program's")
    for _ in range(2):
        with pytest.raises(NamesTakenError, match=rf"1 of the plain names .*{TAKEN}"):
            job.commit(results)
    assert place.get(f"ds/{TAKEN}") == b"another program's"
    assert plain(place) == [f"ds/{TAKEN}"]
    manifest = job.commit(results, names="tagged")
    assert all(shard.name.startswith("_train-") for shard in manifest.shards)
    assert read(place, "ds/train") == written(range(2))
    assert place.get(f"ds/{TAKEN}") == b"another program's"
    assert len(place.names()) == 5


def test_names_that_are_free_again(local: Place) -> None:
    job = job_at(local)
    results = [run(job, task) for task in range(2)]
    local.put(f"ds/{TAKEN}", b"another program's")
    with pytest.raises(FileExistsError):
        job.commit(results)
    os.unlink(local.url(f"ds/{TAKEN}"))
    job.commit(results)
    assert globbed(local) == written(range(2))


def test_a_job_of_known_names_learns_at_once_that_they_are_taken(local: Place) -> None:
    local.put(f"ds/{TAKEN}", b"another program's")
    with pytest.raises(NamesTakenError, match=TAKEN):
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
    with pytest.raises(NamesTakenError, match=TAKEN):
        job.commit(results)
    job.abort()
    assert local.get(f"ds/{TAKEN}") == b"another program's"
    left = [name for name in local.names() if "claim" not in name]
    assert left == [f"ds/{TAKEN}"]
    cleaned(local)
    assert local.names() == [f"ds/{TAKEN}"]


@pytest.mark.parametrize("then", ["commit", "commit elsewhere", "abort", "abort elsewhere"])
def test_a_commit_that_fails_among_its_copies(
    local: Place, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    local.put("ds/train-00009-of-00003.tfrecord", b"another program's")
    job = job_at(local)
    results = [run(job, task) for task in range(3)]
    copy = LocalStore.copy

    def failing(self: LocalStore, source: str, target: str) -> Any:
        if "00001-of" in target:
            raise TimeoutError(errno.ETIMEDOUT, "in the store", target)
        return copy(self, source, target)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "copy", failing)
        with pytest.raises(TimeoutError):
            job.commit(results)
    assert not (Path(local.root) / "ds/_train.manifest.json").exists()
    other = pickle.loads(pickle.dumps(job)) if "elsewhere" in then else job
    if "commit" in then:
        assert other.commit(results).records == 150
        assert len(local.names()) == 6
        assert read(local, "ds/train") == written(range(3))
        return
    other.abort()
    assert [name for name in local.names() if ".claim." not in name] == [
        "ds/train-00009-of-00003.tfrecord"
    ]
    cleaned(local)
    assert local.names() == ["ds/train-00009-of-00003.tfrecord"]


def die_while_committing(url: str, copies: int) -> None:
    job = tfs.WriteJob(url, names="plain")
    results = [run(job, task) for task in range(3)]
    copy, made = LocalStore.copy, list[str]()

    def dying(self: LocalStore, source: str, target: str) -> Any:
        if len(made) == copies:
            os.kill(os.getpid(), 9)
        made.append(target)
        return copy(self, source, target)

    LocalStore.copy = dying  # type: ignore[method-assign]
    job.commit(results)


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_driver_killed_among_its_copies(local: Place, copies: int) -> None:
    context = multiprocessing.get_context("spawn")
    url = local.url("ds/train")
    child = context.Process(target=die_while_committing, args=(url, copies))
    child.start()
    child.join()
    assert child.exitcode == -9
    with pytest.raises(FileNotFoundError):
        list(tfs.RecordReader(url))
    cleaned(local)
    assert local.names() == []
    committed(local, range(3))
    assert globbed(local) == written(range(3))


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


def interrupted(local: Place, monkeypatch: pytest.MonkeyPatch) -> tuple[tfs.WriteJob, list[Any]]:
    """A job whose store fails when its copies are there and the manifest is not."""
    from tfio_store.write import commit

    def fails(*args: Any, **options: Any) -> Any:
        raise OSError(errno.EIO, "the store is down")

    job = job_at(local)
    results = [run(job, task) for task in range(2)]
    with monkeypatch.context() as patched:
        patched.setattr(commit, "put_parts", fails)
        with pytest.raises(OSError, match="down"):
            job.commit(results)
    return job, results


def test_copies_of_the_same_bytes_by_another_job_are_not_ours(
    local: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = interrupted(local, monkeypatch)
    assert len(plain(local)) == 2
    committed(local, range(2))  # the pipeline runs again, while the first job is given up
    other.abort()
    assert globbed(local) == read(local, "ds/train") == written(range(2))


def test_two_jobs_of_the_same_bytes_that_note_the_same_names(
    local: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one notes its names when the first has looked which are free."""
    from tfio_store.write import plain_names

    first, second = job_at(local), job_at(local)
    of_first, of_second = ([run(job, task) for task in range(2)] for job in (first, second))
    look = plain_names.PlainCopies.look

    def then_the_second(*args: Any) -> Any:
        found = look(*args)
        monkeypatch.setattr(plain_names.PlainCopies, "look", look)
        second.commit(of_second)
        return found

    monkeypatch.setattr(plain_names.PlainCopies, "look", then_the_second)
    with pytest.raises(FileExistsError):
        first.commit(of_first)
    first.abort()
    assert read(local, "ds/train") == written(range(2))


def test_a_note_that_another_has_too_is_taken_back(
    local: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, results = interrupted(local, monkeypatch)
    from tfio_store.write import plain_names

    look = plain_names.PlainCopies.look
    seen = [set[str]()]  # as if the names and the other's note had come a moment later

    def too_early(folder: Any, names: Any, shards: Any, first: int, made: Any, *rest: Any) -> Any:
        before = seen.pop() if seen else None
        present, own = rest
        return look(folder, names, shards, first, made, present if before is None else before, own)

    monkeypatch.setattr(plain_names.PlainCopies, "look", too_early)
    mine = committed(local, range(2))
    assert all(
        "-00000-of-" in mine.shards[0].name and (mine.generation or "?") in s.name
        for s in mine.shards
    )
    with pytest.raises(FileExistsError):
        other.commit(results)
    assert read(local, "ds/train") == written(range(2))

"""`WriteJob`: shards from many processes, retried, doubled, late; one commit."""

from __future__ import annotations

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending


def job_at(place: Place, **options: Any) -> tfs.WriteJob:
    options.setdefault("num_shards", 3)
    return tfs.WriteJob(place.url("ds/train"), storage_options=place.storage_options, **options)


def records_of(shard: int) -> list[bytes]:
    return [b"%d:%d" % (shard, i) for i in range(100)]


def task(job: tfs.WriteJob, shard: int) -> tfs.results.ShardInfo:
    return job.write_shard(shard, records_of(shard))


def test_duplicates_and_another_order(place: Place) -> None:
    job = job_at(place)
    infos = [task(job, shard) for shard in (2, 1, 0, 1, 2)]
    manifest = job.commit(infos)
    assert [shard.name for shard in manifest.shards] == [infos[i].name for i in (2, 1, 0)]
    assert len(place.names()) == 5
    assert read(place, "ds/train") == [r for shard in range(3) for r in records_of(shard)]


def test_a_late_duplicate_leaves_nothing(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    job = job_at(place)
    worker = pickle.loads(pickle.dumps(job))
    manifest = job.commit([task(job, shard) for shard in range(3)])
    before = place.names()
    with pytest.raises(OSError, match="too late"):
        task(worker, 1)
    assert place.names() == before
    assert job.commit([]).to_bytes() == manifest.to_bytes()


def test_leaving_without_commit_aborts(place: Place) -> None:
    with job_at(place) as job:
        task(job, 1)
    assert place.names() == []


def test_missing_shards_are_named_and_may_still_be_written(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    job = job_at(place)
    infos = [task(job, 1)]
    with pytest.raises(ValueError, match=r"lack 2 shards: \[0, 2\]"):
        job.commit(infos)
    job.commit([*infos, task(job, 0), task(job, 2)])
    assert len(read(place, "ds/train")) == 300


def test_an_info_of_another_job_is_refused(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    first, second = job_at(place), job_at(place)
    infos = [task(first, shard) for shard in range(3)]
    with pytest.raises(ValueError, match="no shard of this job"):
        second.commit(infos)
    first.commit(infos)
    with pytest.raises(FileExistsError):
        second.commit([task(second, shard) for shard in range(3)])
    assert len(place.names()) == 5


def test_an_object_that_is_gone_or_damaged_stops_the_commit(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    job = job_at(place)
    infos = [task(job, shard) for shard in range(3)]
    with open(tmp_path / "ds" / infos[1].name, "ab") as file:
        file.write(b"x")
    with pytest.raises(OSError, match="store holds"):
        job.commit(infos)
    os.unlink(tmp_path / "ds" / infos[1].name)
    with pytest.raises(FileNotFoundError, match="00001-of-00003"):
        job.commit(infos)
    job.commit([infos[0], task(job, 1), infos[2]])


def test_records_that_fail_leave_nothing(place: Place) -> None:
    def broken() -> Any:
        yield from [bytes(1 << 20)] * 12
        raise RuntimeError("in the records")

    job = job_at(place)
    with pytest.raises(RuntimeError, match="in the records"):
        job.write_shard(0, broken())
    with pytest.raises(ValueError, match="shard must be 0 to 2"):
        job.write_shard(3, [])
    assert len(place.names()) == 1  # the claim
    assert not pending(place)


def test_what_stopped_a_shard_is_not_hidden_by_a_failure_to_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no deletes here")

    def broken() -> Any:
        yield from [bytes(1 << 20)] * 12
        raise RuntimeError("in the records")

    job = job_at(Place(str(tmp_path)))
    monkeypatch.setattr("tfio_store.dataset.folder.Folder.delete", refuse)
    with (
        pytest.warns(UserWarning, match="no deletes here"),
        pytest.raises(RuntimeError, match="in the records"),
    ):
        job.write_shard(0, broken())


@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_a_job_can_append_and_overwrite(tmp_path: Path, if_exists: Any) -> None:
    place = Place(str(tmp_path))
    with sharded(place) as writer:
        writer.write(b"old")
    job = job_at(place, if_exists=if_exists)
    job.commit(map(partial(task, job), range(3)))
    assert len(read(place, "ds/train")) == (301 if if_exists == "append" else 300)

"""A `WriteJob` of many tasks: what its driver asks the store for."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import tfio_store as tfs
from tests.support.indexes import all_long
from tests.support.rounds import Rounds
from tfio_store.dataset.manifest import ShardInfo
from tfio_store.storage import open_store
from tfio_store.write.stored_objects import WrongContentError


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    all_long(monkeypatch)


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> Rounds:
    return Rounds(open_store("/")[0], monkeypatch)


def written(url: str, tasks: int) -> tuple[tfs.WriteJob, list[ShardInfo]]:
    job = tfs.WriteJob(url, num_shards=tasks)
    return job, [job.write_shard(i, [b"%d" % i]) for i in range(tasks)]


def test_a_commit_asks_as_often_for_many_tasks(tmp_path: Path, rounds: Rounds) -> None:
    asked = []
    for tasks in (70, 110):
        job, infos = written(str(tmp_path / str(tasks) / "train"), tasks)
        rounds.clear()
        assert job.commit(infos).records == tasks
        asked.append(rounds.requests)
    assert asked[0] == asked[1] < 40


@pytest.mark.parametrize("names", ["tagged", "plain"])
def test_a_commit_of_tasks_without_a_number_of_shards(
    tmp_path: Path, rounds: Rounds, names: Literal["tagged", "plain"]
) -> None:
    asked = []
    for tasks in (70, 110):
        job = tfs.WriteJob(str(tmp_path / str(tasks) / "train"), names=names)
        results = [job.write([b"%d" % i], order=i) for i in range(tasks)]
        rounds.clear()
        assert job.commit(results).records == tasks
        asked.append(rounds.requests)
    each = 0 if names == "tagged" else 1  # a copy
    assert asked[1] - asked[0] == 40 * each
    assert asked[0] < 40 + 70 * each


@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_listing_shows_what_is_wrong(tmp_path: Path, rounds: Rounds, damage: str) -> None:
    del rounds
    job, infos = written(str(tmp_path / "train"), 70)
    shard = tmp_path / infos[33].name
    shard.unlink() if damage == "gone" else shard.write_bytes(shard.read_bytes()[:-1])
    expected = FileNotFoundError if damage == "gone" else WrongContentError
    with pytest.raises(expected, match=infos[33].name):
        job.commit(infos)
    assert not (tmp_path / "_train.manifest.json").exists()


def test_where_nothing_may_be_listed_each_is_asked_for(
    tmp_path: Path, rounds: Rounds, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, infos = written(str(tmp_path / "train"), 70)
    store = type(open_store("/")[0])
    glob = store.glob

    def refused(self: object, pattern: str) -> object:
        if "tfrecord" in pattern or "_train-" in pattern:
            raise PermissionError(13, "refused", pattern)
        return glob(self, pattern)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "glob", refused)
    rounds.clear()
    assert job.commit(infos).records == 70
    assert rounds.requests > 70


def test_the_progress_of_cleaning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tfio_store.maintain.clean._DELETED_BETWEEN", 3)
    url = str(tmp_path / "train")
    for if_exists in ("error", "overwrite"):
        with tfs.ShardedWriter(url, num_shards=6, if_exists=if_exists) as writer:
            writer.write_batch([b"x"] * 6)
    seen: list[tuple[int, int]] = []
    gone = tfs.clean(
        url, older_than=0, keep_replaced=False, on_progress=lambda *at: seen.append(at)
    )
    total = len(gone.objects)
    assert total > 6
    assert seen == [(min(n, total), total) for n in range(3, total + 3, 3)]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        {*writer.manifest.names(), "_train.manifest.json"}
    )

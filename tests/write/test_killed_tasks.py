"""Tasks and drivers in processes of their own, which are killed, doubled, late and restarted."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.long import first
from tests.support.sharded import read
from tests.write.test_file_writer import pending
from tests.write.test_tasks import job_at, records_of, run, written
from tfio_store.errors import UncertainCommitError
from tfio_store.storage.local import LocalOutput, LocalStore

CONTEXT = multiprocessing.get_context("fork")


@pytest.fixture(params=["local", "s3"])
def shared(request: pytest.FixtureRequest, local: Place) -> Place:
    """A place that several processes reach."""
    found: Place = local if request.param == "local" else request.getfixturevalue("s3")
    return found


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def attempt(pickled: bytes, task: int, how: str, driver: Connection) -> None:
    """One attempt at a task in an engine's worker."""
    job: tfs.WriteJob = pickle.loads(pickled)
    with job.open(order=task, max_shard_bytes=6 << 20) as writer:
        if how == "fails":
            raise RuntimeError("in the task")
        if how in ("is killed in an upload", "is late"):
            writer.write_batch([bytes(1 << 20)] * 9)
        if how == "is killed in an upload":
            writer._uploads.drain()
            killed()
        if how == "is late":
            driver.send("waits")
            driver.recv()
        writer.write_batch(records_of(task))
        if how == "is killed at its end":
            writer.close()
            killed()
    driver.send(writer.result)


def begun(job: tfs.WriteJob, task: int, how: str = "succeeds") -> tuple[Any, Connection]:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=attempt, args=(pickle.dumps(job), task, how, theirs))
    process.start()
    theirs.close()
    return process, ours


def ended(worker: tuple[Any, Connection]) -> tfs.results.TaskResult | None:
    """What it reports; None if it has died or failed."""
    process, connection = worker
    try:
        result: tfs.results.TaskResult | None = connection.recv()
    except EOFError:
        result = None
    process.join()
    return result


def test_tasks_that_die_fail_and_run_twice_count_once(shared: Place) -> None:
    job = job_at(shared)
    hows = ["is killed in an upload", "is killed at its end", "fails", "succeeds"]
    first = [begun(job, task, how) for task, how in enumerate(hows)]
    results = [ended(worker) for worker in first]
    assert [result is None for result in results] == [True, True, True, False]
    again = [ended(worker) for worker in [begun(job, task) for task in range(len(hows))]]
    manifest = job.commit([result for result in (*results, *again) if result is not None])
    assert read(shared, "ds/train") == written(range(len(hows)))
    # What nobody reported is gone, also an upload that never ended.
    assert len(shared.names()) == 2 + len(manifest.shards) == 6
    assert not pending(shared)


def test_a_task_that_ends_after_the_commit_fails_and_leaves_nothing(shared: Place) -> None:
    job = job_at(shared)
    process, connection = late = begun(job, 0, "is late")
    assert connection.recv() == "waits"
    manifest = job.commit([run(job, 0)])
    connection.send("go on")
    assert ended(late) is None
    assert process.exitcode == 1
    assert read(shared, "ds/train") == written([0])
    assert len(shared.names()) == 2 + len(manifest.shards) == 3
    assert not pending(shared)


def commit_here(pickled: bytes, driver: Connection) -> None:
    job, results = pickle.loads(pickled)
    driver.send(job.commit(results).to_bytes())


@pytest.mark.parametrize("names", ["tagged", "plain"])
def test_two_drivers_commit_at_once(shared: Place, names: Any) -> None:
    job = job_at(shared, names=names)
    told = pickle.dumps((job, [run(job, task) for task in range(3)]))
    pipes = [CONTEXT.Pipe() for _ in range(2)]
    drivers = [CONTEXT.Process(target=commit_here, args=(told, end)) for _, end in pipes]
    for driver in drivers:
        driver.start()
    manifests = {ours.recv() for ours, _ in pipes}
    for driver in drivers:
        driver.join()
    assert manifests == {job.commit([]).to_bytes()}
    assert read(shared, "ds/train") == written(range(3))
    cleaned(shared)
    assert len(shared.names()) == 5


def no_answer(*arguments: object, **options: object) -> Any:
    raise ConnectionResetError(errno.ECONNRESET, "the store does not answer")


def commit_and_hear_nothing(pickled: bytes, carried_out: bool) -> None:
    """The manifest's request gets no answer, and then nothing does."""
    job, results = pickle.loads(pickled)
    put = LocalStore.put

    def silent(self: LocalStore, path: str, *arguments: Any, **options: Any) -> Any:
        if not path.endswith("manifest.json"):
            return put(self, path, *arguments, **options)
        if carried_out:
            put(self, path, *arguments, **options)
        LocalStore.get = LocalStore.put = no_answer  # type: ignore[method-assign]
        return no_answer()

    LocalStore.put = silent  # type: ignore[method-assign]
    with pytest.raises(UncertainCommitError):
        job.commit(results)


@pytest.mark.parametrize("carried_out", [True, False])
def test_a_commit_raises_and_the_engine_aborts_elsewhere(local: Place, carried_out: bool) -> None:
    job = job_at(local)
    results = [run(job, task) for task in range(3)]
    told = pickle.dumps((job, results))
    driver = CONTEXT.Process(target=commit_and_hear_nothing, args=(told, carried_out))
    driver.start()
    driver.join()
    assert driver.exitcode == 0
    before = local.names()
    for _ in range(2):
        pickle.loads(told)[0].abort()
    # What has landed, or may land yet, is all there.
    assert local.names() == before
    assert pickle.loads(told)[0].commit(results).records == 150
    assert read(local, "ds/train") == written(range(3))
    assert len(local.names()) == 5


CHANGES: list[tuple[type, str]] = [
    (LocalStore, "put"),
    (LocalStore, "copy"),
    (LocalStore, "delete"),
    (LocalOutput, "commit"),
]


def drive_and_die(url: str, names: Any, if_exists: Any, at: int) -> None:
    """A driver whose process ends before the change of this number, or else reports success."""
    made = 0

    def counted(method: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            if made == at:
                killed()
            return method(*arguments, **options)

        return counting

    for owner, name in CHANGES:
        setattr(owner, name, counted(getattr(owner, name)))
    job = tfs.WriteJob(url, names=names, if_exists=if_exists)
    job.commit([run(job, task) for task in range(1, 3)])


@pytest.mark.parametrize(
    ("if_exists", "names"),
    first(
        2,
        [
            ("append", "tagged"),
            ("overwrite", "plain"),
            ("error", "plain"),
            ("error", "tagged"),
            ("append", "plain"),
            ("overwrite", "tagged"),
        ],
    ),
)
def test_a_driver_that_dies_anywhere(tmp_path: Path, names: Any, if_exists: Any) -> None:
    """Readers see the dataset before it or the one after it, and `clean` leaves no more."""
    before = [] if if_exists == "error" else [0]
    after = [0, 1, 2] if if_exists == "append" else [1, 2]
    seen: list[list[int]] = []
    for at in range(1, 60):
        place = Place(str(tmp_path / str(at)))
        if before:
            _first(place)
        driver = CONTEXT.Process(
            target=drive_and_die, args=(place.url("ds/train"), names, if_exists, at)
        )
        driver.start()
        driver.join()
        assert driver.exitcode in (0, -signal.SIGKILL)
        found = _tasks(place)
        assert found in (before, after)
        tfs.clean(place.url("ds/train"), older_than=0, keep_replaced=False)
        finished = _tasks(place)
        assert finished in (found, after)
        seen.append(finished)
        shards = len(set(finished)) if finished else 0
        assert len(place.names()) == (shards + 2 if finished else 0)
        assert not pending(place)
        if driver.exitcode == 0:
            break
    assert driver.exitcode == 0
    assert seen[0] == before
    assert seen == sorted(seen, key=lambda tasks: tasks == after)  # it goes one way


def _first(place: Place) -> None:
    job = job_at(place)
    job.commit([run(job, 0)])


def _tasks(place: Place) -> list[int]:
    """The tasks whose records a reader finds, each whole."""
    try:
        records = read(place, "ds/train")
    except FileNotFoundError:
        return []
    tasks = sorted({int(record.split(b":")[0]) for record in records})
    assert sorted(records) == sorted(written(tasks))
    return tasks

"""A writer at work is alive, however slowly its records come, and however short its tasks are."""

from __future__ import annotations

import gc
import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.storage.threads import PerProcess
from tfio_store.write import claim as held_claim, claim as pulse
from tfio_store.write.claim import HeldClaim

BEAT = 0.02


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signs of life every now and then, by a thread of this test."""
    monkeypatch.setattr(pulse, "BEAT_SECONDS", BEAT)
    monkeypatch.setattr(held_claim, "BEAT_SECONDS", BEAT)
    monkeypatch.setattr(pulse, "_heart", PerProcess(pulse.Heart))


def alive(claim: HeldClaim) -> float:
    found = claim.read()
    assert found is not None
    return found.alive


def soon(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 30
    while not holds() and time.monotonic() < until:
        time.sleep(BEAT)
    return holds()


@pytest.mark.parametrize("kind", ["ShardedWriter", "WriteJob", "a task"])
def test_who_writes_nothing_yet_is_alive(tmp_path: Path, quick: None, kind: str) -> None:
    url = str(tmp_path / "train")
    writer: Any = (tfs.ShardedWriter if kind == "ShardedWriter" else tfs.WriteJob)(url)
    claim = writer._attempt.claim
    if kind == "a task":
        there = pickle.loads(pickle.dumps(writer))
        writer._stop_pulse()  # the driver is gone
        task = there.open(order=0)
    first = alive(claim)
    assert soon(lambda: alive(claim) > first)
    if kind == "a task":
        task.abort()
    writer.abort()


@pytest.mark.parametrize("end", ["commit", "abort", "drop"])
def test_who_has_ended_gives_no_sign(tmp_path: Path, quick: None, end: str) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    writer = job.open()
    held = pulse._heart.here._pulses
    assert len(held) == 2
    result = writer.close()
    assert len(held) == 1
    if end == "commit":
        job.commit([result])
    elif end == "abort":
        job.abort()
    del job, writer
    gc.collect()
    assert soon(lambda: not held)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_child_shows_no_life_of_its_parent(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    claim = job._attempt.claim
    with claim._lock.here:  # as if a beat were under way
        child = os.fork()
        if child == 0:
            ok = False
            try:
                ok = not pulse._heart.here._pulses and claim.read() is not None
            finally:
                os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    job.abort()


@pytest.mark.parametrize("num_shards", [None, 1])
def test_short_tasks_renew_the_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_shards: int | None
) -> None:
    url = str(tmp_path / "train")
    job = tfs.WriteJob(url, num_shards=num_shards)
    job._stop_pulse()  # the driver is gone
    data, now = pickle.dumps(job), time.time()
    results: Any = []
    for day in range(3):  # each task takes a moment, in a process of its own
        monkeypatch.setattr(time, "time", lambda day=day: now + 0.9 * 86400 * day)
        assert len(tfs.clean(url).alive) == 1
        there = pickle.loads(data)
        if num_shards is None:
            results.append(there.write([b"record"], order=day))
        else:
            results.append(there.write_shard(0, [b"record"]))
    assert job.commit(results).records == (3 if num_shards is None else 1)


def test_an_ended_job_gets_no_sign_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    claim = job._attempt.claim
    claim.give_up()
    before, now = alive(claim), time.time()
    monkeypatch.setattr(time, "time", lambda: now + 86400)
    claim.beat()
    found = claim.look()
    assert found is not None
    assert (found.state, found.alive) == ("aborted", before)


def test_a_task_of_an_ended_job_refuses_at_once(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    job.abort()
    for begin in (job.open, lambda: job.write(pytest.fail("never asked") for _ in range(1))):
        with pytest.raises(OSError, match="comes too late"):
            begin()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("batch", [False, True])
def test_a_task_asks_again_for_each_shard(tmp_path: Path, batch: bool) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    writer = job.open(max_shard_bytes=100)
    writer.write(b"x" * 90)
    pickle.loads(pickle.dumps(job)).abort()
    with pytest.raises(OSError, match="comes too late"):
        writer.write_batch([b"x" * 90]) if batch else writer.write(b"x" * 90)
    for again in (lambda: writer.write(b"x"), writer.close):
        with pytest.raises(OSError, match="comes too late"):
            again()
    writer.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["ShardedWriter", "WriteJob"])
def test_a_clock_that_jumps_back_stops_no_signs_of_life(
    tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    writer: Any = (tfs.ShardedWriter if kind == "ShardedWriter" else tfs.WriteJob)(
        str(tmp_path / "train")
    )
    claim, wall = writer._attempt.claim, time.time
    first = alive(claim)
    monkeypatch.setattr(time, "time", lambda: wall() - 3 * 86400)
    assert soon(lambda: alive(claim) > first + 2 * BEAT)
    writer.abort()

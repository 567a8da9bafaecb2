"""What callers do to jobs and their tasks by mistake: it is refused where it is done, and named."""

from __future__ import annotations

import os
import pickle
from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tfio_store.write.task import check_order


@pytest.fixture
def job(tmp_path: Path) -> tfs.WriteJob:
    return tfs.WriteJob(str(tmp_path / "train"))


def test_an_abort_inside_the_context_leaves_it_quietly(job: tfs.WriteJob, tmp_path: Path) -> None:
    with job.open() as writer:
        writer.write(b"one")
        writer.abort()
    with pytest.raises(ValueError, match="closed"):
        writer.close()
    job.abort()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
@pytest.mark.parametrize(
    "use",
    [lambda writer: writer.close(), lambda writer: writer.write_batch([b"two"])],
    ids=["close", "write_batch"],
)
@pytest.mark.parametrize("written", [0, 1])
def test_a_forked_child_can_not_use_its_parents_writer(
    job: tfs.WriteJob, use: Callable[[tfs.results.TaskWriter], object], written: int
) -> None:
    writer = job.open()
    writer.write_batch([b"one"] * written)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            use(writer)
        except RuntimeError as error:
            status = 0 if "belongs to process" in str(error) else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert job.commit([writer.close()]).records == written


class Phase(IntEnum):
    LATE = 3


class Part(str, Enum):
    FIRST = "first"


Place = namedtuple("Place", "day hour")


@pytest.mark.parametrize(
    ("order", "plain"),
    [
        (np.int64(3), 3),
        (Phase.LATE, 3),
        (Part.FIRST, "first"),
        (np.str_("a"), "a"),
        (Place(1, 2), (1, 2)),
        ((np.int32(1), 2), (1, 2)),
    ],
)
def test_an_order_becomes_a_plain_value(order: Any, plain: Any) -> None:
    found = check_order(order)
    assert (found, type(found)) == (plain, type(plain))
    if isinstance(found, tuple):
        assert {*map(type, found)} == {int}


@pytest.mark.parametrize(
    "order", [True, np.bool_(1), 1.0, (), (1, True), (1, "a"), ("a",), [1], b"a"]
)
def test_what_is_no_order(job: tfs.WriteJob, order: Any) -> None:
    with pytest.raises(TypeError, match="order must be an int, a tuple of ints, or a str"):
        job.open(order)
    job.abort()


def test_results_from_here_and_from_elsewhere(job: tfs.WriteJob) -> None:
    here = job.write([b"a"], order=Place(1, 2))
    there = pickle.loads(pickle.dumps(job.write([b"b"], order=Place(1, 1))))
    assert [shard.records for shard in job.commit([here, there]).shards] == [1, 1]


@pytest.mark.parametrize("size", ["10", 1e6, float("nan"), True, 0, -1])
@pytest.mark.parametrize("argument", ["max_shard_bytes", "max_shard_records"])
def test_a_size_that_is_none(tmp_path: Path, size: Any, argument: str) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be a positive integer, not"):
        tfs.ShardedWriter(str(tmp_path / "train"), **{argument: size})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("size", [None, "10", 1e6, True, 0])
def test_a_tasks_size_that_is_none(job: tfs.WriteJob, size: Any) -> None:
    with pytest.raises(ValueError, match="max_shard_bytes must be a positive integer, not"):
        job.open(max_shard_bytes=size)
    job.open(max_shard_bytes=np.int64(100)).abort()
    job.abort()


@pytest.mark.parametrize("kind", [tfs.WriteJob, tfs.ShardedWriter])
@pytest.mark.parametrize("count", [True, 0, 1.0])
def test_a_number_of_shards_that_is_none(tmp_path: Path, kind: Any, count: Any) -> None:
    with pytest.raises(ValueError, match="num_shards must be a positive integer"):
        kind(str(tmp_path / "train"), num_shards=count)


def test_results_must_come_in_an_iterable(job: tfs.WriteJob) -> None:
    result = job.write([b"a"])
    for wrong in (result, None, 3):
        with pytest.raises(TypeError, match="results must be an iterable of what tasks returned"):
            job.commit(wrong)  # type: ignore[arg-type]
    assert job.commit([result]).records == 1


def test_a_result_names_only_what_its_own_task_wrote(job: tfs.WriteJob, tmp_path: Path) -> None:
    one, two = job.write([b"a"], order=0), job.write([b"b"], order=1)
    stranger = tmp_path / "foreign.tfrecord"
    stranger.write_bytes((tmp_path / one.shards[0].name).read_bytes())
    foreign = replace(one, shards=(replace(one.shards[0], name=stranger.name),))
    doubled = replace(one, shards=one.shards * 2)
    for wrong in (foreign, doubled, replace(two, shards=one.shards)):
        with pytest.raises(ValueError, match=r"is not what .* wrote"):
            job.commit([wrong])
    assert job.commit([one, two]).records == 2


def test_attempts_of_unlike_length_are_told(job: tfs.WriteJob) -> None:
    first, second = job.write([b"a"] * 3, order=7), job.write([b"b"] * 5, order=7)
    with pytest.warns(RuntimeWarning, match=r"order 7 .* 3 records, .* 5,"):
        assert job.commit([first, second]).records == 3


@pytest.mark.filterwarnings("error")
def test_attempts_of_one_length_are_not(job: tfs.WriteJob) -> None:
    first, second = job.write([b"a"] * 3, order=7), job.write([b"b"] * 3, order=7)
    assert job.commit([first, second, first]).records == 3

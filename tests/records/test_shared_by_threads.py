"""What several threads use at once: each record comes once, and is written once.

An interpreter that has one lock makes most of this true by itself. Without it (`python3.14t` with
PYTHON_GIL=0) the objects' own locks do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

core: Any = pytest.importorskip("tfio_store.records._core")

THREADS = 8
RECORDS = [b"%06d" % i * (1 + i % 7) for i in range(20_000)]


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """What ``work`` answers in each of the threads, which begin together."""
    ready = threading.Barrier(THREADS)

    def begin(number: int) -> Any:
        ready.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(begin, range(THREADS)))


@pytest.mark.parametrize("owned", [False, True])
def test_an_iterator_gives_each_record_to_one_thread(owned: bool) -> None:
    runs = [RECORDS[at : at + 500] for at in range(0, len(RECORDS), 500)]
    batches = [list(run) if owned else core.RecordBatch.from_records(run) for run in runs]
    iterator = core.RecordIterator(iter(batches))

    said: set[str] = set()

    def take(number: int) -> list[bytes]:
        taken = []
        while True:
            try:
                taken.append(next(iterator))
            except StopIteration:
                return taken
            except RuntimeError as fault:
                said.add(str(fault))

    assert sorted(record for taken in in_threads(take) for record in taken) == sorted(RECORDS)
    assert all("another thread is fetching" in each for each in said)


def rest_of(iterator: Any, number: int) -> Any:
    return iterator.take_rest()


def test_a_rest_is_taken_once() -> None:
    for _ in range(50):
        iterator = core.RecordIterator(iter([core.RecordBatch.from_records(RECORDS[:100])]))
        first = next(iterator)
        rests = [rest.tolist() for rest in in_threads(partial(rest_of, iterator)) if rest]
        assert [first, *(record for rest in rests for record in rest)] == RECORDS[:100]


def test_a_frame_writer_has_whole_frames_or_says_that_it_is_in_use() -> None:
    writer = core.FrameWriter()
    said: set[str] = set()
    calls = [
        lambda run: [writer.write(record) for record in run],
        lambda run: writer.write_many(run),
        lambda run: writer.write_some(run, 0, 1 << 30),
        lambda run: writer.write_batch(core.RecordBatch.from_records(run)),
    ]

    def write(number: int) -> list[bytes]:
        written: list[bytes] = []
        for at in range(number * 2500, (number + 1) * 2500, 10):
            run = RECORDS[at : at + 1] if number % 4 == 0 else RECORDS[at : at + 10]
            try:
                calls[number % 4](run)
            except RuntimeError as fault:
                said.add(str(fault))
            else:
                written += run
        return written

    written = [record for each in in_threads(write) for record in each]
    assert all("in use" in each for each in said)
    assert writer.records == len(written)
    found = core.scan(writer.take())
    assert found.fault is None
    assert sorted(found.batch.tolist()) == sorted(written)


def test_memory_of_the_pool_is_lent_to_one_at_a_time() -> None:
    def fill(number: int) -> bool:
        whole = True
        for size in (32 << 10, 48 << 10, 1 << 20) * 40:
            buffer = core.Buffer(size)
            view = memoryview(buffer)
            view[:] = bytes([number]) * size
            whole = whole and bytes(view) == bytes([number]) * size
        return whole

    assert all(in_threads(fill))


def test_a_learner_counts_each_mapping() -> None:
    example: Any = pytest.importorskip("tfio_store.example._example")
    learner = example.Learner()

    def learn(number: int) -> int:
        for i in range(500):
            learner.encode({"x": i, f"only_{number}_{i % 25}": [1.0, 2.0]})
        return 500

    assert learner.state()["records"] == 0
    assert sum(in_threads(learn)) == learner.state()["records"]
    columns = learner.state()["columns"]
    assert columns["x"][1] == THREADS * 500
    assert len(columns) == 1 + THREADS * 25
    assert all(told[1] == 20 for name, told in columns.items() if name != "x")

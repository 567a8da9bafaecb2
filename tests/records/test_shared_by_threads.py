"""What several threads use at once: each record comes once, and is written once.

An interpreter that has one lock makes most of this true by itself. Without it (`python3.14t` with
PYTHON_GIL=0) the objects' own locks do.
"""

from __future__ import annotations

import random
import threading
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
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


def test_memory_in_front_of_a_buffer_is_used_once() -> None:
    for _ in range(30):
        buffer = core.Buffer(64 << 10)
        view = memoryview(buffer)
        view[:] = bytes(len(view))

        def put(number: int, view: memoryview = view) -> Any:
            return core.prepend(bytes([number]) * 1000, view)

        (joined,) = [found for found in in_threads(put) if found is not None]
        assert len(set(joined[:1000])) == 1
        assert bytes(joined[1000:]) == bytes(len(view))


def test_an_inflater_is_read_by_one_thread_at_a_time() -> None:
    """The others are refused, and none of them writes to memory that another one has let go."""
    raw = random.Random(1).randbytes(1 << 20) + bytes(4 << 20)
    packed = zlib.compress(raw)
    for _ in range(5):
        inflater = core.Inflater("ZLIB")
        inflater.feed(packed)
        inflater.finish()
        said: set[str] = set()

        def read(number: int, inflater: Any = inflater, said: set[str] = said) -> int:
            nbytes = 0
            while inflater.status != "end":
                try:
                    if number == 0:
                        inflater.mark(), inflater.window(), inflater.feed(b"")
                    else:
                        nbytes += len(inflater.read(100_000 * number))
                except RuntimeError as fault:
                    said.add(str(fault))
            return nbytes

        assert sum(in_threads(read)) == len(raw)
        assert all("in use" in each for each in said)


def new_learner() -> Any:
    example: Any = pytest.importorskip("tfio_store.example._example")
    return example.Learner()


def test_a_learner_counts_each_mapping() -> None:
    learner = new_learner()

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


class Slow:
    """An array that lets other threads in while its values are asked for."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        time.sleep(0)
        return np.zeros(self.shape, np.int64)


def test_a_learner_keeps_mappings_of_several_forms_apart() -> None:
    forms = [{f"{form}_{i}": Slow(2, 2) for i in range(1 + 5 * form)} for form in range(4)]
    learner = new_learner()

    def learn(number: int) -> None:
        for i in range(100):
            learner.encode(forms[(number + i) % 4])

    in_threads(learn)
    columns = learner.state()["columns"]
    assert {name: told[1] for name, told in columns.items()} == dict.fromkeys(
        (name for form in forms for name in form), THREADS * 25
    )


def test_a_learner_learns_all_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    example: Any = pytest.importorskip("tfio_store.example._example")
    common_shape = example.common_shape

    def slowly(shapes: Any) -> Any:
        found = common_shape(shapes)
        time.sleep(0.001)
        return found

    monkeypatch.setattr(example, "common_shape", slowly)
    for _ in range(5):
        learner = example.Learner()

        def learn(number: int, learner: Any = learner) -> None:
            shape = (number + 1, 2) if number else (1, 3)
            learner.encode({"x": np.zeros(shape, np.float32)})

        in_threads(learn)
        assert learner.state()["columns"]["x"][6] == [[None]]

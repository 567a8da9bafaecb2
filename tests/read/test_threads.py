"""Shared by threads: what the core and the decoder promise when two of them come at once."""

from __future__ import annotations

import gc
import random
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.cores import both_cores, framed
from tfio_store.records.framing import RecordDecoder

_trace: Any = None
_installing = threading.Lock()
"""Python has no thread install a trace function while another one does; the thread would end."""


def errors_in_threads(work: Callable[[int], None], count: int = 4) -> list[BaseException]:
    """Run ``work`` in threads that start together; what they raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        with _installing:
            if _trace is not None:
                sys.settrace(_trace)
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    global _trace
    interval = sys.getswitchinterval()

    def at_each_line(*_: object) -> Any:
        return at_each_line

    sys.setswitchinterval(1e-6)
    _trace = at_each_line
    yield
    _trace = None
    sys.setswitchinterval(interval)


@both_cores
@pytest.mark.usefixtures("restless")
def test_one_iterator_gives_each_record_once(core):
    batches = [
        core.RecordBatch.from_records([b"%d.%d" % (n, i) for i in range(50)]) for n in range(40)
    ]
    iterator = core.RecordIterator(iter(batches))
    seen: list[bytes] = []

    def work(_: int) -> None:
        while True:
            try:
                seen.append(next(iterator))
            except StopIteration:
                return
            except RuntimeError:  # another thread is fetching
                continue

    assert errors_in_threads(work) == []
    assert sorted(seen) == sorted(record for batch in batches for record in batch)


@both_cores
def test_an_iterator_says_when_it_is_being_fetched(core):
    entered, leave = threading.Event(), threading.Event()

    def batches() -> Iterator[object]:
        entered.set()
        leave.wait()
        yield core.RecordBatch.from_records([b"record"])

    iterator = core.RecordIterator(batches())
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(next(iterator)))
    thread.start()
    entered.wait()
    with pytest.raises(RuntimeError, match="another thread"):
        next(iterator)
    leave.set()
    thread.join()
    assert found == [b"record"]


@both_cores
def test_a_writer_is_not_entered_from_within(core):
    writer = core.FrameWriter()

    def records() -> Iterator[bytes]:
        yield b"first"
        for call in (lambda: writer.write(b""), writer.take, lambda: writer.write_many([])):
            with pytest.raises(RuntimeError, match="in use"):
                call()
        yield b"second"

    writer.write_many(records())
    assert bytes(writer.take()) == framed(b"first", b"second")


@both_cores
def test_a_shared_writer_keeps_records_whole(core):
    writer = core.FrameWriter()
    records = [bytes([n]) * 50_000 for n in range(4)]
    written = [0] * 4

    def work(number: int) -> None:
        for _ in range(50):
            try:
                writer.write(records[number])
                written[number] += 1
            except RuntimeError:  # another thread is inside
                continue

    assert errors_in_threads(work) == []
    found = core.scan(writer.take())
    assert found.fault is None
    counts = [found.batch.tolist().count(record) for record in records]
    assert counts == written


@both_cores
def test_a_writer_dropped_or_taken_while_in_use(core):
    """Records that give their bytes slowly, others that empty the writer meanwhile."""
    writer = core.FrameWriter()
    taken: list[bytes] = []

    def work(number: int) -> None:
        for turn in range(200):
            try:
                if number == 0:
                    taken.append(bytes(writer.take()))
                else:
                    writer.write_many(bytes([number]) * (turn * 400) for _ in range(2))
            except RuntimeError:  # another thread is inside
                continue

    assert errors_in_threads(work) == []
    taken.append(bytes(writer.take()))
    for data in taken:
        found = core.scan(data)
        assert (found.end, found.fault, found.need) == (len(data), None, 0)


@both_cores
def test_scans_of_one_buffer_side_by_side(core):
    records = [bytes([i % 256]) * (i % 300) for i in range(500)]
    data = framed(*records)

    def work(_: int) -> None:
        for _ in range(5):
            assert core.scan(data).batch.tolist() == records

    assert errors_in_threads(work) == []


@both_cores
def test_buffers_of_many_threads_never_overlap(core):
    def work(number: int) -> None:
        picks = random.Random(number)
        kept = []
        for turn in range(300):
            buffer = core.Buffer(picks.choice((40_000, 65_536, 100_000)))
            memoryview(buffer)[:8] = turn.to_bytes(4, "little") + number.to_bytes(4, "little")
            kept.append((turn, buffer))
            if len(kept) > 5:
                kept.pop(picks.randrange(len(kept)))
            for written, old in kept:
                mark = written.to_bytes(4, "little") + number.to_bytes(4, "little")
                assert bytes(memoryview(old)[:8]) == mark

    assert errors_in_threads(work) == []


def test_a_decoder_says_when_another_thread_is_inside():
    decoder = RecordDecoder()
    data = framed(*[b"x" * 100] * 20_000)
    refused: list[int] = []

    def work(number: int) -> None:
        for _ in range(20):
            try:
                decoder.feed(data)
            except RuntimeError:  # another thread is inside
                refused.append(number)

    assert errors_in_threads(work) == []
    fed = 80 - len(refused)
    assert decoder.offset == fed * len(data)
    decoder.finish()


def test_a_callers_bytearray_cant_be_resized_while_records_refer_to_it():
    data = bytearray(framed(b"x" * 100_000))
    errors: list[BaseException] = []
    stop = threading.Event()

    def resize() -> None:
        while not stop.is_set():
            try:
                data.append(0)
                data.pop()
            except BufferError as error:
                errors.append(error)

    thread = threading.Thread(target=resize)
    thread.start()
    for _ in range(200):
        decoder = RecordDecoder()
        batch = decoder.feed(memoryview(data)[:100_016])
        assert batch[0] == b"x" * 100_000
        del batch, decoder
    stop.set()
    thread.join()
    gc.collect()
    data.clear()

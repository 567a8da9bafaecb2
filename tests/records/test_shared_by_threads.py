"""What several threads use at once: each record comes once, and is written once.

An interpreter that has one lock makes most of this true by itself. Without it (`python3.14t`) the
objects' own locks do.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.threads import THREADS, in_threads

core: Any = pytest.importorskip("tfio_store.records._core")

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
RECORDS = [b"%06d" % i * (1 + i % 7) for i in range(20_000)]


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has the GIL")
def test_no_module_of_ours_turns_the_lock_on(tmp_path: Path) -> None:
    """Nor what they import. TensorFlow's bridge is not declared."""
    program = """
import sys
import tfio_store as tfs
from tfio_store.example import _example, _resize
from tfio_store.loader import _pack
from tfio_store.records import _core
with tfs.ShardedWriter("train", num_shards=2, compression="GZIP") as writer:
    for i in range(100):
        writer.write({"x": i})
assert len(list(tfs.RecordReader("train"))) == 100
assert sum(len(tfs.read_table("train")["x"]) for _ in range(2)) == 200
assert not sys._is_gil_enabled()
"""
    environment = {name: text for name, text in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", program]
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


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


def test_pictures_are_resized_side_by_side() -> None:
    resize: Any = pytest.importorskip("tfio_store.example._resize").resize
    pixels = np.random.default_rng(1).integers(0, 256, (200, 300, 3), np.uint8)
    wanted = np.empty((90, 80, 3), np.uint8)
    assert resize(pixels, wanted)

    def work(number: int) -> None:
        out = np.empty_like(wanted)
        for _ in range(20):
            assert resize(pixels, out)
            assert np.array_equal(out, wanted)

    in_threads(work)


def test_columns_are_decoded_side_by_side() -> None:
    """Of the same records, and from one `Spans` too."""
    example: Any = pytest.importorskip("tfio_store.example._example")
    records = [example.encode_example({"x": i, "y": [0.5, i], "z": b"%d" % i}) for i in range(5000)]
    batch = core.RecordBatch.from_records(records)
    shared = example.Spans.locate(batch.buffer, batch.offsets, batch.lengths, [b"x", b"y", b"z"])

    def work(number: int) -> None:
        for _ in range(5):
            own = example.Spans.locate(batch.buffer, batch.offsets, batch.lengths, [b"x"])
            assert np.array_equal(own.int64s(0), np.arange(5000))
            assert np.array_equal(shared.int64s(0), np.arange(5000))
            assert np.array_equal(shared.floats(1, width=2)[1::2], np.arange(5000))
            assert shared.objects(2)[4999] == b"4999"
            assert batch.tolist() == records

    in_threads(work)


def test_columns_are_encoded_side_by_side() -> None:
    example: Any = pytest.importorskip("tfio_store.example._example")
    columns = [
        (b"x", np.arange(5000), None, 1, None),
        (b"z", [b"%d" % i for i in range(5000)], None, 1, None),
    ]
    wanted = bytes(example.encode_columns(columns, 5000)[0])

    def work(number: int) -> None:
        for _ in range(5):
            assert bytes(example.encode_columns(columns, 5000)[0]) == wanted

    in_threads(work)

"""RecordBatch: a buffer and where each record lies in it."""

from __future__ import annotations

import gc
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tests.support.cores import both_cores, framed

pytestmark = both_cores
RECORDS = [b"first", b"", b"the third record", b"4"]


@pytest.fixture
def batch(core):
    return core.scan(framed(*RECORDS)).batch


def test_is_a_sequence_of_bytes(batch):
    assert len(batch) == 4
    assert list(batch) == batch.tolist() == [batch[i] for i in range(4)] == RECORDS
    assert batch[-1] == batch[np.int64(3)] == b"4"
    assert batch.nbytes == sum(map(len, RECORDS))
    for index in (4, -5):
        with pytest.raises(IndexError, match="of a batch of 4"):
            batch[index]
        with pytest.raises(IndexError, match="of a batch of 4"):
            batch.view(index)
    with pytest.raises(TypeError):
        batch["0"]


def test_arrays_say_where_records_lie(batch):
    assert batch.offsets.dtype == batch.lengths.dtype == np.int64
    assert batch.offsets.tolist() == [12, 33, 49, 81]
    assert batch.lengths.tolist() == [5, 0, 16, 1]
    for array in (batch.offsets, batch.lengths):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_arrays_outlive_the_batch(core):
    batch = core.RecordBatch.from_records([b"x"] * 100_000)
    offsets, lengths, buffer = batch.offsets, batch.lengths[5:], batch.buffer
    del batch
    gc.collect()
    assert offsets.sum() == 99_999 * 50_000
    assert lengths.sum() == 99_995
    assert buffer[-1] == ord("x")


def test_views_keep_the_memory(core):
    data = bytearray(framed(b"record"))
    view = core.scan(data).batch.view(0)
    assert view == b"record"
    assert view.readonly
    with pytest.raises(BufferError):
        data.clear()
    del view
    gc.collect()
    data.clear()


@pytest.mark.parametrize("index", [slice(1, 3), slice(None, None, -1), slice(3, 1), slice(0, 4, 2)])
def test_slices_share_the_buffer(batch, index):
    part = batch[index]
    assert part.tolist() == RECORDS[index]
    assert len(part.buffer) == len(batch.buffer)
    assert part.offsets.tolist() == batch.offsets[index].tolist()
    assert part[:].tolist() == RECORDS[index]


def test_take(batch):
    assert batch.take([3, 0, 0, -2]).tolist() == [b"4", b"first", b"first", RECORDS[2]]
    assert batch.take([]).tolist() == []
    assert batch.take(np.array([1], np.uint8)).tolist() == [b""]
    for index in (4, -5, -(2**63)):
        with pytest.raises(IndexError, match="of a batch of 4"):
            batch.take([index])
    with pytest.raises(TypeError, match="indices must be integers"):
        batch.take([0.5])


def test_equality_is_of_records(core, batch):
    same = core.RecordBatch.from_records(RECORDS)
    assert batch == same
    assert batch != core.RecordBatch.from_records(RECORDS[:3])
    assert batch != core.RecordBatch.from_records([*RECORDS[:3], b"5"])
    assert batch != RECORDS
    with pytest.raises(TypeError, match="unhashable"):
        hash(batch)


@given(records=st.lists(st.binary(max_size=100), max_size=50))
def test_from_records(core, records):
    batch = core.RecordBatch.from_records(iter(records))
    assert batch.tolist() == records
    with pytest.raises(TypeError, match="record 1 must be bytes-like, not str"):
        core.RecordBatch.from_records([b"", "text"])


def test_the_memory_of_an_array_is_no_record(core):
    batch = core.RecordBatch.from_records([np.frombuffer(b"ab", np.uint8), np.bytes_(b"c")])
    assert batch.tolist() == [b"ab", b"c"]
    for array in (np.arange(3), np.zeros(0, np.int64), np.array(b"x", object)):
        with pytest.raises(TypeError, match="must be bytes-like, not an array of"):
            core.RecordBatch.from_records([array])


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles(batch, protocol):
    for part in (batch, batch[1:3], batch[:0], batch.take([3, 3, 0])):
        assert pickle.loads(pickle.dumps(part, protocol)) == part


def test_pickles_only_what_the_records_span(core):
    whole = core.scan(framed(*(b"%0100d" % i for i in range(1000)))).batch
    assert len(pickle.dumps(whole[500:510])) < 2500
    assert len(pickle.dumps(whole.take([0, 999]))) < 1000
    assert len(pickle.dumps(whole.take([7] * 1000))) < 20_000


def test_pickles_out_of_band(batch):
    parts: list[Any] = []
    head = pickle.dumps(batch, 5, buffer_callback=parts.append)
    assert sum(part.raw().nbytes for part in parts) >= batch.nbytes
    assert pickle.loads(head, buffers=[bytearray(part.raw()) for part in parts]) == batch


@pytest.mark.parametrize(
    ("offsets", "lengths"),
    [
        ([-1], [1]),
        ([0], [-1]),
        ([0], [11]),
        ([11], [0]),
        ([10], [1]),
        ([5], [2**63 - 1]),
        ([2**63 - 1], [2**63 - 1]),
        ([2**63 - 1], [1]),
        ([-(2**63)], [2**63 - 1]),
        ([0, 0, 9], [1, 1, 2]),
    ],
)
def test_records_outside_the_buffer_are_refused(core, offsets, lengths):
    with pytest.raises(ValueError, match="lies outside the buffer of 10 bytes"):
        core.RecordBatch(b"0123456789", offsets, lengths)


def test_wrong_arguments(core):
    with pytest.raises(ValueError, match="equally long"):
        core.RecordBatch(b"abc", [0], [])
    with pytest.raises(ValueError, match="offsets must be one-dimensional"):
        core.RecordBatch(b"abc", [[0]], [1])
    with pytest.raises(TypeError, match="lengths must be integers"):
        core.RecordBatch(b"abc", [0], ["1"])
    with pytest.raises(ValueError, match="offsets must be below"):
        core.RecordBatch(b"abc", np.array([2**64 - 1], np.uint64), [1])
    with pytest.raises(TypeError, match="buffer must be bytes-like"):
        core.RecordBatch("abc", [0], [1])
    with pytest.raises(ValueError, match="buffer must be one contiguous run"):
        core.RecordBatch(memoryview(b"abcdef")[::2], [0], [1])


def test_the_callers_arrays_are_copied(core):
    offsets = np.array([0, 1])
    batch = core.RecordBatch(b"abc", offsets, [1, 1])
    offsets[:] = 1000
    assert batch.tolist() == [b"a", b"b"]


def test_buffer_is_fixed_writable_memory(core):
    buffer = core.Buffer(1 << 20)
    view = memoryview(buffer)
    assert (len(buffer), view.nbytes, view.readonly) == (1 << 20, 1 << 20, False)
    view[:3] = b"abc"
    assert bytes(memoryview(buffer)[:3]) == b"abc"
    assert len(core.Buffer(0)) == 0
    for size, error in ((-1, ValueError), (2**63, MemoryError), (2**62, MemoryError)):
        with pytest.raises(error):
            core.Buffer(size)
    with pytest.raises(TypeError):
        core.Buffer("1")
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(buffer)


def test_a_batch_over_a_buffer_keeps_it(core):
    data = framed(b"a" * 40_000)
    buffer = core.Buffer(len(data))
    memoryview(buffer)[:] = data
    batch = core.scan(memoryview(buffer)).batch
    del buffer
    others = [core.Buffer(len(data)) for _ in range(8)]
    for other in others:
        memoryview(other)[:] = bytes(len(data))
    assert batch[0] == b"a" * 40_000


def test_to_arrow(core, batch):
    pa = pytest.importorskip("pyarrow")
    long = core.RecordBatch.from_records([b"x" * 12, b"y" * 13, b"", b"z" * 1000])
    for part in (batch, long, batch[1:], batch[:0], long.take([3, 0])):
        array = part.to_arrow()
        array.validate(full=True)
        assert array.type == pa.binary_view()
        assert array.to_pylist() == part.tolist()


def test_to_arrow_copies_nothing(core):
    pytest.importorskip("pyarrow")
    if core.__name__.endswith("_pure"):
        pytest.skip("the pure core copies")
    batch = core.RecordBatch.from_records([b"x" * 100] * 10)
    array = batch.to_arrow()
    assert array.buffers()[2].address == np.frombuffer(batch.buffer, np.uint8).ctypes.data
    del batch
    gc.collect()
    assert array[9].as_py() == b"x" * 100


def test_iterator_goes_through_batches(core, batch):
    empty = batch[:0]
    iterator = core.RecordIterator(iter([empty, batch, empty, batch[2:]]))
    assert (iterator.batch, iterator.position) == (None, 0)
    assert next(iterator) == b"first"
    assert (iterator.batch, iterator.position) == (batch, 1)
    assert list(iterator) == [*RECORDS[1:], *RECORDS[2:]]
    assert iterator.batch is None
    with pytest.raises(StopIteration):
        next(iterator)


def test_an_iterator_gives_up_the_rest_of_its_batch(core, batch):
    iterator = core.RecordIterator(iter([batch, batch[2:]]))
    assert iterator.take_rest() is None
    assert next(iterator) == b"first"
    assert iterator.take_rest() == batch[1:]
    assert (iterator.batch, iterator.position) == (None, 0)
    assert iterator.take_rest() is None
    assert [next(iterator), next(iterator)] == RECORDS[2:]
    assert iterator.take_rest() is None
    assert next(iterator, None) is None


def test_iterator_passes_errors_on(core, batch):
    def batches():
        yield batch[:1]
        raise OSError("gone")

    iterator = core.RecordIterator(batches())
    assert next(iterator) == b"first"
    with pytest.raises(OSError, match="gone"):
        next(iterator)
    with pytest.raises(TypeError, match="batches must yield RecordBatch, got int"):
        next(core.RecordIterator(iter([1])))


@pytest.mark.parametrize(
    "state",
    [
        (b"0123456789", [5], [6]),
        (b"0123456789", [-5], [2]),
        (b"0123456789", [2**63 - 1], [2**63 - 1]),
        (b"0123456789", [0, 1], [1]),
        (b"0123456789", "abc", [1]),
        ("0123456789", [0], [1]),
        (None, None, None),
        (object(), [0], [1]),
        (b"", np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)),
        (b"", np.array([b"x"], object), [0]),
    ],
)
def test_a_hostile_pickle_is_an_error(core, state):
    class Hostile:
        def __reduce__(self):
            return core.RecordBatch, state

    with pytest.raises((TypeError, ValueError)):
        pickle.loads(pickle.dumps(Hostile()))


def test_no_way_around_the_checks(core, batch):
    with pytest.raises((TypeError, AttributeError)):
        core.RecordBatch.__new__(core.RecordBatch).tolist()
    for name in ("offsets", "lengths", "buffer", "nbytes"):
        with pytest.raises(AttributeError):
            setattr(batch, name, None)


def test_fork_and_go_on(core):
    os = pytest.importorskip("os")
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    kept = core.scan(framed(b"x" * 100_000)).batch
    child = os.fork()
    if child == 0:
        ok = kept[0] == b"x" * 100_000 and len(core.Buffer(1 << 20)) == 1 << 20
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

"""Memory, record batches and CRC32C of the pure core. Docstrings are the compiled core's."""

from __future__ import annotations

import operator
import pickle
import threading
from collections.abc import Iterable, Iterator
from typing import Any, SupportsIndex, final, overload

import google_crc32c
import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.records.arrays import Int64Array

# CRC32C for the pure-Python core, by google-crc32c.


_POLYNOMIAL = 0x82F63B78  # x^32 modulo the polynomial; bit 31 is x^0


def crc32c(data: BytesLike, value: int = 0) -> int:
    # google-crc32c takes bytes and nothing else.
    chunk = data if isinstance(data, bytes) else bytes(bytes_view(data, "data"))
    return int(google_crc32c.extend(_checked_crc(value, "value"), chunk))


def masked_crc32c(data: BytesLike) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def crc32c_combine(first: int, second: int, second_length: int) -> int:
    length = operator.index(second_length)
    if not 0 <= length < 2**64:
        raise ValueError(f"second_length must be from 0 to 2**64 - 1, got {length}")
    shift, square = 1 << 31, 1 << 23  # x^0, x^8
    while length:
        if length & 1:
            shift = _multiply(shift, square)
        square = _multiply(square, square)
        length >>= 1
    return _multiply(shift, _checked_crc(first, "first")) ^ _checked_crc(second, "second")


def crc_backend() -> str:
    return "google-crc32c"


def _checked_crc(value: int, name: str) -> int:
    number = operator.index(value)
    if not 0 <= number <= 0xFFFFFFFF:
        raise ValueError(f"{name} must be a CRC (0 to 2**32 - 1), got {number}")
    return number


def _multiply(a: int, b: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


def bytes_view(source: BytesLike, name: str) -> memoryview:
    """A flat view of bytes; the source stays exported while it lives."""
    try:
        view = memoryview(source)
    except TypeError:
        raise TypeError(f"{name} must be bytes-like, not {type(source).__name__}") from None
    if not view.c_contiguous:
        raise ValueError(f"{name} must be one contiguous run of bytes")
    return view.cast("B") if view.nbytes else memoryview(b"")


def refuse_array(record: Any, *, but_uint8: bool = False) -> None:
    """The memory of an array does not tell its dtype and shape, so it makes no record."""
    dtype = getattr(record, "dtype", None)
    if dtype is None or isinstance(record, bytes) or (but_uint8 and dtype == "uint8"):
        return
    way = "its numpy()" if hasattr(record, "numpy") else "a dict with the array, or its tobytes()"
    raise TypeError(f"record must be bytes-like, not an array of {dtype}; give {way}")


# Memory and record batches of the pure core. Docstrings are the compiled core's.


FRAME_OVERHEAD = 16


def _to_int64(values: npt.ArrayLike, name: str) -> Int64Array:
    """A copy as read-only int64s, or an error that names the argument."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) > 2**63 - 1:
        raise ValueError(f"{name} must be below 2**63, got {array.max()}")
    return frozen(np.array(array, dtype=np.int64))


def frozen(array: Int64Array) -> Int64Array:
    array.flags.writeable = False
    return array


@final
class Buffer(bytearray):
    """Plain memory: a pool needs what Python offers only from 3.12 on."""

    def __init__(self, nbytes: int) -> None:
        size = operator.index(nbytes)
        if size < 0:
            raise ValueError(f"nbytes must not be negative, got {size}")
        if size > 2**63 - 1:
            raise MemoryError(f"a Buffer of {size} bytes")
        super().__init__(size)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise TypeError("a Buffer can't be pickled; pickle its bytes")


def joined(pieces: Iterable[BytesLike]) -> memoryview:
    """The bytes of all pieces, end to end."""
    return memoryview(b"".join(pieces))


def prepend(head: BytesLike, body: BytesLike) -> memoryview | None:
    return None  # nothing has room in front here


@final
class RecordBatch:
    __slots__ = ("_lengths", "_memory", "_offsets")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, buffer: BytesLike, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> None:
        self._offsets = _to_int64(offsets, "offsets")
        self._lengths = _to_int64(lengths, "lengths")
        if len(self._offsets) != len(self._lengths):
            raise ValueError(
                "offsets and lengths must be equally long, "
                f"got {len(self._offsets)} and {len(self._lengths)}"
            )
        self._memory = bytes_view(buffer, "buffer").toreadonly()
        _check_bounds(self._memory.nbytes, self._offsets, self._lengths)

    @classmethod
    def from_records(cls, records: Iterable[BytesLike]) -> RecordBatch:
        parts: list[memoryview] = []
        for i, record in enumerate(records):
            refuse_array(record, but_uint8=True)
            parts.append(bytes_view(record, f"record {i}"))
        lengths = np.array([part.nbytes for part in parts], dtype=np.int64)
        return cls(b"".join(parts), np.cumsum(lengths) - lengths, lengths)

    @property
    def buffer(self) -> memoryview:
        return self._memory[:]

    @property
    def offsets(self) -> Int64Array:
        return self._offsets

    @property
    def lengths(self) -> Int64Array:
        return self._lengths

    @property
    def nbytes(self) -> int:
        return int(self._lengths.sum())

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, index: SupportsIndex) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> RecordBatch: ...
    def __getitem__(self, index: SupportsIndex | slice) -> bytes | RecordBatch:
        if isinstance(index, slice):
            return RecordBatch(self._memory, self._offsets[index], self._lengths[index])
        return bytes(self.view(index))

    def take(self, indices: npt.ArrayLike) -> RecordBatch:
        chosen = _to_int64(indices, "indices")
        for i in chosen[(chosen < -len(self)) | (chosen >= len(self))]:
            raise IndexError(f"record {i} of a batch of {len(self)}")
        return RecordBatch(self._memory, self._offsets[chosen], self._lengths[chosen])

    def view(self, index: SupportsIndex) -> memoryview:
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"record {position} of a batch of {len(self)}")
        start = int(self._offsets[position])
        return self._memory[start : start + int(self._lengths[position])]

    def tolist(self) -> list[bytes]:
        spans = zip(self._offsets.tolist(), self._lengths.tolist(), strict=True)
        return [bytes(self._memory[start : start + length]) for start, length in spans]

    def __iter__(self) -> RecordIterator:
        return RecordIterator(iter((self,)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RecordBatch):
            return NotImplemented
        if not np.array_equal(self._lengths, other._lengths):
            return False
        return all(self.view(i) == other.view(i) for i in range(len(self)))

    def __repr__(self) -> str:
        return f"<RecordBatch of {len(self)} records, {self.nbytes} bytes>"

    def to_arrow(self) -> Any:
        try:
            import pyarrow
        except ImportError as error:
            message = "to_arrow() needs pyarrow: pip install 'tfio_store[arrow]'"
            raise ImportError(message) from error
        for i in np.flatnonzero(self._lengths >= 1 << 30):
            raise ValueError(f"record {i} has {self._lengths[i]} bytes, too long for binary_view")
        return pyarrow.array(self.tolist(), pyarrow.binary_view())

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        compact = _compact(self)
        in_place = operator.index(protocol) >= 5
        memory = pickle.PickleBuffer(compact._memory) if in_place else bytes(compact._memory)
        return RecordBatch, (memory, compact._offsets, compact._lengths)


def _check_bounds(size: int, offsets: Int64Array, lengths: Int64Array) -> None:
    # Clipped first, so that the subtraction can't overflow.
    room = size - np.clip(offsets, 0, size)
    outside = (offsets < 0) | (offsets > size) | (lengths < 0) | (lengths > room)
    for i in np.flatnonzero(outside):
        raise ValueError(
            f"record {i} (offset {offsets[i]}, {lengths[i]} bytes) lies outside the "
            f"buffer of {size} bytes"
        )


def _compact(batch: RecordBatch) -> RecordBatch:
    """Keep only the bytes that the records span; if gaps are wide, only the records' own bytes."""
    if not len(batch):
        return RecordBatch(b"", (), ())
    low = int(batch.offsets.min())
    high = int((batch.offsets + batch.lengths).max())
    if high - low > 2 * (batch.nbytes + FRAME_OVERHEAD * len(batch)):
        return RecordBatch.from_records(batch)
    return RecordBatch(batch.buffer[low:high], batch.offsets - low, batch.lengths)


@final
class RecordIterator:
    def __init__(self, batches: Iterator[RecordBatch | list[bytes]]) -> None:
        self._batches = iter(batches)
        self._batch: RecordBatch | list[bytes] | None = None
        self._position = 0
        self._fetching = False
        self._lock = threading.Lock()  # two threads must not take one record

    @property
    def batch(self) -> RecordBatch | list[bytes] | None:
        return self._batch

    @property
    def position(self) -> int:
        return self._position

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> bytes:
        while True:
            with self._lock:
                batch = self._batch
                if batch is not None and self._position < len(batch):
                    self._position += 1
                    return batch[self._position - 1]
                if self._fetching:
                    raise RuntimeError(
                        "another thread is fetching this RecordIterator's next batch"
                    )
                self._fetching = True
            self._fetch()

    def take_rest(self) -> RecordBatch | None:
        with self._lock:
            batch, start = self._batch, self._position
            self._batch, self._position = None, 0
        if batch is None or start >= len(batch):
            return None
        rest = batch[start:]
        return RecordBatch.from_records(rest) if isinstance(rest, list) else rest

    def _fetch(self) -> None:
        try:
            batch: object = next(self._batches)
            if not isinstance(batch, RecordBatch | list):
                raise TypeError(f"batches must yield RecordBatch, got {type(batch).__name__}")
        except StopIteration:
            self._stand_before(None)
            raise
        except BaseException:
            self._fetching = False
            raise
        self._stand_before(batch)

    def _stand_before(self, batch: RecordBatch | list[bytes] | None) -> None:
        with self._lock:
            self._batch, self._position = batch, 0
            self._fetching = False

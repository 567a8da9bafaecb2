"""The names of `tfio_store._core` in Python, on google-crc32c and numpy.

The reference that the compiled core is tested against, and what runs where it can't be loaded: the
same results and errors, many times slower. Docstrings are in `_core.pyi`.
"""

from __future__ import annotations

import operator
import pickle
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, SupportsIndex, cast, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store._crc32c_pure import (
    bytes_view,
    crc32c as crc32c,
    crc32c_combine as crc32c_combine,
    crc_backend as crc_backend,
    masked_crc32c as masked_crc32c,
)

Int64Array = npt.NDArray[np.int64]

FRAME_OVERHEAD = 16
HEADER_BYTES = 12
DEFAULT_MAX_RECORD_BYTES = 1 << 30

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")


def _to_int64(values: npt.ArrayLike, name: str) -> Int64Array:
    """A copy as read-only int64s, or an error that names the argument."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {array.dtype}")
    if array.size and array.dtype.kind == "u" and int(array.max()) > 2**63 - 1:
        raise ValueError(f"{name} must be below 2**63, got {array.max()}")
    return _frozen(np.array(array, dtype=np.int64))


def _frozen(array: Int64Array) -> Int64Array:
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
        parts = [bytes_view(record, f"record {i}") for i, record in enumerate(records)]
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
    """The same records over no more bytes than they span, or than they are where gaps are wide."""
    if not len(batch):
        return RecordBatch(b"", (), ())
    low = int(batch.offsets.min())
    high = int((batch.offsets + batch.lengths).max())
    if high - low > 2 * (batch.nbytes + FRAME_OVERHEAD * len(batch)):
        return RecordBatch.from_records(batch)
    return RecordBatch(batch.buffer[low:high], batch.offsets - low, batch.lengths)


class Scan(NamedTuple):
    batch: RecordBatch
    end: int
    fault: str | None
    need: int


def scan(
    buffer: BytesLike,
    *,
    start: int = 0,
    verify: bool = True,
    max_records: int | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Scan:
    view = bytes_view(buffer, "buffer")
    end, limit = _checked_start(start, len(view)), _checked_limit(max_record_bytes)
    most = len(view) if max_records is None else operator.index(max_records)
    if most < 0:
        raise ValueError(f"max_records must not be negative, got {most}")
    offsets: list[int] = []
    lengths: list[int] = []
    fault, need = None, 0
    while end < len(view) and len(offsets) < most:
        fault, length = _read_header(view, end, limit)
        need = length if fault == "too_large" else 0
        if fault is None:
            fault, need = _check_record(view, end, length, verify)
        if fault or need:
            break
        offsets.append(end + HEADER_BYTES)
        lengths.append(length)
        end += length + FRAME_OVERHEAD
    return Scan(RecordBatch(view, offsets, lengths), end, fault, need)


def walk(
    buffer: BytesLike, *, start: int = 0, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
) -> tuple[Int64Array, int, str | None]:
    view = bytes_view(buffer, "buffer")
    end, limit = _checked_start(start, len(view)), _checked_limit(max_record_bytes)
    frames: list[int] = []
    fault = None
    while end <= len(view) - HEADER_BYTES:
        fault, length = _read_header(view, end, limit)
        if fault:
            break
        frames.append(end)
        end += length + FRAME_OVERHEAD
    return _frozen(np.array(frames, dtype=np.int64)), end, fault


def find_record(
    buffer: BytesLike, *, start: int = 0, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
) -> tuple[int, bool]:
    view = bytes_view(buffer, "buffer")
    limit = _checked_limit(max_record_bytes)
    for offset in range(_checked_start(start, len(view)), len(view)):
        fault, length = _read_header(view, offset, limit)
        if fault is None:
            fault, need = _check_record(view, offset, length, verify=True)
            if fault is None:
                return offset, need == 0
    return len(view), False


def _checked_start(start: int, size: int) -> int:
    value = operator.index(start)
    if not 0 <= value <= size:
        raise ValueError(f"start must be within the buffer's {size} bytes, got {value}")
    return value


def _checked_limit(limit: int) -> int:
    value = operator.index(limit)
    if value < 0:
        raise ValueError(f"max_record_bytes must not be negative, got {value}")
    return min(value, 1 << 62)


def _read_header(view: memoryview, offset: int, limit: int) -> tuple[str | None, int]:
    """Why the header at ``offset`` is refused, and the length it claims, 0 when it is cut."""
    if len(view) - offset < HEADER_BYTES:
        return None, 0
    header = bytes(view[offset : offset + HEADER_BYTES])
    length, crc = _HEADER.unpack(header)
    if crc != masked_crc32c(header[:8]):
        return "length_crc", 0
    return ("too_large" if length > limit else None), length


def _check_record(
    view: memoryview, offset: int, length: int, verify: bool
) -> tuple[str | None, int]:
    """Why the record is refused, and the bytes that its frame takes if they are not all there."""
    if len(view) - offset < HEADER_BYTES:
        return None, HEADER_BYTES
    if len(view) - offset < length + FRAME_OVERHEAD:
        return None, length + FRAME_OVERHEAD
    data = view[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
    (crc,) = _CRC.unpack_from(view, offset + HEADER_BYTES + length)
    return ("data_crc" if verify and crc != masked_crc32c(data) else None), 0


@final
class FrameWriter:
    def __init__(self, reserve: int = 0) -> None:
        size = operator.index(reserve)
        if size < 0:
            raise ValueError(f"reserve must not be negative, got {size}")
        if size > 2**63 - 1:
            raise MemoryError(f"a reserve of {size} bytes")
        self._framed = bytearray()
        self._records = 0
        self._inside = threading.Lock()

    @property
    def nbytes(self) -> int:
        return len(self._framed)

    @property
    def records(self) -> int:
        return self._records

    def write(self, record: BytesLike) -> int:
        return self.write_many([record])

    def write_many(self, records: Iterable[BytesLike]) -> int:
        with self._alone():
            parts = [_frame(bytes(bytes_view(record, "record"))) for record in records]
            self._framed += b"".join(parts)
            self._records += len(parts)
            return len(self._framed)

    def write_flat(self, data: BytesLike, offsets: npt.ArrayLike) -> int:
        bounds = np.asarray(offsets)
        if bounds.size == 0:
            raise ValueError("offsets must hold one offset more than there are records, got none")
        return self.write_batch(RecordBatch(data, bounds[:-1], np.diff(bounds)))

    def write_batch(self, batch: RecordBatch) -> int:
        if not isinstance(batch, RecordBatch):
            raise TypeError(f"batch must be a RecordBatch, not {type(batch).__name__}")
        return self.write_many(batch)

    def take(self) -> memoryview:
        with self._alone():
            taken, self._framed, self._records = self._framed, bytearray(), 0
            return memoryview(taken).toreadonly()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._inside.acquire(blocking=False):
            message = "this FrameWriter is in use, by another thread or by the records' own code"
            raise RuntimeError(message)
        try:
            yield
        finally:
            self._inside.release()


def _frame(record: bytes) -> bytes:
    length = struct.pack("<Q", len(record))
    return length + _CRC.pack(masked_crc32c(length)) + record + _CRC.pack(masked_crc32c(record))


@final
class RecordIterator:
    def __init__(self, batches: Iterator[RecordBatch]) -> None:
        self._batches = iter(batches)
        self._batch: RecordBatch | None = None
        self._position = 0
        self._fetching = False

    @property
    def batch(self) -> RecordBatch | None:
        return self._batch

    @property
    def position(self) -> int:
        return self._position

    def __iter__(self) -> RecordIterator:
        return self

    def __next__(self) -> bytes:
        while self._batch is None or self._position >= len(self._batch):
            self._fetch()
        self._position += 1
        return self._batch[self._position - 1]

    def _fetch(self) -> None:
        if self._fetching:
            raise RuntimeError("another thread is fetching this RecordIterator's next batch")
        self._fetching = True
        try:
            batch = cast(object, next(self._batches))
            if not isinstance(batch, RecordBatch):
                raise TypeError(f"batches must yield RecordBatch, got {type(batch).__name__}")
            self._batch, self._position = batch, 0
        except StopIteration:
            self._batch, self._position = None, 0
            raise
        finally:
            self._fetching = False

"""The names of `tfio_store.records._core` in Python, on google-crc32c and numpy.

The reference that the compiled core is tested against, and what runs where it can't be loaded: the
same results and errors, many times slower. Docstrings are in `_core.pyi`.
"""

from __future__ import annotations

import operator
import os
import stat
import struct
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.records._pure_batch import (
    FRAME_OVERHEAD as FRAME_OVERHEAD,
    Buffer as Buffer,
    RecordBatch as RecordBatch,
    RecordIterator as RecordIterator,
    bytes_view,
    crc32c as crc32c,
    crc32c_combine as crc32c_combine,
    crc_backend as crc_backend,
    frozen,
    joined as joined,
    masked_crc32c as masked_crc32c,
    prepend as prepend,
    refuse_array,
)
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compiled import ADVICE

HEADER_BYTES = 12
DEFAULT_MAX_RECORD_BYTES = 1 << 30

_HEADER = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_CRC_BYTES = _CRC.size

_LEAST_COUNTED = 4096
"""A record counts as so many bytes towards what is enough: what a system call costs."""


class Scan(NamedTuple):
    batch: RecordBatch
    end: int
    fault: str | None
    need: int
    summed: int


def scan(
    buffer: BytesLike,
    *,
    start: int = 0,
    verify: bool = True,
    max_records: int | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    summed: int = 0,
) -> Scan:
    view = bytes_view(buffer, "buffer")
    end, limit = _checked_start(start, len(view)), _checked_limit(max_record_bytes)
    most = len(view) if max_records is None else operator.index(max_records)
    if most < 0:
        raise ValueError(f"max_records must not be negative, got {most}")
    offsets: list[int] = []
    lengths: list[int] = []
    crcs = bytearray()
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
        crcs += view[end - _CRC_BYTES : end]
    return Scan(RecordBatch(view, offsets, lengths), end, fault, need, crc32c(crcs, summed))


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
    return frozen(np.array(frames, dtype=np.int64)), end, fault


def walk_file(
    descriptor: int, nbytes: int, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
) -> tuple[Int64Array, int, str | None, Int64Array]:
    limit = _checked_limit(max_record_bytes)
    frames: list[int] = []
    sums = [0]
    fault, end = None, 0
    while end <= nbytes - HEADER_BYTES:
        header = os.pread(descriptor, HEADER_BYTES, end)
        if len(header) < HEADER_BYTES:
            break
        fault, length = _read_header(memoryview(header), 0, limit)
        if fault:
            break
        frames.append(end)
        end += length + FRAME_OVERHEAD
        footer = os.pread(descriptor, _CRC_BYTES, end - _CRC_BYTES) if end <= nbytes else b""
        sums.append(crc32c(footer, sums[-1]) if len(footer) == _CRC_BYTES else sums[-1])
    offsets, summed = (frozen(np.array(found, dtype=np.int64)) for found in (frames, sums))
    return offsets, end, fault, summed


_FOUND_IN = 256 << 10


def pool_serve(threads: int, budget: int) -> None:
    """This core keeps no memory."""


class FileScan:
    """This core's work needs Python: `result` does it."""

    def __init__(
        self, path: str, start: int, stop: int, *, cached: bool = False, **options: Any
    ) -> None:
        del cached  # this core is slow enough to wait for a disk
        self._asked = partial(_scan_file, path, start, stop, **options)

    def begin(self, threads: int, at_once: int) -> bool:
        return False

    def begins(self, patience: float) -> bool:
        return False

    def done(self) -> bool:
        return False

    def result(self) -> tuple[Scan, tuple[int, int, int], tuple[float, float]] | None:
        return self._asked()


def _scan_file(
    path: str,
    start: int,
    stop: int,
    *,
    records: int | None = None,
    find: bool = False,
    verify: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    summed: int = 0,
) -> tuple[Scan, tuple[int, int, int], tuple[float, float]] | None:
    begun = time.perf_counter()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        data = _pread(descriptor, stop - start, start)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if len(data) < stop - start:
        return None
    first, read = 0, time.perf_counter()
    if find:
        first, good, _ = find_record(data[:_FOUND_IN], max_record_bytes=max_record_bytes)
        if not good and len(data[:_FOUND_IN]) - first < HEADER_BYTES:
            first = len(data)
    found = scan(
        data,
        start=first,
        verify=verify,
        max_records=None if records is None else records + 1,
        max_record_bytes=max_record_bytes,
        summed=summed,
    )
    changed = status.st_mtime_ns & 0xFFFF_FFFF_FFFF_FFFF
    took = read - begun, time.perf_counter() - read
    return found, (status.st_ino, changed, status.st_size), took


def read_records(
    descriptor: int,
    start: int,
    stop: int,
    *,
    verify: bool = True,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    enough: int = 0,
    summed: int = 0,
) -> tuple[list[bytes], int, int]:
    limit = _checked_limit(max_record_bytes)
    at, taken, records = _checked_start(start, stop), 0, list[bytes]()
    while stop - at >= HEADER_BYTES:
        header = os.pread(descriptor, HEADER_BYTES, at)
        if len(header) < HEADER_BYTES:
            break
        fault, length = _read_header(memoryview(header), 0, limit)
        if fault or length + FRAME_OVERHEAD > stop - at:
            break
        record = _pread(descriptor, length, at + HEADER_BYTES)
        footer = os.pread(descriptor, FRAME_OVERHEAD - HEADER_BYTES, at + HEADER_BYTES + length)
        if len(record) < length or len(footer) < FRAME_OVERHEAD - HEADER_BYTES:
            break
        if verify and masked_crc32c(record) != int.from_bytes(footer, "little"):
            break
        records.append(record)
        summed = crc32c(footer, summed)
        at, taken = at + length + FRAME_OVERHEAD, taken + max(length, _LEAST_COUNTED)
        if taken >= enough:
            break
    return records, at, summed


def _pread(descriptor: int, nbytes: int, offset: int) -> bytes:
    """All of a range; one call stops at 2 GiB."""
    data = more = os.pread(descriptor, nbytes, offset)
    while more and len(data) < nbytes:
        more = os.pread(descriptor, nbytes - len(data), offset + len(data))
        data += more
    return data


_SHORT = 4096
"""Records up to so long are always looked at."""


def find_record(
    buffer: BytesLike,
    *,
    start: int = 0,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    final: bool = False,
    patience: int | None = None,
) -> tuple[int, bool, int]:
    view = bytes_view(buffer, "buffer")
    limit = _checked_limit(max_record_bytes)
    left = 16 * len(view) + (1 << 20) if patience is None else max(patience, 0)
    for offset in range(_checked_start(start, len(view)), len(view)):
        fault, length = _read_header(view, offset, limit)
        if fault is not None or (final and len(view) - offset < FRAME_OVERHEAD + length):
            continue
        if len(view) - offset >= FRAME_OVERHEAD + length > FRAME_OVERHEAD + _SHORT and not left:
            continue
        fault, need = _check_record(view, offset, length, verify=True)
        if fault is None:
            return offset, need == 0, left
        left = max(left - length, 0)
    return len(view), False, left


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
    """Return why the header at ``offset`` is refused, and the length it claims (0 if it is cut)."""
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
    """Return why the record is refused, and how many bytes its frame takes if some are missing."""
    if len(view) - offset < HEADER_BYTES:
        return None, HEADER_BYTES
    if len(view) - offset < length + FRAME_OVERHEAD:
        return None, length + FRAME_OVERHEAD
    data = view[offset + HEADER_BYTES : offset + HEADER_BYTES + length]
    (crc,) = _CRC.unpack_from(view, offset + HEADER_BYTES + length)
    return ("data_crc" if verify and crc != masked_crc32c(data) else None), 0


def _record_view(record: BytesLike) -> memoryview:
    refuse_array(record)
    return bytes_view(record, "record")


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
            parts = [_frame(bytes(_record_view(record))) for record in records]
            self._framed += b"".join(parts)
            self._records += len(parts)
            return len(self._framed)

    def write_some(self, records: list[BytesLike], start: int, enough: int) -> int:
        with self._alone():
            parts: list[bytes] = []
            waiting, at = len(self._framed), _checked_start(start, len(records))
            while at < len(records) and waiting < enough:
                parts.append(_frame(bytes(_record_view(records[at]))))
                waiting, at = waiting + len(parts[-1]), at + 1
            self._framed += b"".join(parts)
            self._records += len(parts)
            return at

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


# Inflating from a checkpoint on, by Python's zlib.
#
# It has no way to begin at a bit, or inside of a deflate block. So it is given another stream: the
# first bits of that block, and then those of the symbols that are wanted. Stored blocks begin at
# bytes, so the bits must stand in their bytes as they did: empty blocks in front of all see to
# that.


_SLICE = 16 << 10
_TRAILER = {"GZIP": 8, "ZLIB": 4}
_CONTAINER = {"GZIP": 31, "ZLIB": 15}
_FIXED_EMPTY, _FIXED_BITS = 0b010, 10
"""An empty block of the fixed codes: its type, and seven zeros that end it."""


@final
class Inflater:
    """The compiled core alone has an inflater that can be resumed."""

    def __init__(self, codec: str) -> None:
        raise ImportError(
            f"indexing a {codec} file needs tfio_store's compiled core, which is missing; {ADVICE}"
        )


def _odd_empty() -> tuple[int, int]:
    """An empty block of an odd number of bits, and that number. Of its codes only that of the end
    is used."""
    parts = [(0, 1), (2, 2), (0, 5), (0, 5), (14, 4)]  # dynamic; 257 and 1 lengths; 18 of them
    parts += [({2: 2, 3: 2, 17: 1}.get(i, 0), 3) for i in range(18)]  # of symbols 18, 0 and 1
    parts += [(0b11, 2), (127, 7), (0b11, 2), (107, 7), (0, 1)]  # 138 and 118 zeros, then a one
    parts += [(0b01, 2), (0, 1)]  # no distance; the end
    found = at = 0
    for value, bits in parts:
        found |= value << at
        at += bits
    return found, at


def _front(bits: int) -> tuple[int, int]:
    """Empty blocks of so many bits, modulo 8, and how many they are."""
    found, at = _odd_empty() if bits % 2 else (0, 0)
    while (at - bits) % 8:
        found |= _FIXED_EMPTY << at
        at += _FIXED_BITS
    return found, at


def _spliced(data: memoryview, bit: int, header: bytes, header_bits: int) -> bytes:
    """A deflate stream that begins with a header and goes on at a bit of ``data``."""
    number, at = _front((bit - header_bits) % 8)
    number |= int.from_bytes(header, "little") << at
    at += header_bits
    symbols = int.from_bytes(data[bit >> 3 :], "little") >> (bit & 7)
    size = at + 8 * len(data) - bit
    return (number | symbols << at).to_bytes((size + 7) // 8, "little")


def inflate_block(
    data: BytesLike,
    codec: str,
    *,
    bit: int,
    header: bytes,
    header_bits: int,
    window: bytes,
    skip: int,
    nbytes: int,
) -> tuple[memoryview, str | None]:
    view = memoryview(data).cast("B")
    if len(header) != (header_bits + 7) // 8 or not 0 <= bit <= 8 * len(view):
        raise ValueError("no inflater was marked so")
    inside = header_bits > 0
    left = _spliced(view, bit, header, header_bits) if inside else bytes(view[bit >> 3 :])
    out, wanted, why = bytearray(), skip + nbytes, "the data ends too early"
    while len(out) < wanted and left:
        wbits = -15 if inside else _CONTAINER[codec]
        member = zlib.decompressobj(wbits, zdict=window) if inside else zlib.decompressobj(wbits)
        at = 0
        try:
            while (
                len(out) < wanted and not member.eof and (at < len(left) or member.unconsumed_tail)
            ):
                piece = member.unconsumed_tail or left[at : at + _SLICE]
                at += 0 if member.unconsumed_tail else len(piece)
                out += member.decompress(piece, wanted - len(out))
        except zlib.error as error:
            why = str(error)
            break
        left = member.unused_data + left[at:]
        left = left[_TRAILER[codec] :] if inside else left
        inside = False
        if not member.eof:
            break
    found = memoryview(bytes(out[skip:wanted]))
    return found, None if len(found) == nbytes else why

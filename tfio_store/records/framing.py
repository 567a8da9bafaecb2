"""Framing without I/O: the compiled core where it loads, its Python twin where not.

All other modules take the core's names from here. It adds only `RecordDecoder`, which takes a
stream in pieces of any size and gives batches of whole records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import Buffer as BytesLike

from tfio_store.errors import (
    DataLossError,
    Reason,
    RecordTooLargeError,
)
from tfio_store.records.compiled import load, running
from tfio_store.records.damage import damaged, short_record
from tfio_store.records.one_thread import OneThread

__all__ = [
    "DEFAULT_MAX_RECORD_BYTES",
    "FRAME_OVERHEAD",
    "HEADER_BYTES",
    "SUMMED_BYTES",
    "Backend",
    "Buffer",
    "FileScan",
    "FrameWriter",
    "Inflater",
    "RecordBatch",
    "RecordDecoder",
    "RecordIterator",
    "Scan",
    "backend",
    "crc32c",
    "crc32c_combine",
    "crc_backend",
    "find_record",
    "frame_of",
    "inflate_block",
    "joined",
    "masked_crc32c",
    "pool_serve",
    "prepend",
    "read_records",
    "scan",
    "sum_behind",
    "walk",
    "walk_file",
]


if TYPE_CHECKING:
    from tfio_store.records import _core as core
else:
    core = load("core", "tfio_store.records._core", "tfio_store.records._pure")

DEFAULT_MAX_RECORD_BYTES = core.DEFAULT_MAX_RECORD_BYTES
FRAME_OVERHEAD = core.FRAME_OVERHEAD
HEADER_BYTES = core.HEADER_BYTES
Buffer = core.Buffer
FileScan = core.FileScan
FrameWriter = core.FrameWriter
Inflater = core.Inflater
RecordBatch = core.RecordBatch
RecordIterator = core.RecordIterator
Scan = core.Scan
crc32c = core.crc32c
crc32c_combine = core.crc32c_combine
crc_backend = core.crc_backend
find_record = core.find_record
inflate_block = core.inflate_block
joined = core.joined
masked_crc32c = core.masked_crc32c
pool_serve = core.pool_serve
prepend = core.prepend
read_records = core.read_records
scan = core.scan
walk = core.walk
walk_file = core.walk_file


class Backend(NamedTuple):
    """The core, kernel and codec that do the work in this process."""

    core: str
    """"compiled" or "pure": what frames records and finds them."""
    crc32c: str
    """The CRC kernel: "portable", "sse4.2", "avx2-vpclmulqdq", "avx512-vpclmulqdq", "armv8"; or
    "google-crc32c", with the pure core."""

    @property
    def example(self) -> str:
        """The codec of Examples: "compiled" or "pure"."""
        return running.get("example", "pure")


def backend() -> Backend:
    """Return which core, CRC kernel and Example codec run in this process.

    Returns:
        Backend: A named tuple of ``core`` ("compiled" or "pure") and ``crc32c`` ("portable",
        "sse4.2", "avx2-vpclmulqdq", "avx512-vpclmulqdq" or "armv8", and "google-crc32c" with the
        pure core). Its attribute ``example`` is "compiled" or "pure", too.

    Example:
        >>> tfs.backend()  # doctest: +SKIP
        Backend(core='compiled', crc32c='avx512-vpclmulqdq')
    """
    return Backend(running["core"], crc_backend())


_EMPTY = RecordBatch(b"", (), ())


SUMMED_BYTES = 4
"""Bytes of a record that go into the sum of a `scan`: its masked CRC."""


def sum_behind(summed: int, found: Scan, before: int) -> int | None:
    """The sum of records and of those behind them, which a scan has found that began with the sum
    ``before``; 0 if it sums its own records alone. None if it began behind other records."""
    if before == summed:
        return found.summed
    if before == 0:
        return crc32c_combine(summed, found.summed, SUMMED_BYTES * len(found.batch))
    return None


class RecordDecoder:
    """Turns a stream of bytes, handed over in pieces of any size, into batches of records.

    Two ways to hand bytes over, freely mixed::

        batch = decoder.feed(chunk)              # bytes that are there already

        view = decoder.reserve(1 << 20)          # or: memory to read into, so that nothing is
        batch = decoder.commit(file.readinto(view))     # copied but a frame cut by the chunk's end

        decoder.finish()                         # at the end of the stream

    Batches refer to the memory that was fed or reserved, and keep it. Good records
    before a fault are returned; the fault is raised by the call after, and by every
    call from then on. One thread at a time: RuntimeError when another is inside.

    ``path`` and ``offset`` (where in the file's uncompressed stream the first byte fed
    lies) are for error messages. A record over ``max_record_bytes`` is refused by its
    header, before memory is set aside for it.

    ``summed`` is that of the records before, as `scan` has it, and then of all that were returned.
    """

    def __init__(
        self,
        *,
        verify: bool = True,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        path: str = "<buffer>",
        offset: int = 0,
        summed: int = 0,
    ) -> None:
        scan(b"", max_record_bytes=max_record_bytes)  # raises if it is no limit
        self.summed = summed
        self._verify = verify
        self._limit = max_record_bytes
        self._path = path
        self._offset = offset
        self._carried = Buffer(0)  # its first _filled bytes begin the frame at _offset
        self._filled = 0
        self._need = HEADER_BYTES  # what that frame takes, as far as is known
        self._error: DataLossError | RecordTooLargeError | None = None
        self._inside = OneThread("this RecordDecoder")

    @property
    def offset(self) -> int:
        """Where the next frame that was not yet returned lies in the stream."""
        return self._offset

    @property
    def failed(self) -> bool:
        """Whether the next call will raise."""
        return self._error is not None

    @property
    def need(self) -> int:
        """How many more bytes complete the next frame, as far as is known: at least 1."""
        return self._need - self._filled

    def feed(self, data: BytesLike) -> RecordBatch:
        """The records that ``data`` completes.

        ``data`` is not copied if the data before it ended on a frame boundary. Nor is it copied if
        it is a view of the beginning of a `Buffer`, which has room for the rest of the data before.
        """
        with self._inside:
            self._check()
            view = _flat(data)
            whole = self._joined(view)
            if whole is not None:
                found = self._scan(whole)
                self._carry(whole[found.end :], len(view))
                return found.batch
            self._room(len(view))[:] = view
            return self._commit(len(view))

    def take(self, found: Scan, offset: int, before: int) -> bool:
        """Go on behind records that somebody else has scanned, as if their bytes had been fed.

        ``offset`` is where in the stream the first of their frames lies. ``before`` is the sum that
        the scan began with; 0 if it sums its own records alone. False if the stream does not stand
        there, and then nothing is changed.
        """
        with self._inside:
            stands = self._offset == offset and not self._filled and self._error is None
            summed = sum_behind(self.summed, found, before) if stands else None
            if summed is None:
                return False
            self._offset += found.end - frame_of(found)
            self._need = HEADER_BYTES
            self.summed = summed
            return True

    def reserve(self, nbytes: int) -> memoryview:
        """Writable memory for the stream's next ``nbytes`` bytes; `commit` says how many came.

        Views that were reserved earlier must not be written any more.
        """
        with self._inside:
            self._check()
            return self._room(nbytes)

    def commit(self, nbytes: int) -> RecordBatch:
        """The records that the first ``nbytes`` bytes of the reserved memory complete."""
        with self._inside:
            self._check()
            if not 0 <= nbytes <= len(self._carried) - self._filled:
                raise ValueError(f"nbytes must be within what was reserved, got {nbytes}")
            return self._commit(nbytes)

    def finish(self) -> None:
        """Say that the stream has ended; TruncatedRecordError if that was inside a record."""
        with self._inside:
            self._check()
            if self._filled:
                reason = short_record(self.need)
                head = None if self._offset else memoryview(self._carried)[: self._filled]
                self._error = damaged(
                    Reason.TRUNCATED, reason, path=self._path, offset=self._offset, head=head
                )
                raise self._error

    def _check(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)

    def _joined(self, view: memoryview) -> memoryview | None:
        """Join what is carried and ``view`` into one run, if this needs no copy of ``view``."""
        if self._filled == 0:
            return view
        if self._filled + len(view) < self._need:  # a long record gathers in one place
            return None
        return prepend(memoryview(self._carried)[: self._filled], view)

    def _room(self, nbytes: int) -> memoryview:
        """Memory behind what is carried. It doubles, so that the bytes of a record larger than any
        piece are copied about once, and a length that is only claimed gets no memory in advance."""
        if nbytes > len(self._carried) - self._filled:
            likely = min(self._need + nbytes, 2 * self._filled)
            larger = Buffer(max(self._filled + nbytes, likely))
            memoryview(larger)[: self._filled] = memoryview(self._carried)[: self._filled]
            self._carried = larger
        return memoryview(self._carried)[self._filled : self._filled + nbytes]

    def _commit(self, nbytes: int) -> RecordBatch:
        self._filled += nbytes
        if self._filled < self._need:
            return _EMPTY
        view = memoryview(self._carried)[: self._filled]
        found = self._scan(view)
        if found.end or found.fault:
            self._carry(view[found.end :], nbytes)
        return found.batch

    def _scan(self, view: memoryview) -> Scan:
        found = scan(view, verify=self._verify, max_record_bytes=self._limit, summed=self.summed)
        self.summed = found.summed
        self._offset += found.end
        self._need = found.need or HEADER_BYTES
        if found.fault == "too_large":
            self._error = RecordTooLargeError(
                path=self._path, offset=self._offset, length=found.need, limit=self._limit
            )
        elif found.fault:
            # at the very beginning, this may be no TFRecord file at all
            head = None if self._offset else view
            self._error = damaged(
                Reason(found.fault), path=self._path, offset=self._offset, head=head
            )
        return found

    def _carry(self, tail: memoryview, piece: int) -> None:
        """Begin anew with ``tail``, in memory that the next piece fits into as well."""
        self._filled = 0 if self._error else len(tail)
        self._carried = Buffer(self._filled + piece if self._filled else 0)
        memoryview(self._carried)[: self._filled] = tail[: self._filled]


def frame_of(found: Scan) -> int:
    """Where in its buffer the first frame of a scan lies."""
    return int(found.batch.offsets[0]) - HEADER_BYTES


def _flat(data: BytesLike) -> memoryview:
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")

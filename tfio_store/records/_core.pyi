"""The compiled core: CRC32C, record framing and record batches. No I/O.

`tfio_store.records._pure` has the same names in Python. `tfio_store.records.framing` takes one of
the two, and everything else imports that.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, SupportsIndex, final, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike, Self

_Int64Array = npt.NDArray[np.int64]

FRAME_OVERHEAD: int
"""Bytes that framing adds to a record: 8 (length) + 4 (its CRC) + 4 (the data's CRC)."""
HEADER_BYTES: int
"""Bytes from a frame's start to its data: 12."""
DEFAULT_MAX_RECORD_BYTES: int
"""1 GiB: what a record's length may claim unless the caller says otherwise."""

def crc32c(data: BytesLike, value: int = 0) -> int:
    """CRC32C of ``data``, continuing from ``value``."""

def masked_crc32c(data: BytesLike) -> int:
    """The CRC as TFRecord stores it: rotated right by 15 bits, plus 0xa282ead8."""

def crc32c_combine(first: int, second: int, second_length: int) -> int:
    """CRC32C of a+b from ``first`` = crc32c(a), ``second`` = crc32c(b), in O(log n)."""

def crc_backend() -> str:
    """The CRC kernel in use: "portable", "sse4.2", "avx2-vpclmulqdq", "avx512-vpclmulqdq" or
    "armv8"; in `_pure` "google-crc32c"."""

def pool_kept() -> int:
    """Bytes of memory that the process keeps for reuse."""

def pool_serve(threads: int, budget: int) -> None:
    """So many threads work for a reader with a budget of so many bytes: of what they let go of, as
    much is kept for reuse. The most of all readers counts."""

@final
class Buffer:
    """A fixed-size writable block of memory from a pool; exports the buffer protocol.

    Freed buffers go back to a bounded process-wide pool, so that a reader that
    fills one chunk after another does not pay the page faults of fresh memory.
    """

    def __new__(cls, nbytes: int) -> Self: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

def joined(pieces: Iterable[BytesLike]) -> memoryview:
    """The bytes of all pieces, end to end, in a `Buffer`. They are copied without the GIL."""

def prepend(head: BytesLike, body: BytesLike) -> memoryview | None:
    """``head`` and ``body`` as one read-only run of bytes without copying ``body``, if it is the
    beginning of a `Buffer` with room in front of it; else None. Once for each Buffer."""

@final
class RecordBatch:
    """Consecutive records: one buffer and where each record lies in it.

    ``buffer[offsets[i] : offsets[i] + lengths[i]]`` is record i. Nothing is
    copied until a record is asked for; the buffer stays exported while the batch
    or a view of it lives. Immutable. Slicing shares the buffer; pickling keeps
    only the bytes that the records span.
    """

    def __new__(cls, buffer: BytesLike, offsets: npt.ArrayLike, lengths: npt.ArrayLike) -> Self:
        """Raises ValueError when a record would lie outside ``buffer``."""
    @classmethod
    def from_records(cls, records: Iterable[BytesLike]) -> RecordBatch: ...
    @property
    def buffer(self) -> memoryview:
        """The whole underlying buffer, read-only, uint8."""
    @property
    def offsets(self) -> _Int64Array: ...
    @property
    def lengths(self) -> _Int64Array: ...
    @property
    def nbytes(self) -> int:
        """Bytes of all the records, without framing."""
    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: SupportsIndex, /) -> bytes: ...
    @overload
    def __getitem__(self, index: slice, /) -> RecordBatch: ...
    def take(self, indices: npt.ArrayLike) -> RecordBatch:
        """The records at ``indices``, in that order, sharing the buffer."""
    def view(self, index: SupportsIndex) -> memoryview: ...
    def tolist(self) -> list[bytes]: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __eq__(self, other: object, /) -> bool: ...
    def to_arrow(self) -> Any:
        """A pyarrow.Array of type binary_view over the same memory."""

class Scan(NamedTuple):
    """What a scan found."""

    batch: RecordBatch
    end: int
    """Offset in the buffer of the first byte that is not part of a returned record."""
    fault: str | None
    """None, or why the frame at ``end`` is refused: "length_crc", "data_crc", "too_large"."""
    need: int
    """With no fault: bytes that the frame at ``end`` takes, as far as is known (12 before its
    header is whole), 0 when the buffer ends on a frame boundary or max_records stopped the
    scan. With "too_large": the record's claimed length."""
    summed: int
    """CRC32C over the masked CRC of each record, as it stands behind its data."""

def scan(
    buffer: BytesLike,
    *,
    start: int = 0,
    verify: bool = True,
    max_records: int | None = None,
    max_record_bytes: int = ...,
    summed: int = 0,
) -> Scan:
    """Find whole records from ``start``. Length CRCs are always checked, data CRCs if ``verify``.
    ``summed``: that of the records before.

    Stops at the first frame that is not whole or not good; what is wrong with it is in the
    answer, not raised.
    """

def walk(
    buffer: BytesLike, *, start: int = 0, max_record_bytes: int = ...
) -> tuple[_Int64Array, int, str | None]:
    """Headers only, for indexing: (frame offsets, end, fault).

    Records' data is skipped, not checked, and the last frame may reach past the
    buffer: ``end`` is then beyond ``len(buffer)`` and says where the next header lies.
    A header that the buffer cuts leaves ``end`` at that header.
    """

def walk_file(
    descriptor: int, nbytes: int, *, max_record_bytes: int = ...
) -> tuple[_Int64Array, int, str | None, _Int64Array]:
    """As `walk`, over the first ``nbytes`` bytes of an open file, reading no more than it must.

    Behind that, int64 [n_records + 1]: what `scan` calls the sum, of the records before each
    frame, and of all. The data is not checked against it.
    ``end`` is short of ``nbytes`` where the file is, or where it ends inside a header. OSError
    where the file can't be read.
    """

@final
class FileScan:
    """Reads bytes ``start:stop`` of a file and scans them, as `scan` does, without the GIL: in a
    thread of C's own, or in the caller's.

    ``records``: how many there should be; the scan ends behind one more. ``find``: begin at the
    first good frame, if one lies in the first 256 KiB. Else no record is found. ``cached``: nothing
    comes unless all of it is in memory. One thread at a time may call the methods.
    """

    def __new__(
        cls,
        path: str,
        start: int,
        stop: int,
        *,
        records: int | None = None,
        find: bool = False,
        cached: bool = False,
        verify: bool = True,
        max_record_bytes: int = ...,
        summed: int = 0,
    ) -> Self: ...
    def begin(self, threads: int, at_once: int) -> bool:
        """Hand it to one of at most ``threads`` threads of C, which all readers share: ``at_once``
        of them keep a core busy, and the others wait for disks. They start as they are needed, and
        stay. False where none can be started."""

    def begins(self, patience: float) -> bool:
        """Whether a thread works on it or has done, or does so within ``patience`` seconds. Else
        no thread will: it is left to `result`."""

    def done(self) -> bool:
        """Whether a thread has done it, so that `result` neither waits nor works."""

    def result(self) -> tuple[Scan, tuple[int, int, int], tuple[float, float]] | None:
        """Wait for the thread that works on it, or do it here. Call it once.

        Behind the scan come the file's inode, its time of change (nanoseconds since 1970, modulo
        2**64) and its size, and the seconds that reading and scanning took. None where the file
        can't be read, is no regular file, or ends before ``stop``.
        """

def read_records(
    descriptor: int,
    start: int,
    stop: int,
    *,
    verify: bool = True,
    max_record_bytes: int = ...,
    enough: int = 0,
    summed: int = 0,
) -> tuple[list[bytes], int, int]:
    """Whole records of an open file from ``start`` on, each read into memory of its own, where the
    next frame begins, and their sum as `scan` has it.

    It ends with the record that makes them ``enough`` bytes, at ``stop``, and before a frame that
    is not whole or not good. OSError where the file can't be read.
    """

def find_record(
    buffer: BytesLike,
    *,
    start: int = 0,
    max_record_bytes: int = ...,
    final: bool = False,
    patience: int | None = None,
) -> tuple[int, bool, int]:
    """Resynchronise: the offset of the first frame at or after ``start`` whose length CRC and data
    CRC hold, and True; or the first offset that more bytes could still turn into one
    (``len(buffer)`` when none, or ``final``), and False. Last of all what is left of the
    ``patience``: the bytes of frames that may turn out bad before frames of over 4 KiB are passed
    over. Default None: 16 times the buffer, and a MiB."""

@final
class FrameWriter:
    """Frames records into one growing buffer.

    A call that raises (TypeError on a str or another object without bytes) leaves the
    writer as it was. RuntimeError when one thread calls while another is inside.
    """

    def __new__(cls, reserve: int = 0) -> Self:
        """``reserve``: bytes to make room for at the first record."""
    @property
    def nbytes(self) -> int:
        """Framed bytes waiting."""
    @property
    def records(self) -> int: ...
    def write(self, record: BytesLike) -> int:
        """Frame one record; returns the framed bytes now waiting."""
    def write_many(self, records: Iterable[BytesLike]) -> int:
        """Frame every record of an iterable; returns the framed bytes now waiting."""
    def write_some(self, records: list[Any], start: int, enough: int) -> int:
        """Frame records of a list from ``start`` on, until ``enough`` framed bytes wait; returns
        the number of the next one."""
    def write_flat(self, data: BytesLike, offsets: npt.ArrayLike) -> int:
        """Frame records ``data[offsets[i]:offsets[i+1]]``, as Arrow lays strings out."""
    def write_batch(self, batch: RecordBatch) -> int:
        """Frame every record of a batch; returns the framed bytes now waiting."""
    def take(self) -> memoryview:
        """The framed bytes, read-only, and start afresh. The view owns its memory."""

@final
class RecordIterator:
    """Iterates records (bytes) of an iterator of batches; no Python code runs per record.

    A batch may also be a list of records. They are taken out of it as they are given.
    ``batches`` is asked for the next batch when one is used up. ``batch`` is the current one
    (None before the first, after the last and where `take_rest` took it) and ``position`` the index
    of the next record in it. RuntimeError when one thread asks for a record while another fetches a
    batch.
    """

    def __new__(cls, batches: Iterator[RecordBatch | list[bytes]]) -> Self: ...
    @property
    def batch(self) -> RecordBatch | list[bytes] | None: ...
    @property
    def position(self) -> int: ...
    def __iter__(self) -> RecordIterator: ...
    def __next__(self) -> bytes: ...
    def take_rest(self) -> RecordBatch | None:
        """The current batch's records that were not given, which will not be; None if there are
        none."""

@final
class Inflater:
    """A GZIP or ZLIB stream, fed in pieces and read in pieces, that tells how to go on where it
    stands. RuntimeError when one thread calls while another one reads."""

    def __new__(cls, codec: str) -> Self: ...
    @property
    def status(self) -> str:
        """Why `read` gave no more: "limit", "more", "member" or "end"."""

    @property
    def member(self) -> tuple[int, int] | None:
        """Of a member that has just ended: the checksum and the length that its end tells."""

    def feed(self, data: BytesLike) -> None:
        """Take the next bytes. They must not change until they are read."""

    def finish(self) -> None:
        """Say that the input has ended."""

    @property
    def bit(self) -> int:
        """The bit of the file where the next symbol, or the next member, begins."""

    def read(self, limit: int, *, exact: bool = False) -> bytes:
        """The next bytes. ``exact``: end at the last symbol that does not reach beyond the limit.
        Else up to 257 bytes more may come. ValueError for data that is damaged, EOFError where it
        ends too early; what comes before that is given first."""

    def mark(self) -> tuple[int, bytes, int]:
        """What `inflate_block` needs to begin here, but for the `window`: the bit, and the header
        and how many bits that has."""

    @property
    def watched(self) -> bool:
        """Whether all that may copy bytes of the window has been read."""

    def window(self) -> bytes:
        """The bytes before the mark, from the first one on that what follows copies. Those between
        that nothing copies are zeros."""

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
    """``nbytes`` bytes that come ``skip`` bytes behind bit ``bit`` of ``data``, where an `Inflater`
    was marked: what there is of them, and why there is no more, or None. ValueError if no inflater
    was marked so."""

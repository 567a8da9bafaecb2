"""Reading on past damage: in frames, and in compressed streams. It loses the damaged bytes only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.errors import Reason
from tfio_store.records.codec import Codec
from tfio_store.records.damage import said_of
from tfio_store.records.framing import (
    DEFAULT_MAX_RECORD_BYTES,
    FRAME_OVERHEAD,
    HEADER_BYTES,
    RecordBatch,
    Scan,
    find_record,
    frame_of,
    scan,
    sum_behind,
)

# Decompression past damage: as far as the data inflate, then from the next member on.
#
# The output of a damaged member is handed over too. The member's checksum says that some byte
# is wrong, and the records' own checksums say which records are hit. The next member is found by
# its magic bytes. It must inflate for a while before it is believed.


_MOST = 1 << 20
"""Bytes of output at a time, of a decoder that can limit it."""

_TRIAL = 1 << 10
"""A member must inflate this far to be believed, if it is that long."""


@dataclass(frozen=True, slots=True)
class Gap:
    """``nbytes`` compressed bytes that do not inflate, and why."""

    nbytes: int
    reason: str
    kind: Reason = Reason.STREAM


class RecoveringDecompressor:
    """A compressed stream, fed in pieces of any size, that loses what is damaged and says so.

    ``single``: the data are one member, so no other is looked for behind damage, or behind its end.
    Memory is bounded as in `Decompressor`.

    Attributes:
        ended: A single member was read to its end, where its checksum holds.
    """

    def __init__(self, codec: Codec, *, single: bool = False) -> None:
        self._codec = codec
        self._single, self.ended = single, False
        self._input = memoryview(b"")
        self._member: Any = None
        self._fresh = False  # the member has taken no byte yet
        self._full = False  # the last step filled its output: the member may hold more
        self._members = 0
        self._gap: Gap | None = None
        """A gap so far whose end is not found yet."""

    def feed(self, data: BytesLike) -> Iterator[bytes | Gap]:
        """Iterate the output in order. Read it to its end before you feed more."""
        view = memoryview(data).cast("B")
        self._input = memoryview(bytes(self._input) + view) if len(self._input) else view
        yield from self._run(final=False)

    def finish(self) -> Iterator[bytes | Gap]:
        """Give what can be decided only at the end of the data."""
        yield from self._run(final=True)
        if self._member is not None and self._codec.ends:
            reason = f"the {self._codec.name} data ends too early"
            self._gap = Gap(0, reason, Reason.SHORT_STREAM)
        if self._gap is not None:
            yield self._closed()

    def _run(self, *, final: bool) -> Iterator[bytes | Gap]:
        while len(self._input) or self._full:
            if self._gap is not None:
                if not self._search(final):
                    return
                yield self._closed()
            if self._member is None:
                self._begin()
            elif len(self._input) < self._codec.step and not final:
                return
            else:
                yield from self._advance()

    def _begin(self) -> None:
        if self._single and self._members:
            self._input = memoryview(b"")
        elif self._codec.padded and self._members and self._input[0] == 0:
            self._input = memoryview(bytes(self._input).lstrip(b"\0"))  # padding by some tools
        else:
            self._member, self._fresh = self._codec.member(copyable=True), True
            self._members += 1

    def _advance(self) -> Iterator[bytes]:
        piece = self._input[: self._codec.step]
        before = self._member.copy() if self._codec.bounded else None
        try:
            out, left = _decompress(self._member, piece, _MOST)
        except self._codec.errors as error:
            yield from self._up_to_damage(before, piece)
            self._lose(f"the {self._codec.name} data do not decode ({error})")
            return
        self._full = before is not None and len(out) == _MOST
        self._take(len(piece) - len(left))
        if self._member.eof:
            self._member, self._full = None, False
            self.ended = self._single
        if out:
            yield out

    def _up_to_damage(self, member: Any, piece: memoryview) -> Iterator[bytes]:
        """Give what the member yields before the damage in ``piece``."""
        while member is not None:
            member, out, left = self._longest(member, piece)
            self._take(len(piece) - len(left))
            piece = left
            if out:
                yield out
            if len(out) < _MOST:
                return

    def _longest(self, member: Any, piece: memoryview) -> tuple[Any, bytes, memoryview]:
        """A copy of the member that has taken as much of a damaged piece as it can, what came out,
        and what is left."""
        good, bad = 0, len(piece)
        best = member, b"", piece
        while bad - good > 1:
            middle = (good + bad) // 2
            attempt = member.copy()
            try:
                out, left = _decompress(attempt, piece[:middle], _MOST)
            except self._codec.errors:
                bad = middle
                continue
            good, best = middle, (attempt, out, piece[middle - len(left) :])
        return best

    def _take(self, nbytes: int) -> None:
        self._input = self._input[nbytes:]
        self._fresh = self._fresh and not nbytes

    def _lose(self, reason: str) -> None:
        """Begin a gap here. A member that began here must not be found again."""
        self._gap = Gap(0, reason)
        if self._fresh or self._member is None:
            self._pass(1)
        self._member, self._full = None, False

    def _pass(self, nbytes: int) -> None:
        assert self._gap is not None
        passed = min(nbytes, len(self._input))
        self._gap = replace(self._gap, nbytes=self._gap.nbytes + passed)
        self._input = self._input[nbytes:]

    def _closed(self) -> Gap:
        assert self._gap is not None
        gap, self._gap = self._gap, None
        return gap

    def _search(self, final: bool) -> bool:
        """Go to the next member. False if more data must be fed to find one."""
        beginning = None if self._single else self._codec.beginning
        while beginning is not None and (found := beginning.search(self._input)) is not None:
            self._pass(found.start())
            if len(self._input) < _TRIAL and not final:
                return False
            if self._believable(self._input[:_TRIAL]):
                return True
            self._pass(1)
        # the last bytes may begin a magic number
        self._pass(len(self._input) - (0 if final else min(3, len(self._input))))
        return False

    def _believable(self, beginning: BytesLike) -> bool:
        member = self._codec.member(copyable=True)
        try:
            out, _ = _decompress(member, beginning, _TRIAL)
        except self._codec.errors:
            return False
        return bool(out) or member.eof or not self._codec.bounded


def _decompress(member: Any, piece: BytesLike, limit: int) -> tuple[bytes, bytes]:
    """The output of a piece, and the rest of its input."""
    limits = (limit,) if hasattr(member, "copy") else ()
    out: bytes = member.decompress(piece, *limits)
    left: bytes = member.unused_data if member.eof else member.unconsumed_tail
    return out, left


# Reading on past damage: a decoder that loses the damaged bytes only, and says which.


@dataclass(frozen=True, slots=True)
class SkippedRegion:
    """Bytes of a damaged file that were passed over.

    Attributes:
        path (str): The file's path or URL.
        offset (int): Where the region begins, in bytes of the uncompressed stream. Behind a gap of
            unknown length it counts only the bytes that came out.
        length (int | None): Bytes of the uncompressed stream. None if it is unknown how many are
            missing, because compressed data does not decompress.
        reason (str): What is wrong.
        stored_length (int): The compressed bytes that do not decompress. Default 0.
        kind (Reason): The reason for programs. Default `Reason.CONTENT`.

    Example:
        >>> with tfs.TFRecordWriter("a.tfrecord") as writer:
        ...     writer.write_batch([b"one", b"two"])
        >>> with open("a.tfrecord", "r+b") as file:
        ...     _ = file.seek(12), file.write(b"X")
        >>> regions = []
        >>> list(tfs.RecordReader("a.tfrecord", on_corrupt=regions.append))
        [b'two']
        >>> regions[0].offset, regions[0].length
        (0, 19)
    """

    path: str
    offset: int
    length: int | None
    reason: str
    stored_length: int = 0
    kind: Reason = Reason.CONTENT

    @property
    def size(self) -> str:
        """How much was passed over, in words (str)."""
        if self.length is None:
            return f"{self.stored_length} compressed bytes"
        return f"{self.length} bytes"


_PATIENCE = 1 << 20


class RecoveringDecoder:
    """A `RecordDecoder` that goes on behind damage: it looks for the next record that checks out.

    If the length of a damaged record can be believed, and a believable header follows it, that
    header is next. For a record's own bytes may hold frames (a TFRecord file as a record), and
    these are not records of this file. Otherwise it searches byte by byte for a frame whose two
    checksums hold.

    ``on_skip`` is called with each region once its end is known, before records behind it are
    returned.
    """

    def __init__(
        self,
        on_skip: Callable[[SkippedRegion], None],
        *,
        verify: bool = True,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        path: str = "<buffer>",
        offset: int = 0,
        summed: int = 0,
    ) -> None:
        self._on_skip = on_skip
        self.summed = summed
        """The name that `scan` has for the sum of the records that were returned."""
        self._verify = verify
        self._max = max_record_bytes
        self._path = path
        self._base = offset
        """Stream offset of the first byte of ``_carry``."""
        self._carry = bytearray()
        self._want = 0
        """Bytes that ``_carry`` must hold before looking again is worth while."""
        self._patience = _PATIENCE
        """Bytes of frames that may turn out bad. Each byte that is fed gives 16 more."""
        self._damage: tuple[int, Reason, str] | None = None
        """Stream offset, kind and reason of a region whose end is not found yet."""
        self.offset = offset
        """Stream offset of the first byte behind the last returned record."""
        self.is_sound = True
        """Whether what was fed behind that record begins another one, as far as it goes."""
        self.cut: int | None = None
        """Stream offset of the first sound header whose record the end of the data cuts."""

    def feed(self, data: BytesLike) -> RecordBatch:
        """The whole records now available. Never raises for damage."""
        return self._decode(data, final=False)

    def take(self, found: Scan, offset: int, before: int) -> bool:
        """See `RecordDecoder.take`."""
        stands = self._base == self.offset == offset and not self._carry and self._damage is None
        stands = stands and self.is_sound
        summed = sum_behind(self.summed, found, before) if stands else None
        if summed is None:
            return False
        nbytes = found.end - frame_of(found)
        self._base += nbytes
        self._patience += 16 * nbytes
        self.offset = self._base
        self.summed = summed
        return True

    def finish(self) -> RecordBatch:
        """Records that may be damage: the end of the data decides."""
        batch = self._decode(b"", final=True)
        if self._damage is not None:
            self._report(self._base)
        return batch

    def interrupt(self, gap: Gap) -> RecordBatch:
        """Say that bytes are missing here: what is fed next does not continue what was fed before.
        Returns the records before the gap, and reports the gap."""
        batch = self.finish()
        self._on_skip(SkippedRegion(self._path, self._base, None, gap.reason, gap.nbytes, gap.kind))
        return batch

    def _decode(self, data: BytesLike, *, final: bool) -> RecordBatch:
        buffer: BytesLike = data
        if self._carry:
            self._carry += memoryview(data)
            if len(self._carry) < self._want and not final:
                return RecordBatch(b"", [], [])
            # a batch exports what it is given: hand the bytes over and start a new carry
            buffer, self._carry = self._carry, bytearray()
        self._patience += 16 * len(memoryview(data))
        batches, end = self._walk(memoryview(buffer), final)
        self._carry = bytearray(memoryview(buffer)[end:])
        self._base += end
        return joined(buffer, batches)

    def _walk(self, buffer: memoryview, final: bool) -> tuple[list[RecordBatch], int]:
        """Return batches of good records, and where the first undecided byte lies in the buffer."""
        batches: list[RecordBatch] = []
        at = 0
        while True:
            if self._damage is not None:
                at = self._search(buffer, at, final)
            if self._damage is not None:
                return batches, at
            found = scan(
                buffer,
                start=at,
                verify=self._verify,
                max_record_bytes=self._max,
                summed=self.summed,
            )
            self.summed = found.summed
            if len(found.batch):
                batches.append(found.batch)
            at = found.end
            self.offset = self._base + at
            self.is_sound = found.fault is None
            if self.is_sound and (at == len(buffer) or not final):
                self._want = found.need
                return batches, at
            if self.is_sound and self.cut is None:
                self.cut = self._base + at
            follower = self._follower(buffer, at, found.fault)
            if follower is not None and follower + HEADER_BYTES > len(buffer) and not final:
                self._want = follower + HEADER_BYTES - at
                return batches, at
            self._begin_damage(buffer, at, found.fault or "truncated")
            at += 1
            if follower is not None and self._believable(buffer, follower):
                at = self._swallowed(buffer[:follower], at)
                self._report(self._base + at)

    def _begin_damage(self, buffer: memoryview, at: int, fault: str) -> None:
        # at the very beginning, this may be no TFRecord file at all
        found, place = Reason(fault), self._base + at
        self._damage = (place, *said_of(found, found.text, None if place else buffer))

    def _search(self, buffer: memoryview, at: int, final: bool) -> int:
        """Find the next frame that checks out: it ends the damage. Or say where to search on
        later."""
        at, found = self._find(buffer, at, final=final)
        if found:
            self._report(self._base + at)
        elif not final:
            # all of a candidate's frame, or a hostile header would make every feed a copy
            need = scan(buffer, start=at, max_record_bytes=self._max).need
            self._want = max(need, len(buffer) - at + 1)
        return at

    def _find(self, buffer: memoryview, at: int, *, final: bool = False) -> tuple[int, bool]:
        at, found, self._patience = find_record(
            buffer, start=at, max_record_bytes=self._max, final=final, patience=self._patience
        )
        return at, found

    def _follower(self, buffer: memoryview, at: int, fault: str | None) -> int | None:
        """Where the next frame begins, if the length of the damaged one can be believed."""
        if fault != "data_crc":
            return None
        return at + FRAME_OVERHEAD + int.from_bytes(buffer[at : at + 8], "little")

    def _believable(self, buffer: memoryview, at: int) -> bool:
        """Whether a frame, or the end of the data, is here."""
        if at == len(buffer):
            return True
        header = buffer[at : at + HEADER_BYTES]
        return (
            len(header) == HEADER_BYTES and scan(header, max_record_bytes=self._max).fault is None
        )

    def _swallowed(self, extent: memoryview, at: int) -> int:
        """Find where other records begin inside the extent of a damaged record, and fill the rest
        of it; its end if there are none. (A damaged record may have lost bytes.) A file that is the
        record's data does not count: it ends before the data's CRC."""
        while at < len(extent):
            at, found = self._find(extent, at)
            if not found:
                break
            run = scan(extent, start=at, max_record_bytes=self._max)
            if run.fault is None and run.end == len(extent):
                return at
            at = run.end + 1
        return len(extent)

    def _report(self, end: int) -> None:
        assert self._damage is not None
        start, kind, reason = self._damage
        self._damage = None
        self._on_skip(SkippedRegion(self._path, start, end - start, reason, kind=kind))


def joined(buffer: BytesLike, batches: list[RecordBatch]) -> RecordBatch:
    """One batch of all the records, which all lie in ``buffer``."""
    if not batches:
        return RecordBatch(b"", [], [])
    if len(batches) == 1:
        return batches[0]
    return RecordBatch(
        buffer,
        np.concatenate([batch.offsets for batch in batches]),
        np.concatenate([batch.lengths for batch in batches]),
    )

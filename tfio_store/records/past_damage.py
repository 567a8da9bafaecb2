"""Decompression past damage: as far as the data inflate, then from the next member on.

What comes out of a damaged member is handed over too. The member's checksum says that some byte is
wrong, and the records' own checksums say which records are hit. The next member is found by its
magic bytes. It must inflate for a while before it is believed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfio_store.records.compression import codec_errors, new_member

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Gap", "RecoveringDecompressor"]

_STEP = {"GZIP": 64 << 10, "ZLIB": 64 << 10, "DEFLATE": 64 << 10, "ZSTD": 1 << 10}
"""Bytes of input at a time. The number is fixed, so that the result does not depend on how data is
fed."""

_MOST = 1 << 20
"""Bytes of output at a time (but for ZSTD)."""

_TRIAL = 1 << 10
"""A member must inflate this far to be believed, if it is that long."""


def _zlib_headers() -> bytes:
    """A pattern of all: any window size, no dictionary, together a multiple of 31 (RFC 1950)."""
    pairs = [(window << 4 | 8, flags) for window in range(8) for flags in range(256)]
    valid = [bytes(pair) for pair in pairs if not (pair[0] << 8 | pair[1]) % 31 | pair[1] & 0x20]
    return b"|".join(map(re.escape, valid))


_BEGINNINGS = {
    "GZIP": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "ZLIB": re.compile(_zlib_headers(), re.DOTALL),
    "ZSTD": re.compile(rb"\x28\xb5\x2f\xfd"),
}


@dataclass(frozen=True, slots=True)
class Gap:
    """``nbytes`` compressed bytes that do not inflate, and why."""

    nbytes: int
    reason: str


class RecoveringDecompressor:
    """A compressed stream, fed in pieces of any size, that loses what is damaged and says so.

    ``codec`` may also be "DEFLATE": one bare deflate stream, behind which nothing is looked for.
    Memory is bounded as in `Decompressor`.
    """

    def __init__(self, codec: str) -> None:
        self._codec = codec
        self._input = memoryview(b"")
        self._member: Any = None
        self._fresh = False  # the member has taken no byte yet
        self._full = False  # the last step filled its output: the member may hold more
        self._members = 0
        self._gap: tuple[int, str] | None = None
        """Bytes of a gap so far whose end is not found yet, and its reason."""

    def feed(self, data: BytesLike) -> Iterator[bytes | Gap]:
        """Iterate the output in order. Read it to its end before you feed more."""
        view = memoryview(data).cast("B")
        self._input = memoryview(bytes(self._input) + view) if len(self._input) else view
        yield from self._run(final=False)

    def finish(self) -> Iterator[bytes | Gap]:
        """Give what can be decided only at the end of the data."""
        yield from self._run(final=True)
        if self._member is not None and self._codec != "DEFLATE":
            self._gap = (0, f"the {self._codec} data ends too early")
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
            elif len(self._input) < _STEP[self._codec] and not final:
                return
            else:
                yield from self._advance()

    def _begin(self) -> None:
        if self._codec == "GZIP" and self._members and self._input[0] == 0:
            self._input = memoryview(bytes(self._input).lstrip(b"\0"))  # padding by some tools
        elif self._codec == "DEFLATE" and self._members:
            self._input = memoryview(b"")  # the trailer of the stream that this was a piece of
        else:
            self._member, self._fresh = new_member(self._codec, copyable=True), True
            self._members += 1

    def _advance(self) -> Iterator[bytes]:
        piece = self._input[: _STEP[self._codec]]
        before = None if self._codec == "ZSTD" else self._member.copy()
        try:
            out, left = _decompress(self._member, piece, _MOST)
        except codec_errors(self._codec) as error:
            yield from self._up_to_damage(before, piece)
            self._lose(f"the {self._codec} data do not decode ({error})")
            return
        self._full = before is not None and len(out) == _MOST
        self._take(len(piece) - len(left))
        if self._member.eof:
            self._member, self._full = None, False
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
            except codec_errors(self._codec):
                bad = middle
                continue
            good, best = middle, (attempt, out, piece[middle - len(left) :])
        return best

    def _take(self, nbytes: int) -> None:
        self._input = self._input[nbytes:]
        self._fresh = self._fresh and not nbytes

    def _lose(self, reason: str) -> None:
        """Begin a gap here. A member that began here must not be found again."""
        self._gap = (0, reason)
        if self._fresh or self._member is None:
            self._pass(1)
        self._member, self._full = None, False

    def _pass(self, nbytes: int) -> None:
        assert self._gap is not None
        lost, reason = self._gap
        self._gap = (lost + min(nbytes, len(self._input)), reason)
        self._input = self._input[nbytes:]

    def _closed(self) -> Gap:
        assert self._gap is not None
        gap, self._gap = Gap(*self._gap), None
        return gap

    def _search(self, final: bool) -> bool:
        """Go to the next member. False if more data must be fed to find one."""
        beginning = _BEGINNINGS.get(self._codec)
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
        member = new_member(self._codec, copyable=True)
        try:
            out, _ = _decompress(member, beginning, _TRIAL)
        except codec_errors(self._codec):
            return False
        return bool(out) or member.eof or self._codec == "ZSTD"


def _decompress(member: Any, piece: BytesLike, limit: int) -> tuple[bytes, bytes]:
    """What comes out of a piece, and what is left of it."""
    limits = (limit,) if hasattr(member, "copy") else ()
    out: bytes = member.decompress(piece, *limits)
    left: bytes = member.unused_data if member.eof else member.unconsumed_tail
    return out, left

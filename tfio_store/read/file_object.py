"""Open binary file objects as a source: one stream, read from where it stands."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO

from typing_extensions import TypeIs

from tfio_store.dataset.model import Dataset, Shard
from tfio_store.read.plan import StreamPart
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import Buffer

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["FileStream", "is_file_object"]

_CHUNK = 1 << 20


def is_file_object(source: object) -> TypeIs[BinaryIO]:
    """Whether one can read bytes from this object. TypeError for a file of text."""
    if isinstance(source, io.TextIOBase):
        raise TypeError(
            "source= is a file that was opened as text; open it as bytes: open(path, 'rb')"
        )
    return callable(getattr(source, "read", None))


class FileStream:
    """An open file from where it stood when it was handed over."""

    def __init__(self, file: BinaryIO, compression: str | None) -> None:
        self._file = file
        self._origin = file.tell() if _seekable(file) else None
        name = getattr(file, "full_name", None) or getattr(file, "name", None)
        url = str(name) if name is not None else "<file object>"
        codec = compression if compression == "auto" else codec_name(compression)
        self.dataset = Dataset((Shard(url, 0, codec),))
        self._stands = 0
        """How many bytes of the stream were read, or passed over."""

    def parts(self, start: int) -> Iterator[tuple[StreamPart, BytesLike]]:
        """The stream's bytes in parts, from byte ``start`` of it on."""
        if start != self._stands:
            self._seek(start)
        chunk, first = self._next(), True
        while True:
            following = self._next() if chunk else chunk
            stop = start + len(chunk)
            yield StreamPart(0, 0, start, stop, first=first, last=not following), chunk
            if not following:
                return
            start, first, chunk = stop, False, following

    def _seek(self, offset: int) -> None:
        if self._origin is None:
            raise ValueError(
                f"{self.dataset.shards[0].url}: cannot go back: the file is not seekable"
            )
        self._file.seek(self._origin + offset)
        self._stands = offset

    def _next(self) -> memoryview:
        chunk = _read(self._file)
        self._stands += len(chunk)
        return chunk


def _seekable(file: BinaryIO) -> bool:
    seekable = getattr(file, "seekable", None)
    return bool(seekable is not None and seekable())


def _read(file: BinaryIO) -> memoryview:
    """The next megabyte, or what is left. It continues short reads, because a file object may give
    less than asked for at any time."""
    readinto = getattr(file, "readinto", None)
    buffer = Buffer(_CHUNK)
    view, got = memoryview(buffer), 0
    while got < _CHUNK:
        n = readinto(view[got:]) if readinto else _copy(file, view[got:])
        if n is None:
            raise BlockingIOError(
                f"{file!r}: is in non-blocking mode; reading needs a blocking file object"
            )
        if n == 0:
            break
        got += n
    return view[:got]


def _copy(file: BinaryIO, into: memoryview) -> int | None:
    data: Any = file.read(len(into))
    if data is None:
        return None
    if isinstance(data, str):
        raise TypeError(f"{file!r}: is open in text mode; open it with mode 'rb'")
    into[: len(data)] = data
    return len(data)

"""The bytes of one file of a source, and errors that name the file."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tfio_store.dataset.model import Dataset
from tfio_store.storage.store import StoredFile

__all__ = ["SourceFile", "opened", "unpacked"]

_BUFFER = 1 << 20

_PACKERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\0": lzma.LZMAFile,
}
"""How a packed file begins, and what unpacks it: all of its streams, with their checksums."""

_DECODING: tuple[type[Exception], ...] = (EOFError, OSError, zlib.error, lzma.LZMAError)


class SourceFile(StoredFile):
    """A file that tells its own errors from those of whoever decodes it.

    Attributes:
        url (str): Its address.
        is_short (bool): Whether the last read found less than was asked for.
    """

    def __init__(self, dataset: Dataset, index: int) -> None:
        shard = dataset.shards[index]
        super().__init__(*dataset.open(index), shard.nbytes, shard.version)
        self.url = shard.url
        self.nbytes = shard.nbytes
        self.is_short = False
        self._failure: OSError | None = None

    def readinto(self, buffer: Any) -> int:
        try:
            count = super().readinto(buffer)
        except OSError as error:
            self._failure = error
            raise
        self.is_short = count < memoryview(buffer).nbytes
        return count

    @contextlib.contextmanager
    def decoded_as(self, what: str, *errors: type[Exception]) -> Iterator[None]:
        """What decoding raises becomes a ValueError that names the file. Errors of the store stay
        as they are: decoders raise OSError too."""
        try:
            yield
        except (*errors, *_DECODING) as error:
            if self._failure is not None:
                raise
            raise ValueError(f"{self.url}: cannot be read as {what}: {error}") from error


def opened(dataset: Dataset) -> Iterator[SourceFile]:
    """The files of a source, one after the other."""
    for index in range(len(dataset.shards)):
        with SourceFile(dataset, index) as file:
            yield file


def unpacked(file: SourceFile) -> Any:
    """The file as it was before gzip, bzip2 or xz packed it, whatever its name."""
    begins = file.read(max(map(len, _PACKERS)))
    file.seek(0)
    for mark, packer in _PACKERS.items():
        if begins.startswith(mark):
            return packer(io.BufferedReader(file, _BUFFER))
    return file

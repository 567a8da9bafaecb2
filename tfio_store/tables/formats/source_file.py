"""The files of others: their formats, which the end of their names says, and their bytes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tfio_store.dataset.model import Dataset, DatasetPart
from tfio_store.dataset.source import OneSource, is_one
from tfio_store.storage.store import StoredFile

# What the end of a name says: the format, whether gzip packs it, and what parts fields of lines.


TFRECORD = "tfrecord"
TABLES = ("parquet", "csv", "jsonl", "arrow")
_WRITTEN = (TFRECORD, *TABLES, "webdataset")
_READ = (*_WRITTEN, "images", "numpy")
_SUFFIXES = {
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".csv.gz": "csv", ".tsv": "csv", ".tsv.gz": "csv",
    ".jsonl": "jsonl", ".jsonl.gz": "jsonl", ".ndjson": "jsonl", ".ndjson.gz": "jsonl",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
    ".tar": "webdataset", ".tar.gz": "webdataset", ".tgz": "webdataset",
    ".npy": "numpy", ".npz": "numpy",
}  # fmt: skip


def chosen_format(given: str | None, name: Any, argument: str) -> str:
    """The format of a source or a target: the one that was ``given``, or that of its name."""
    known = _WRITTEN if argument == "target_format" else _READ
    if given is not None and given not in known:
        raise ValueError(f"{argument}={given!r}: pass one of {', '.join(map(repr, known))}")
    if given is not None:
        return given
    names = [name] if is_one(name) else name
    found = {_told(each) for each in names}
    if len(found) > 1:
        raise ValueError(f"source= names files of several formats: {', '.join(sorted(found))}")
    form = found.pop() if found else TFRECORD
    if form not in known:
        raise ValueError(f"{argument.partition('_')[0]}= names a {form} file, which is read only")
    return form


def is_packed(name: str) -> bool:
    """Whether a file of this name is packed by gzip."""
    return _plain(name).endswith((".gz", ".tgz"))


def check_delimiter(delimiter: str | None, *formats: str) -> None:
    """ValueError for one that CSV does not take, or where nothing is CSV."""
    if delimiter is None:
        return
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise ValueError(f'delimiter={delimiter!r}: pass one character, such as ";" or a tab')
    if "csv" not in formats:
        raise ValueError("delimiter= is for CSV, and neither side is CSV")


def usual_delimiter(name: str) -> str:
    """The delimiter of a CSV file, unless the caller names one."""
    return "\t" if _plain(name).endswith((".tsv", ".tsv.gz")) else ","


def _told(source: OneSource) -> str:
    """The format by the end of a file's name. Parts are of datasets."""
    if isinstance(source, DatasetPart):
        return TFRECORD
    name = _plain(os.fspath(source))
    return next((form for suffix, form in _SUFFIXES.items() if name.endswith(suffix)), TFRECORD)


def _plain(name: str) -> str:
    if name.startswith(("http://", "https://")):  # in other names ? is a part of a pattern
        name = name.partition("?")[0]
    return name.lower()


# The bytes of one file of a source, and errors that name the file.


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

"""Arrays and images as tables: NumPy's files, and a folder of images with a folder for each
class.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import counted
from tfio_store.dataset.model import MEMORY_BUDGET, Dataset
from tfio_store.example.feature import Feature
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import unknown, warn
from tfio_store.storage import Storage, Version
from tfio_store.storage.local import LocalStore
from tfio_store.storage.read_ahead import Fetch, ReadAhead
from tfio_store.storage.store import ObjectInfo, StoredFile


def check_columns(columns: Sequence[str] | None, names: Collection[str]) -> None:
    """ValueError unless there are such columns."""
    for name in columns or ():
        if name not in names:
            raise ValueError(unknown("column", name, names))


# NumPy's files, .npy and .npz, read in pieces of rows.


_BYTES = 16 << 20
"""A table holds so many at most, but at least one row."""

_BUFFER = 1 << 20
_NPY = ".npy"

_LARGEST = 256 << 20
"""A row has no more bytes, nor have arrays that are held whole, unless the file itself has: a
small file can inflate to any size."""
_LONGEST_HEADER = 64 << 10

_MOST_EMPTY = 1 << 20
"""So many rows may have no bytes at all: the end of the file does not bound what its header claims.
"""


def read_arrays(dataset: Dataset, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """The rows of all files, some at a time. The column of a .npy file is named "array".

    ValueError for what is no such file, for Python objects, or arrays of different lengths.
    """
    for index, shard in enumerate(dataset.shards):
        store, path = dataset.open(index)
        stored = io.BufferedReader(StoredFile(store, path, shard.nbytes, shard.version), _BUFFER)
        try:
            with ExitStack() as open_files:
                room = _Room(max(_LARGEST, shard.nbytes or 0))
                yield from _rows(_arrays(stored, open_files, columns, room))
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise ValueError(f"{shard.url}: cannot be read as numpy: {error}") from error


class _Room:
    """How many bytes the arrays of a file may still take: for one row of each, and for those that
    are held whole."""

    def __init__(self, most: int) -> None:
        self._rows = min(most, DEFAULT_MAX_RECORD_BYTES)
        self._whole = most

    def take_row(self, nbytes: int) -> None:
        self._rows -= nbytes
        if self._rows < 0:
            raise ValueError(f"a row has {nbytes:,} bytes or more, too many for a record")

    def take_whole(self, nbytes: int) -> None:
        self._whole -= nbytes
        if self._whole < 0:
            raise ValueError(
                f"an array of {nbytes:,} bytes is stored by columns, and inflates to too much to "
                "be held whole; save np.ascontiguousarray of it, or save it uncompressed"
            )


class _Array:
    """One array, whose rows are read in turn."""

    def __init__(self, file: IO[bytes], room: _Room) -> None:
        shape, by_columns, self._dtype = _header(file)
        if self._dtype.hasobject:
            raise ValueError("Python objects are not read, since that runs code of the file")
        if not shape:
            raise ValueError("an array without a dimension has no rows")
        if min(shape) < 0:
            raise ValueError(f"an array of shape {shape} has a negative dimension")
        self.rows, self._row_shape = shape[0], shape[1:]
        self.row_nbytes = self._dtype.itemsize * int(np.prod(self._row_shape, dtype=object))
        room.take_row(self.row_nbytes)
        self._file = file
        self._whole: npt.NDArray[Any] | None = None
        if by_columns and len(shape) > 1:  # whose rows lie apart
            room.take_whole(self.rows * self.row_nbytes)
            self._whole = self._values(self.rows).reshape(shape, order="F")
        self._at = 0

    def take(self, rows: int) -> npt.NDArray[Any]:
        """The next rows."""
        self._at += rows
        if self._whole is not None:
            return np.ascontiguousarray(self._whole[self._at - rows : self._at])
        return self._values(rows).reshape(rows, *self._row_shape)

    def _values(self, rows: int) -> npt.NDArray[Any]:
        wanted = rows * self.row_nbytes
        data = bytearray()
        while len(data) < wanted:  # a header may claim more than there is
            piece = self._file.read(min(wanted - len(data), _BYTES))
            if not piece:
                raise EOFError("it ends within an array")
            data += piece
        return np.frombuffer(data, self._dtype)


def _header(file: IO[bytes]) -> Any:
    """Shape, whether it is stored by columns, and dtype. NumPy itself reads a header of any length
    before it refuses it."""
    first = np.lib.format.read_magic(file) == (1, 0)
    head = file.read(2 if first else 4)
    length = int.from_bytes(head, "little")
    if length > _LONGEST_HEADER:
        raise ValueError(f"a header has {length:,} bytes, and at most {_LONGEST_HEADER:,} are read")
    whole = io.BytesIO(head + file.read(length))
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    try:
        return read(whole)
    except (ValueError, MemoryError):
        raise
    except Exception as error:  # NumPy reads it as Python's text, whose parser has many errors
        raise ValueError(f"its header cannot be read: {error}") from error


def _arrays(
    file: io.BufferedReader[Any],
    open_files: ExitStack,
    columns: Sequence[str] | None,
    room: _Room,
) -> dict[str, _Array]:
    if file.peek(2)[:2] != b"PK":
        check_columns(columns, ["array"])
        return {"array": _Array(file, room)}
    packed = open_files.enter_context(zipfile.ZipFile(file))
    names = [name[: -len(_NPY)] for name in packed.namelist() if name.endswith(_NPY)]
    check_columns(columns, names)
    return {
        name: _Array(open_files.enter_context(packed.open(f"{name}{_NPY}")), room)
        for name in (names if columns is None else columns)
    }


def _rows(arrays: dict[str, _Array]) -> Iterator[dict[str, Any]]:
    lengths = {name: array.rows for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"arrays must have the same number of rows: {each}")
    rows = max(lengths.values(), default=0)
    row_nbytes = sum(array.row_nbytes for array in arrays.values())
    if not row_nbytes and rows > _MOST_EMPTY:
        raise ValueError(f"it claims {rows:,} rows without a value, and holds none of them")
    step = max(1, _BYTES // max(1, row_nbytes))
    for start in range(0, max(rows, 1), step):  # without rows there are columns all the same
        now = min(step, rows - start)
        yield {name: array.take(now) for name, array in arrays.items()}


# A folder of images, those of each class in a folder of its name.


_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
_IMAGES, _IMAGE_BYTES = 1024, 16 << 20
"""A table holds so many at most."""


class ImageFolder:
    """The images below a folder, in the order of their paths.

    ``features`` are "image", "path" below the folder, and "label" if there are folders of classes.

    Raises:
        FileNotFoundError: there is no image.
        ValueError: some images are in folders of classes, and others are not.
    """

    def __init__(self, url: str | os.PathLike[str], storage: Storage | None) -> None:
        self._store, folder = (storage or Storage()).open(url)
        self._folder = folder.rstrip("/") + "/"
        listed = [each for each in self._store.list(folder) if not self._is_hidden(each)]
        self._images = [each for each in listed if each.path.lower().endswith(_SUFFIXES)]
        if isinstance(self._store, LocalStore):
            self._check_links()
        shown = self._store.url(folder)
        if not self._images:
            raise FileNotFoundError(f"{shown}: there is no image ({', '.join(_SUFFIXES)}) in it")
        if len(listed) > len(self._images):
            others = counted(len(listed) - len(self._images), "file")
            warn(f"{shown}: {others} of other kinds than images left out")
        found = {self._class_of(each) for each in self._images}
        if "" in found and len(found) > 1:
            raise ValueError(f"{shown}: some images are in folders of classes, and others are not")
        self._classes = {name: number for number, name in enumerate(sorted(found - {""}))}
        self.features = {"image": Feature.image(), "path": Feature("str", ())}
        if self._classes:
            self.features["label"] = Feature.class_label(list(self._classes))

    def tables(self) -> Iterator[dict[str, Any]]:
        """Columns of some images at a time."""
        table: dict[str, list[Any]] = {name: [] for name in self.features}
        nbytes = 0
        with closing(ReadAhead(map(self._fetch, self._images), budget=MEMORY_BUDGET)) as ahead:
            for fetch, data in ahead:
                table["image"].append(bytes(data))
                table["path"].append(fetch.path[len(self._folder) :])
                if self._classes:
                    table["label"].append(self._classes[self._class_of(fetch.tag)])
                nbytes += fetch.cost
                if nbytes >= _IMAGE_BYTES or len(table["path"]) >= _IMAGES:
                    yield table
                    table, nbytes = {name: [] for name in self.features}, 0
        if table["path"]:
            yield table

    def _check_links(self) -> None:
        """ValueError for a link out of the folder: whoever gave the folder would choose what else
        of this machine is read. And for one to a folder, which no listing follows."""
        inside = os.path.join(os.path.realpath(self._folder), "")
        links = [each.path for each in self._images if os.path.islink(each.path)]
        for link in links:
            if not os.path.realpath(link).startswith(inside):
                raise ValueError(
                    f"{self._store.url(link)}: is a link that leads out of the folder; copy the "
                    "folder with cp -rL, which puts files in place of links"
                )
        for where, folders, _ in os.walk(self._folder):
            folders[:] = [name for name in folders if not name.startswith((".", "_"))]
            for name in folders:
                if os.path.islink(os.path.join(where, name)):
                    raise ValueError(
                        f"{self._store.url(os.path.join(where, name))}: is a link to a folder, "
                        "which is not followed; copy the folder with cp -rL, which puts files in "
                        "place of links"
                    )

    def _fetch(self, image: ObjectInfo) -> Fetch[ObjectInfo]:
        size, store = image.size, self._store
        if size > DEFAULT_MAX_RECORD_BYTES:
            raise ValueError(f"{store.url(image.path)}: {size} bytes are too many for a record")
        return Fetch(store, image.path, 0, size, image, size, Version(image.etag))

    def _class_of(self, image: ObjectInfo) -> str:
        return image.path[len(self._folder) :].rpartition("/")[0].partition("/")[0]

    def _is_hidden(self, each: ObjectInfo) -> bool:
        parts = each.path[len(self._folder) :].split("/")
        return any(part.startswith((".", "_")) for part in parts)

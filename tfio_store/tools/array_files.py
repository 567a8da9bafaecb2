"""NumPy's files, .npy and .npz, read in pieces of rows."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.model import Dataset
from tfio_store.storage.stored_file import StoredFile

__all__ = ["read_arrays"]

_BYTES = 16 << 20
"""A table holds so many at most, but at least one row."""

_BUFFER = 1 << 20
_NPY = ".npy"


def read_arrays(dataset: Dataset, columns: Sequence[str] | None) -> Iterator[dict[str, Any]]:
    """The rows of all files, some at a time. The column of a .npy file is named "array".

    ValueError for what is no such file, for Python objects, or arrays of different lengths.
    """
    for index, shard in enumerate(dataset.shards):
        store, path = dataset.open(index)
        stored = io.BufferedReader(StoredFile(store, path, shard.nbytes, shard.version), _BUFFER)
        try:
            with ExitStack() as open_files:
                yield from _rows(_arrays(stored, open_files, columns))
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise ValueError(f"{shard.url}: cannot be read as numpy: {error}") from error


class _Array:
    """One array, whose rows are read in turn."""

    def __init__(self, file: IO[bytes]) -> None:
        version = np.lib.format.read_magic(file)
        read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
            version, np.lib.format.read_array_header_2_0
        )
        shape, by_columns, self._dtype = read(file)
        if self._dtype.hasobject:
            raise ValueError("Python objects are not read, since that runs code of the file")
        if not shape:
            raise ValueError("an array without a dimension has no rows")
        self.rows, self._row_shape = shape[0], shape[1:]
        self.row_nbytes = self._dtype.itemsize * int(np.prod(self._row_shape, dtype=object))
        self._file = file
        self._whole: npt.NDArray[Any] | None = None
        if by_columns and len(shape) > 1:  # whose rows lie apart
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
        while len(data) < wanted:  # a header may tell of more than there is
            piece = self._file.read(min(wanted - len(data), _BYTES))
            if not piece:
                raise EOFError("it ends within an array")
            data += piece
        return np.frombuffer(data, self._dtype)


def _arrays(
    file: io.BufferedReader[Any], open_files: ExitStack, columns: Sequence[str] | None
) -> dict[str, _Array]:
    if file.peek(2)[:2] != b"PK":
        _check(columns, ["array"])
        return {"array": _Array(file)}
    packed = open_files.enter_context(zipfile.ZipFile(file))
    names = [name[: -len(_NPY)] for name in packed.namelist() if name.endswith(_NPY)]
    _check(columns, names)
    return {
        name: _Array(open_files.enter_context(packed.open(f"{name}{_NPY}")))
        for name in (names if columns is None else columns)
    }


def _check(columns: Sequence[str] | None, names: list[str]) -> None:
    for name in columns or ():
        if name not in names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(names)}")


def _rows(arrays: dict[str, _Array]) -> Iterator[dict[str, Any]]:
    lengths = {name: array.rows for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(f"arrays must have the same number of rows: {told}")
    rows = max(lengths.values(), default=0)
    widest = max((array.row_nbytes for array in arrays.values()), default=0)
    step = max(1, _BYTES // max(1, widest))
    for start in range(0, max(rows, 1), step):  # without rows there are columns all the same
        now = min(step, rows - start)
        yield {name: array.take(now) for name, array in arrays.items()}

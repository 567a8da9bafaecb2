"""`RecordSource`: any record of a source by its number."""

from __future__ import annotations

import operator
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import check_from_0, check_positive
from tfio_store.dataset.header_walk import index_raw_shards, with_idx
from tfio_store.dataset.model import CACHE_BUDGET, MEMORY_BUDGET, Dataset, Limits, facts_of
from tfio_store.dataset.source import Source, open_dataset, reached
from tfio_store.read.cursor import ReaderOrder
from tfio_store.read.decode import Decoding
from tfio_store.read.fetch import fetch_records
from tfio_store.read.plan import Units
from tfio_store.read.record_runs import UNKNOWN, Frames, frames_of
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.texts import html_table
from tfio_store.storage import Storage
from tfio_store.storage.cache.memory import MemoryCache
from tfio_store.storage.read_ahead import Means

__all__ = ["RecordSource", "is_number", "record_numbers"]


# Reads what stands between the brackets of a `RecordSource`: numpy's meanings, Python's errors.


_KINDS = "a record's number, a slice, a list or array of numbers, or a mask"


def is_number(index: Any) -> bool:
    """Whether this is one number (also as a 0-d array). TypeError if it is neither one nor
    several."""
    if isinstance(index, bool | np.bool_) or _is_mask(index, 0):
        raise TypeError(f"a source takes {_KINDS}, not one bool")
    if getattr(index, "ndim", 0) == 0:
        if hasattr(index, "__index__"):
            return True
        if not isinstance(index, Iterable) or isinstance(index, np.ndarray):
            raise TypeError(f"a source takes {_KINDS}, not {type(index).__name__}")
    if isinstance(index, str | bytes | bytearray | memoryview | Mapping):
        raise TypeError(f"a source takes {_KINDS}, not {type(index).__name__}")
    return False


def _is_mask(index: Any, ndim: int) -> bool:
    return getattr(index, "ndim", None) == ndim and str(index.dtype).endswith("bool")


def record_numbers(indices: Iterable[Any], size: int) -> Int64Array:
    """int64 [n]: the numbers from 0 to ``size`` - 1 that ``indices`` mean. A mask of ``size`` bools
    means the records where it is true; negative numbers count from the end.

    IndexError for a number that is none of ``size`` records, or a mask of another length.
    """
    values: Any = indices if hasattr(indices, "ndim") else list(indices)
    array = np.asarray(values, None if len(values) else np.int64)
    if array.ndim != 1:
        raise IndexError(f"a source has one dimension, and the indices have {array.ndim}")
    if array.dtype.kind == "b":
        if len(array) != size:
            raise IndexError(f"a mask of {len(array)} for a source of {size} records")
        return np.flatnonzero(array).astype(np.int64)
    if array.dtype.kind not in "iu":
        return _one_by_one(values, size)
    wrong = (array < -size) | (array >= size)
    if wrong.any():
        raise IndexError(f"there is no record {array[wrong][0]}: the source has {size} records")
    numbers = array.astype(np.int64)
    return np.where(numbers < 0, numbers + size, numbers)


def _one_by_one(values: Iterable[Any], size: int) -> Int64Array:
    """The same for objects, or numbers that no array holds. TypeError for what is no integer."""
    numbers = []
    for value in values:
        if isinstance(value, bool | np.bool_):
            raise TypeError("indices mix bools and other things; a mask holds bools only")
        number = operator.index(value)
        if not -size <= number < size:
            raise IndexError(f"there is no record {number}: the source has {size} records")
        numbers.append(number + size if number < 0 else number)
    return np.array(numbers, np.int64)


_STARTS_SHARE = 8
"""One of so many parts of the memory budget may hold the places of records of files without an
index."""

_ENTRY_BYTES = 128
"""Bytes that a record which is cached alone takes beside its own."""


class RecordSource(Sequence[bytes]):
    """The records of a source as a sequence.

    It has ``len``, ``[i]``, ``[i:j]``, ``[[i, j, k]]``, and ``[mask]`` with as many bools as there
    are records.

    A list of numbers is fetched in one round, many requests at a time, neighbours in one request.
    Where the index knows the places of records (see `ShardedWriter`), the bytes of the wanted
    records are read, and at most a fifth more. Elsewhere each of their blocks is read once. If no
    manifest knows the blocks, opening walks the headers of the files once; it then knows the
    records' places too. Numbers that go on where the last question ended, as in a loop, read whole
    blocks. A source is safe to use from several threads. It pickles as names and numbers, and a
    forked child makes its own connections. It serves as a PyTorch map-style dataset and as a Grain
    data source. ``repr`` distinguishes two sources by the names, sizes and records of their files.

    Args:
        source (str | PathLike | list): A path or URL, a glob, a dataset's prefix or folder with a
            manifest, or a list of these.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        index_dir (str | PathLike | None): See `RecordReader`. Default None.
        idx (list[str] | None): Text index files as DALI's ``tfrecord2idx`` writes them, one for
            each file of the source. They replace the walk. Default None.
        cache_bytes (int): Bytes of decoded blocks and single records to keep for later questions.
            Default 64 MiB.
        memory_budget (int): Bytes in flight while a list is fetched. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        threads (int | None): See `RecordReader`. Default None.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: A shard is a compressed stream that was not written in blocks, and `build_index`
            has not indexed it.
        CorruptRecordError: A header or a record is damaged. It gives path and offset.
        TruncatedRecordError: A file ends inside a record.
        RecordTooLargeError: A record is longer than ``max_record_bytes``.

    Example:
        >>> _ = tfs.write_table({"x": [10, 20, 30, 40]}, "train")
        >>> source = tfs.RecordSource("train")
        >>> len(source)
        4
        >>> tfs.decode_examples(source[[3, 0]], {"x": "int64"})["x"]
        array([40, 10])
    """

    def __init__(
        self,
        source: Source,
        *,
        compression: str | None = "auto",
        verify: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        index_dir: str | os.PathLike[str] | None = None,
        idx: Sequence[str] | None = None,
        cache_bytes: int = CACHE_BUDGET,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        threads: int | None = None,
    ) -> None:
        check_positive("memory_budget", memory_budget)
        limits = Limits(memory_budget, max_record_bytes)
        found = open_dataset(
            source,
            reached(source, storage_options, storage, index_dir),
            compression=compression,
            limits=limits,
        )
        if idx is not None:
            found = with_idx(found, idx)
        starts_bytes = memory_budget // _STARTS_SHARE
        dataset = index_raw_shards(found, limits, starts_bytes=starts_bytes)
        for number in dataset.shards.without_blocks():
            shard = dataset.shard(number)
            raise ValueError(
                f"{shard.url}: is one {shard.compression} stream, in which no record can be "
                "reached by its number; index it with tfio_store.build_index, or copy it with "
                "tfio_store.copy(), which compresses in blocks"
            )
        self._set(dataset, verify, cache_bytes, memory_budget, max_record_bytes, threads)

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        *,
        verify: bool = True,
        cache_bytes: int = CACHE_BUDGET,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        threads: int | None = None,
    ) -> RecordSource:
        """Make a source of a dataset that is resolved already, and whose blocks are known.

        Args:
            dataset (Dataset): The shards to read.
            verify (bool): See `RecordReader`. Default True.
            cache_bytes (int): See `RecordSource`. Default 64 MiB.
            memory_budget (int): See `RecordSource`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.
            threads (int | None): See `RecordReader`. Default None.

        Returns:
            RecordSource: Nothing has been read for it.

        Raises:
            ValueError: The blocks of a shard are not known.
        """
        check_positive("memory_budget", memory_budget)
        if not dataset.has_blocks:
            raise ValueError("the blocks of a shard are not known; index the dataset first")
        source = cls.__new__(cls)
        source._set(dataset, verify, cache_bytes, memory_budget, max_record_bytes, threads)
        return source

    def _set(
        self,
        dataset: Dataset,
        verify: bool,
        cache_bytes: int,
        memory_budget: int,
        max_record_bytes: int,
        threads: int | None,
    ) -> None:
        check_from_0("cache_bytes", cache_bytes)
        check_positive("memory_budget", memory_budget)
        if threads is not None:
            check_positive("threads", threads)
        self._dataset = dataset
        self._units = Units.of(dataset, streams=False)
        self._how = Decoding(verify, max_record_bytes)
        self._means = Means(memory_budget, threads)
        self._cache = MemoryCache(cache_bytes)
        """A block goes by its number, and a record that was read alone by the complement of its
        own."""
        self._next = UNKNOWN
        """The number behind the last one asked for."""

    @property
    def dataset(self) -> Dataset:
        """The shards and blocks that this source reads (Dataset)."""
        return self._dataset

    def __len__(self) -> int:
        return self._dataset.num_records or 0

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(
        self, index: slice | Sequence[int] | npt.NDArray[np.integer[Any] | np.bool_]
    ) -> list[bytes]: ...
    def __getitem__(self, index: Any) -> bytes | list[bytes]:
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        if is_number(index):
            return self.__getitems__((operator.index(index),))[0]
        return self.__getitems__(index)

    def __getitems__(self, indices: Iterable[SupportsIndex]) -> list[bytes]:
        """The records of ``indices``, in that order (what PyTorch's loader calls with a batch)."""
        numbers = record_numbers(indices, len(self))
        follows = self._follow(numbers)
        wanted, rows = np.unique(numbers, return_inverse=True)
        found = self._fetched(wanted, whole_blocks=follows)
        return [found[row] for row in rows.tolist()]

    _getitems = __getitems__
    """The method that Grain calls with a batch."""

    def _follow(self, numbers: Int64Array) -> bool:
        """Whether somebody reads on where the last question ended, as a loop does."""
        if not len(numbers):
            return False
        follows = int(numbers[0]) == self._next and bool((np.diff(numbers) == 1).all())
        self._next = int(numbers[-1]) + 1
        return follows

    def _fetched(self, wanted: Int64Array, *, whole_blocks: bool) -> list[bytes]:
        """The records of these numbers, which rise. ``whole_blocks``: none is read alone."""
        places = self._locate(wanted)
        records: list[bytes] = [b""] * len(wanted)
        missing: dict[int, range] = {}
        alone: list[int] = []
        for block, rows in _groups(places.blocks):
            batch = self._cache.get(block)
            if batch is not None:
                _fill(records, rows, batch, places)
            elif whole_blocks or _is_whole(rows, places):
                missing[block] = rows
            else:
                alone += [row for row in rows if not self._cached(records, row, int(wanted[row]))]
        blocks = list(missing)
        for located in fetch_records(
            self._units,
            np.array(blocks, np.int64),
            places.frames[np.array(alone, np.int64)],
            self._how,
            self._means,
        ):
            if located.position < len(blocks):
                block = blocks[located.position]
                batch = self._alone(block, located.batch)
                self._cache.put(block, batch, len(batch.buffer))
                _fill(records, missing[block], batch, places)
                continue
            first = located.position - len(blocks)
            for at, record in enumerate(located.batch, first):
                row = alone[at]
                records[row] = record
                self._cache.put(~int(wanted[row]), record, len(record) + _ENTRY_BYTES)
        return records

    def _alone(self, block: int, batch: RecordBatch) -> RecordBatch:
        """The block's batch in memory of its own. A raw block is part of what its request brought,
        and the cache would keep all of that."""
        shard, _ = self._units[block]
        if self._dataset.shard(shard).compression is not None:
            return batch
        return RecordBatch(bytes(batch.buffer), batch.offsets, batch.lengths)

    def _cached(self, records: list[bytes], row: int, number: int) -> bool:
        """Take a record that was read alone before, if it is still there."""
        record = self._cache.get(~number)
        if record is None:
            return False
        records[row] = record
        return True

    def _locate(self, numbers: Int64Array) -> _Places:
        shards, firsts = self._dataset.shards.shards_of(numbers)
        blocks, within, held = (np.zeros_like(numbers) for _ in range(3))
        spans = np.full((3, len(numbers)), UNKNOWN)
        wanted = np.unique(shards).tolist()
        for shard, table in zip(wanted, self._dataset.shards.tables(wanted), strict=True):
            mine = shards == shard
            rest = numbers[mine] - firsts[mine]
            block = np.searchsorted(table.records, rest, side="right") - 1
            blocks[mine] = block + self._units.first(shard)
            within[mine] = rest - table.records[block]
            held[mine] = table.records[block + 1] - table.records[block]
            spans[:, mine] = frames_of(table, rest, block)
        return _Places(blocks, within, held, Frames(shards, *spans))

    def __repr__(self) -> str:
        # Grain compares this when it restores a state, perhaps on a machine that has the files in
        # another folder. So it does not say where they lie.
        first = self._dataset.shard(0).url.rsplit("/", 1)[-1] if self._dataset.shards else "none"
        return f"<RecordSource of {self._dataset.held()}, {first}, {self._digest}>"

    def _repr_html_(self) -> str:
        return html_table("RecordSource", facts_of(self._dataset))

    @cached_property
    def _digest(self) -> str:
        """A digest of the names and sizes of the files, as in a reader's state, and of what a
        manifest says is in them: another generation may have the same names and sizes."""
        source = ReaderOrder(self._dataset, (), streams=False).source
        if self._dataset.shards.long:
            return source
        crcs = [self._dataset.shard(i).crc32c for i in range(len(self._dataset.shards))]
        return f"{source}-{zlib.crc32(repr(crcs).encode()):08x}" if any(crcs) else source


@dataclass(frozen=True, slots=True)
class _Places:
    """For each wanted record: its block's number, its place in that block, how many records the
    block holds, and the record's frame."""

    blocks: Int64Array
    within: Int64Array
    held: Int64Array
    frames: Frames


def _groups(blocks: Int64Array) -> Iterator[tuple[int, range]]:
    """Each of the blocks, which rise, and the rows that are in it."""
    cuts = np.flatnonzero(np.diff(blocks)) + 1
    bounds = [0, *cuts.tolist(), len(blocks)] if len(blocks) else [0]
    for start, stop in pairwise(bounds):
        yield int(blocks[start]), range(start, stop)


def _is_whole(rows: range, places: _Places) -> bool:
    """Whether a block is fetched as such: its records' places are not known, or all are wanted."""
    if places.frames.starts[rows.start] == UNKNOWN:
        return True
    return len(rows) == int(places.held[rows.start])


def _fill(records: list[bytes], rows: range, batch: RecordBatch, places: _Places) -> None:
    for row in rows:
        records[row] = batch[int(places.within[row])]

"""`RecordSource`: any record of a source by its number."""

from __future__ import annotations

import operator
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.header_walk import index_raw_shards, with_idx
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.read.fetch import fetch_blocks
from tfio_store.read.located import Decoding
from tfio_store.read.plan import Units
from tfio_store.read.record_numbers import is_number, record_numbers
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Access, Retry

__all__ = ["RecordSource"]


class RecordSource(Sequence[bytes]):
    """The records of a source as a sequence.

    It has ``len``, ``[i]``, ``[i:j]``, ``[[i, j, k]]``, and ``[mask]`` with as many bools as there
    are records.

    A list of numbers is fetched in one round: each block once, neighbouring blocks in one request,
    many requests at a time. If no manifest knows the blocks, opening walks the headers of the files
    once. A source is safe to use from several threads. It pickles as names and numbers, and a
    forked child makes its own connections. It serves as a PyTorch map-style dataset and as a Grain
    data source.

    Args:
        source (str | PathLike | list): A path or URL, a glob, a dataset's prefix or folder with a
            manifest, or a list of these.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        idx (list[str] | None): Text index files as DALI's ``tfrecord2idx`` writes them, one for
            each file of the source. They replace the walk. Default None.
        cache_bytes (int): Bytes of decoded blocks to keep for later questions. Default 64 MiB.
        memory_budget (int): Bytes in flight while a list is fetched. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: A shard is a compressed stream that was not written in blocks.
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
        idx: Sequence[str] | None = None,
        cache_bytes: int = 64 << 20,
        memory_budget: int = 256 << 20,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        retry: Retry | None = None,
        backend: str = "fsspec",
    ) -> None:
        found = open_dataset(
            source, Access(storage_options, retry, backend), compression=compression
        )
        if idx is not None:
            found = with_idx(found, idx)
        dataset = index_raw_shards(
            found, memory_budget=memory_budget, max_record_bytes=max_record_bytes
        )
        for shard in dataset.shards:
            if shard.blocks is None:
                raise ValueError(
                    f"{shard.url}: is one {shard.compression} stream, in which no record can be "
                    "reached by its number; copy it with ShardedWriter, which compresses in blocks"
                )
        self._dataset = dataset
        self._units = Units(dataset, streams=False)
        self._verify = verify
        self._memory_budget = memory_budget
        self._max_record_bytes = max_record_bytes
        self._cache = _BlockCache(cache_bytes)

    @property
    def dataset(self) -> Dataset:
        """The shards and blocks that this source reads (Dataset)."""
        return self._dataset

    def __len__(self) -> int:
        return int(self._dataset.record_starts[-1])

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
        blocks, within = self._locate(numbers)
        records: list[bytes] = [b""] * len(numbers)
        order = np.argsort(blocks, kind="stable")
        wanted, starts = np.unique(blocks[order], return_index=True)
        asked = np.split(order, starts[1:])
        by_block = (
            {int(block): rows for block, rows in zip(wanted, asked, strict=True)}
            if len(order)
            else {}
        )
        for block, batch in self._batches(sorted(by_block)):
            for row in by_block[block]:
                records[row] = batch[int(within[row])]
        return records

    def _locate(
        self, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """For each record number: its block's number, and its place in that block."""
        starts = self._dataset.record_starts
        shards = np.searchsorted(starts, numbers, side="right") - 1
        blocks, within = np.zeros_like(numbers), np.zeros_like(numbers)
        for shard in np.unique(shards):
            table = self._dataset.shards[shard].blocks
            assert table is not None
            mine = shards == shard
            rest = numbers[mine] - starts[shard]
            block = np.searchsorted(table.records, rest, side="right") - 1
            blocks[mine] = block + self._units.starts[shard]
            within[mine] = rest - table.records[block]
        return blocks, within

    def _batches(self, numbers: list[int]) -> Iterator[tuple[int, RecordBatch]]:
        """The blocks of these numbers: first the cached ones, then the rest, fetched together."""
        missing = []
        for number in numbers:
            batch = self._cache.get(number)
            if batch is None:
                missing.append(number)
            else:
                yield number, batch
        how = Decoding(self._verify, self._max_record_bytes)
        wanted = np.array(missing, np.int64)
        for located in fetch_blocks(self._units, wanted, how, budget=self._memory_budget):
            number, batch = missing[located.position], _alone(located.batch)
            self._cache.put(number, batch)
            yield number, batch

    def __repr__(self) -> str:
        return f"<RecordSource of {len(self)} records in {len(self._dataset.shards)} shards>"


def _alone(batch: RecordBatch) -> RecordBatch:
    """Give the batch memory of its own, if it is part of more. Otherwise the cache would keep all
    of that."""
    whole = memoryview(batch.buffer).obj
    if len(memoryview(whole)) <= len(batch.buffer):
        return batch
    return RecordBatch(bytes(batch.buffer), batch.offsets, batch.lengths)


class _BlockCache:
    """The decoded blocks used last, up to a number of bytes. It pickles empty. Each process has its
    own."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._clear()

    def _clear(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._batches: OrderedDict[int, RecordBatch] = OrderedDict()
        self._nbytes = 0

    def get(self, number: int) -> RecordBatch | None:
        if self._pid != os.getpid():
            self._clear()  # another thread of the parent may have held the lock
        with self._lock:
            batch = self._batches.get(number)
            if batch is not None:
                self._batches.move_to_end(number)
            return batch

    def put(self, number: int, batch: RecordBatch) -> None:
        with self._lock:
            if number in self._batches:
                return
            self._batches[number] = batch
            self._nbytes += len(batch.buffer)
            while self._nbytes > self._limit and self._batches:
                _, dropped = self._batches.popitem(last=False)
                self._nbytes -= len(dropped.buffer)

    def __reduce__(self) -> tuple[Any, ...]:
        return _BlockCache, (self._limit,)

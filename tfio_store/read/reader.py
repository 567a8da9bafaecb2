"""`RecordReader`: every record of a source, in order or shuffled, resumable, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.source import Source, open_dataset
from tfio_store.read.file_object import FileStream, is_file_object
from tfio_store.read.order import Share, Shuffle
from tfio_store.read.position import Position
from tfio_store.read.route import Route
from tfio_store.read.skips import OnCorrupt
from tfio_store.read.traversal import Options, Traversal
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch, RecordIterator
from tfio_store.storage import Access, Retry

__all__ = ["OnCorrupt", "RecordReader"]

DEFAULT_MEMORY_BUDGET = 256 << 20


class RecordReader:
    """Iterates the records of a source as ``bytes``; `batches` gives them without a copy.

    A reader is a cursor, like a file: iterating it again goes on behind the last record, and at
    the end of the data it stands at the beginning of the next epoch, so that each whole ``for`` is
    an epoch. All of its iterators, of records and of batches, move that one cursor: together they
    give each record once, go on from where `restore` puts them, and end where the epoch does.
    After `close` they raise ValueError, as a file's do. One thread at a time. A reader pickles
    with its cursor, and works on in a forked child.

    Args:
        source: a path or URL, a glob, a dataset's prefix or folder with a manifest, a list of
            those, or an open binary file object, which is read from where it stands and not
            closed.
        compression: "auto" goes by the first bytes of each file, never by its name; or None,
            "GZIP", "ZLIB", "ZSTD".
        verify: check each record's data CRC. (The CRC of its length is always checked.)
        on_corrupt: "raise"; "skip" to lose the damaged bytes only, counted in `skipped`, with one
            `DataLossWarning` for each file, and an error for a file in which nothing can be read;
            or a function that is called with each `SkippedRegion`, and then nothing else is said.
        storage_options: passed to the storage, as everywhere in fsspec.
        memory_budget: bytes that may be in flight, wait to be decoded, or be held for shuffling.
        max_record_bytes: longer records are refused before anything is allocated for them.
        retry: how often and how patiently passing faults of the storage are tried again.
        backend: "fsspec" or "obstore".

    Raises:
        FileNotFoundError, PermissionError, …: by the storage, naming the URL.
        CorruptRecordError, TruncatedRecordError: while iterating, with the path and the offset in
            the uncompressed stream.
        RecordTooLargeError: likewise.
    """

    def __init__(
        self,
        source: Source | BinaryIO,
        *,
        compression: str | None = "auto",
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        storage_options: Mapping[str, Any] | None = None,
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        retry: Retry | None = None,
        backend: str = "fsspec",
    ) -> None:
        options = Options(verify, _check_policy(on_corrupt), memory_budget, max_record_bytes)
        if is_file_object(source):
            file = FileStream(source, compression)
            self._set(file.dataset, options, Position(), file)
            return
        dataset = open_dataset(
            source, Access(storage_options, retry, backend), compression=compression
        )
        self._set(dataset, options, Position())

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = DEFAULT_MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        start: Position | None = None,
    ) -> RecordReader:
        """A reader of a dataset that is resolved already, from ``start`` on."""
        options = Options(verify, _check_policy(on_corrupt), memory_budget, max_record_bytes)
        return cls._made(dataset, options, start or Position())

    @classmethod
    def _made(cls, dataset: Dataset, options: Options, cursor: Position) -> RecordReader:
        reader = cls.__new__(cls)
        reader._set(dataset, options, cursor)
        return reader

    def _set(
        self,
        dataset: Dataset,
        options: Options,
        cursor: Position,
        file: FileStream | None = None,
    ) -> None:
        self._dataset = dataset
        self._options = options
        skip_damage = options.on_corrupt != "raise"
        self._route = Route(dataset, options.steps, streams=not options.steps or skip_damage)
        self._file = file
        self._way = Traversal(self._route, options, cursor, file)
        self._begin_records()

    def _begin_records(self) -> None:
        self._batches = _Batches(self._way)
        self._records = RecordIterator(self._batches)

    @property
    def skipped(self) -> int:
        """Regions passed over so far."""
        return self._way.skips.count

    # Order and sharing

    def shard(self, index: int, count: int) -> RecordReader:
        """A reader of every ``count``-th block from ``index`` on: all ``count`` of them together
        give each record once, and differ by at most one block. A stream that cannot be cut counts
        as one block."""
        return self._with_step(Share(index, count))

    def shuffle(self, seed: int, *, epoch: int = 0, window: int = 16) -> RecordReader:
        """A reader of the blocks in an order that depends on ``seed`` and epoch alone, the records
        of neighbouring blocks (about a MiB each) shuffled in memory, ``window`` MiB at a time.

        Each full iteration begins the next epoch. Before `shard`, workers get other blocks each
        epoch. Two windows must fit into the memory budget, else ValueError.
        """
        shuffled = self._with_step(Shuffle(seed, window), epoch)
        most = shuffled._route.window_most()
        if 2 * most > self._options.memory_budget:
            raise ValueError(
                f"window={window} takes up to {most >> 20} MiB of this source's records, two at a "
                f"time, and memory_budget= allows {self._options.memory_budget >> 20} MiB in all: "
                "pass a smaller window= or a larger memory_budget="
            )
        return shuffled

    def _with_step(self, step: Share | Shuffle, epoch: int | None = None) -> RecordReader:
        if self._file is not None:
            raise ValueError(
                "source= is a file object: only sources named by path can be cut into blocks"
            )
        options = self._options
        dataset = index_raw_shards(
            self._dataset,
            memory_budget=options.memory_budget,
            max_record_bytes=options.max_record_bytes,
        )
        epoch = options.epoch if epoch is None else epoch
        options = replace(options, steps=(*options.steps, step), epoch=epoch)
        return RecordReader._made(dataset, options, Position(epoch=epoch))

    # Iterating

    def __iter__(self) -> Iterator[bytes]:
        self._way.check_open()
        if self._batches.ended:
            self._begin_records()
        return self._records

    def batches(self) -> Iterator[RecordBatch]:
        """The records as batches. What `__iter__` has not used of its batch comes first."""
        self._way.check_open()
        return _RestFirst(self)

    # Coming back

    def state(self) -> dict[str, Any]:
        """Where the reader stands, as a small dict that JSON can hold. `restore` goes on with the
        very next record, in any process, whatever the memory budget there."""
        return self._stands_at().to_json(self._route)

    def _stands_at(self) -> Position:
        """Behind the last record that was given out, which may be in the midst of a batch."""
        current, records = self._way.current, self._records
        if current is not None and records.batch is current.batch:
            return self._way.position.at(current, records.position)
        return self._way.position

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to where `state` was taken. ValueError if that was another source or order."""
        self._way.check_open()
        cursor = Position.from_json(state, self._route)
        self._leave(cursor)

    def _leave(self, cursor: Position) -> None:
        """Give up what is in flight, and what is left of the batch that records are given from."""
        self._way.stop()
        self._records.take_rest()
        self._way.position = cursor

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is not None:
            raise TypeError(
                "a reader of an open file object does not pickle; name the file by its path"
            )
        return _rebuild, (self._dataset, self._options, self.state())

    # Ending

    def close(self) -> None:
        """Give up what is in flight. Idempotent. `state` still tells where the reader stood."""
        self._leave(self._stands_at())
        self._way.close()

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Batches(Iterator[RecordBatch]):
    """The batches to the end of the epoch. No generator, which an error would end early."""

    def __init__(self, way: Traversal) -> None:
        self._way = way
        self._pass = way.passes

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended, whoever has read the last of it."""
        return self._pass != self._way.passes

    def __next__(self) -> RecordBatch:
        batch = None if self.ended else self._way.next_batch()
        if batch is None:
            raise StopIteration
        return batch


class _RestFirst(Iterator[RecordBatch]):
    """Those batches, but first of all what the reader's record iterator has left of its own."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader = reader
        self._batches = _Batches(reader._way)

    def __next__(self) -> RecordBatch:
        rest = None if self._batches.ended else self._reader._records.take_rest()
        return next(self._batches) if rest is None else rest


def _rebuild(dataset: Dataset, options: Options, state: dict[str, Any]) -> RecordReader:
    reader = RecordReader._made(dataset, options, Position())
    reader.restore(state)
    return reader


def _check_policy(on_corrupt: OnCorrupt) -> OnCorrupt:
    if on_corrupt in ("raise", "skip") or callable(on_corrupt):
        return on_corrupt
    raise ValueError(f'on_corrupt= takes "raise", "skip" or a function, not {on_corrupt!r}')

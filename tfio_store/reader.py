"""`RecordReader`: every record of a source, in order or shuffled, resumable, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from tfio_store.dataset import Dataset
from tfio_store.decode import Decoding, Located, decode
from tfio_store.fetch import ReadAhead
from tfio_store.file_object import FileStream, is_file_object
from tfio_store.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch, RecordIterator
from tfio_store.indexing import index_raw_shards
from tfio_store.order import Order, Share, Shuffle, rearrange
from tfio_store.plan import Piece, Units, fetches
from tfio_store.position import Position
from tfio_store.recovery import SkippedRegion
from tfio_store.shuffle import shuffled
from tfio_store.source import Source, open_dataset
from tfio_store.storage import Retry

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["OnCorrupt", "RecordReader"]

OnCorrupt: TypeAlias = "str | Callable[[SkippedRegion], None]"

DEFAULT_MEMORY_BUDGET = 256 << 20


@dataclass(frozen=True, slots=True)
class _Options:
    """What a reader was asked for; with the dataset, all that its pickle holds."""

    verify: bool
    on_corrupt: OnCorrupt
    memory_budget: int
    max_record_bytes: int
    steps: tuple[Share | Shuffle, ...] = ()
    epoch: int = 0


class RecordReader:
    """Iterates the records of a source as ``bytes``; `batches` gives them without a copy.

    A reader is a cursor, like a file: iterating it again goes on behind the last record, and at
    the end of the data it stands at the beginning of the next epoch, so that each whole ``for`` is
    an epoch. One thread at a time. It pickles with its cursor, and works on in a forked child.

    Args:
        source: a path or URL, a glob, a dataset's prefix or folder with a manifest, a list of
            those, or an open binary file object, which is read from where it stands and not
            closed.
        compression: "auto" goes by the first bytes of each file, never by its name; or None,
            "GZIP", "ZLIB", "ZSTD".
        verify: check each record's data CRC. (The CRC of its length is always checked.)
        on_corrupt: "raise"; "skip" to lose the damaged bytes only, counted in `skipped`; or a
            function that is called with each `SkippedRegion`.
        storage_options: passed to the storage, as everywhere in fsspec.
        memory_budget: bytes that may be in flight or wait to be decoded.
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
        options = _Options(verify, _check_policy(on_corrupt), memory_budget, max_record_bytes)
        if is_file_object(source):
            file = FileStream(source, compression)
            self._set(file.dataset, options, Position(), file)
            return
        dataset = open_dataset(
            source,
            compression=compression,
            storage_options=storage_options,
            retry=retry,
            backend=backend,
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
    ) -> RecordReader:
        """A reader of a dataset that is resolved already."""
        options = _Options(verify, _check_policy(on_corrupt), memory_budget, max_record_bytes)
        return cls._made(dataset, options, Position())

    @classmethod
    def _made(cls, dataset: Dataset, options: _Options, cursor: Position) -> RecordReader:
        reader = cls.__new__(cls)
        reader._set(dataset, options, cursor)
        return reader

    def _set(
        self,
        dataset: Dataset,
        options: _Options,
        cursor: Position,
        file: FileStream | None = None,
    ) -> None:
        self._dataset = dataset
        self._options = options
        self._file = file
        self._cursor = cursor
        self._closed = False
        self._pipeline: Iterator[Located] | None = None
        self._pid = os.getpid()
        self._current: Located | None = None
        self._records: RecordIterator | None = None
        self.skipped = 0
        """Regions passed over so far."""

    # Order and sharing

    def shard(self, index: int, count: int) -> RecordReader:
        """A reader of every ``count``-th block from ``index`` on: all ``count`` of them together
        give each record once, and differ by at most one block. A stream that cannot be cut counts
        as one block."""
        return self._with_step(Share(index, count))

    def shuffle(self, seed: int, *, epoch: int = 0, window: int = 16) -> RecordReader:
        """A reader of the blocks in an order that depends on ``seed`` and epoch alone, the records
        of ``window`` neighbouring blocks (about a MiB each) shuffled in memory.

        Each full iteration begins the next epoch. Before `shard`, workers get other blocks each
        epoch.
        """
        return self._with_step(Shuffle(seed, window), epoch)

    def _with_step(self, step: Share | Shuffle, epoch: int | None = None) -> RecordReader:
        if self._file is not None:
            raise ValueError(
                "source= is a file object: only sources named by path can be cut into blocks"
            )
        dataset = index_raw_shards(self._dataset, memory_budget=self._options.memory_budget)
        epoch = self._options.epoch if epoch is None else epoch
        options = replace(self._options, steps=(*self._options.steps, step), epoch=epoch)
        return RecordReader._made(dataset, options, Position(epoch=epoch))

    # Iterating

    def __iter__(self) -> Iterator[bytes]:
        self._check_open()
        if self._records is None:
            self._records = RecordIterator(_Batches(self))
        return self._records

    def batches(self) -> Iterator[RecordBatch]:
        """The records as batches. What `__iter__` has not used of its batch comes first."""
        self._check_open()
        if self._records is not None:
            batch, at = self._records.batch, self._records.position
            self._records = None
            if batch is not None and at < len(batch):
                yield batch[at:]
        yield from _Batches(self)

    def _next_batch(self) -> RecordBatch | None:
        """The next batch from the cursor on, which moves past it; None at the end of the epoch."""
        if self._pipeline is None or self._pid != os.getpid():
            self._pipeline, self._pid = self._start(), os.getpid()
        try:
            located = next(self._pipeline, None)
        except BaseException:
            self._stop()  # whoever asks again meets the same fault again, not an early end
            raise
        if located is None:
            self._stop()
            self._records = None
            self._cursor = Position(epoch=self._cursor.epoch + 1)
            return None
        self._current = located
        self._cursor = self._cursor.at(located, len(located.batch))
        return located.batch

    def _start(self) -> Iterator[Located]:
        """The pipeline from the cursor on."""
        options, cursor = self._options, self._cursor
        how = Decoding(options.verify, options.max_record_bytes, self._on_skip())
        skip_damage = how.on_skip is not None
        units = Units(self._dataset, streams=not options.steps or skip_damage)
        order = rearrange(len(units), options.steps, cursor.epoch)
        pieces = self._pieces(units, order, cursor)
        located = decode(self._dataset, pieces, how)
        shuffles = [step for step in options.steps if isinstance(step, Shuffle)]
        if shuffles:
            located = shuffled(
                located,
                shuffles[-1],
                epoch=cursor.epoch,
                is_stream=lambda position: units[int(order[position])].block is None,
            )
        return cursor.resume(located)

    def _pieces(
        self, units: Units, order: Order, cursor: Position
    ) -> Iterator[tuple[Piece, BytesLike]]:
        if self._file is not None:
            yield from self._file.pieces(cursor.offset)
            return
        ranges = fetches(
            self._dataset, units, order, position=cursor.position, start=cursor.offset or 0
        )
        budget = self._options.memory_budget
        with closing(ReadAhead(ranges, budget=budget)) as ahead:
            for fetch, data in ahead:
                yield fetch.tag, data

    def _on_skip(self) -> Callable[[SkippedRegion], None] | None:
        policy = self._options.on_corrupt
        if policy == "raise":
            return None

        def note(region: SkippedRegion) -> None:
            self.skipped += 1
            if callable(policy):
                policy(region)

        return note

    # Coming back

    def state(self) -> dict[str, Any]:
        """Where the reader stands, as a small dict that JSON can hold. `restore` goes on with the
        very next record, in any process, whatever the memory budget there."""
        cursor, current, records = self._cursor, self._current, self._records
        if records is not None and current is not None and records.batch is current.batch:
            cursor = cursor.at(current, records.position)
        return cursor.to_json(self._dataset)

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go to where `state` was taken. ValueError if that was another source or order."""
        self._check_open()
        cursor = Position.from_json(state, self._dataset)
        self._stop()
        self._records = None
        self._cursor = cursor

    def __reduce__(self) -> tuple[Any, ...]:
        if self._file is not None:
            raise TypeError(
                "a reader of an open file object does not pickle; name the file by its path"
            )
        return _rebuild, (self._dataset, self._options, self.state())

    # Ending

    def close(self) -> None:
        """Give up what is in flight. Idempotent."""
        self._stop()
        self._closed = True

    def _stop(self) -> None:
        pipeline, self._pipeline, self._current = self._pipeline, None, None
        if pipeline is not None and self._pid == os.getpid():
            pipeline.close()  # type: ignore[attr-defined]

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the reader is closed")

    def __enter__(self) -> RecordReader:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Batches(Iterator[RecordBatch]):
    """A reader's batches to the end of the epoch. No generator, which an error would end early."""

    def __init__(self, reader: RecordReader) -> None:
        self._reader: RecordReader | None = reader

    def __next__(self) -> RecordBatch:
        batch = None if self._reader is None else self._reader._next_batch()
        if batch is None:
            self._reader = None
            raise StopIteration
        return batch


def _rebuild(dataset: Dataset, options: _Options, state: dict[str, Any]) -> RecordReader:
    return RecordReader._made(dataset, options, Position.from_json(state, dataset))


def _check_policy(on_corrupt: OnCorrupt) -> OnCorrupt:
    if on_corrupt in ("raise", "skip") or callable(on_corrupt):
        return on_corrupt
    raise ValueError(f'on_corrupt= takes "raise", "skip" or a function, not {on_corrupt!r}')

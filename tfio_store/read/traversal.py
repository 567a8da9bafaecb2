"""A reader's traversal of its data.

The reader and its iterators both hold this, and so do not hold each other. So a dropped object
goes at once, not when the garbage collector finds a cycle.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from typing_extensions import Self

from tfio_store.dataset.checks import check_from_0, check_positive
from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.inflate.index import BuiltIndex, save_index
from tfio_store.dataset.model import Dataset, Limits, Shard
from tfio_store.read.cursor import Position, ReaderOrder, Rest
from tfio_store.read.decode import (
    NO_OFFSET,
    Decoding,
    Located,
    LocatedList,
    OnCorrupt,
    Skips,
    within,
)
from tfio_store.read.fetch import decode, fetch_blocks
from tfio_store.read.long_records import fetch_records_of_files
from tfio_store.read.marks import AnyMark, Mark
from tfio_store.read.order import Share, Step
from tfio_store.read.shuffle import shuffled
from tfio_store.read.state import position_of, state_of
from tfio_store.read.stream import FileStream, metered
from tfio_store.records.framing import RecordBatch, RecordIterator
from tfio_store.records.one_thread import OneThread
from tfio_store.records.texts import warn
from tfio_store.storage.read_ahead import Means, Meter

__all__ = ["Iterated", "ReaderOptions", "Shared", "Traversal", "traversal_of"]


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """A reader's arguments. Its pickle holds these and the dataset."""

    verify: bool
    on_corrupt: OnCorrupt
    memory_budget: int
    max_record_bytes: int
    steps: tuple[Step, ...] = ()
    epoch: int = 0
    index_on_read: bool = False
    threads: int | None = None

    def __post_init__(self) -> None:
        check_positive("memory_budget", self.memory_budget)
        if self.threads is not None:
            check_positive("threads", self.threads)

    @property
    def limits(self) -> Limits:
        """Those within which files without an index are walked."""
        return Limits(self.memory_budget, self.max_record_bytes)

    def with_step(self, step: Step, epoch: int | None = None) -> ReaderOptions:
        """These, with one more step. ValueError for even shares of what may be left out."""
        if isinstance(step, Share) and step.even is not None and self.on_corrupt != "raise":
            raise ValueError(
                "even= needs every record, and on_corrupt= may leave some out; pass "
                'on_corrupt="raise", and repair the dataset with tfio_store.salvage'
            )
        if isinstance(step, Share) and self.index_on_read:
            raise ValueError(
                'build_index="on_read" is for a reader of all records: those of other shares would '
                "cut the files in another way as soon as one index is there; index them with "
                "tfio_store.build_index before you share them out"
            )
        epoch = self.epoch if epoch is None else epoch
        check_from_0("epoch", epoch)
        return replace(self, steps=(*self.steps, step), epoch=epoch)


@dataclass(slots=True)
class Shared:
    """The dataset of a reader, and of all readers made from it. The first of them that needs the
    blocks of files without an index finds them for all."""

    dataset: Dataset
    later: Dataset | None = None
    """The same for the epochs behind this one, if more is known of it by now."""

    def with_blocks(self, options: ReaderOptions) -> Dataset:
        self.dataset = index_raw_shards(self.dataset, options.limits)
        return self.dataset

    def others(self) -> Iterator[Shared]:
        """The same data as it may have been known when a state was taken: without checkpoints, or
        with them."""
        if self.later is not None:
            yield Shared(self.later)
        newest = self.later or self.dataset
        streams = newest.without_checkpoints()
        if streams is not newest:
            yield Shared(streams, newest)


class _Indexes:
    """Writes the index of each stream that was read to its end. ``shards`` are those that have
    blocks now, by number."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._warned = False
        self.shards: dict[int, Shard] = {}

    def save(self, index: int, codec: str, built: BuiltIndex) -> None:
        """Write an index. If that fails, a warning says so, once: the records were read all the
        same."""
        shard = self._dataset.shards[index].known(compression=codec)
        try:
            self.shards[index] = save_index(self._dataset.with_shards({index: shard}), index, built)
        except (OSError, ValueError) as error:
            if not self._warned:
                warn(
                    f"the index of {shard.url} cannot be written ({error}); pass index_dir=, a "
                    "folder for indexes"
                )
            self._warned = True


class Traversal:
    """Batches from a position on, epoch after epoch; after a fork it goes on by itself."""

    def __init__(
        self,
        shared: Shared,
        options: ReaderOptions,
        position: Position,
        file: FileStream | None = None,
    ) -> None:
        self.position = position
        self.current: Located | LocatedList | None = None
        """The last batch given."""
        self.passes = 0
        """How many epochs have ended."""
        self.turn = OneThread("the reader")
        self.closed = False
        self.records = 0
        """How many records were given in batches so far."""
        self.meter = Meter()
        self.skips = Skips(options.on_corrupt)
        self.shared = shared
        self._indexes = _Indexes(shared.dataset) if options.index_on_read else None
        self.options = options
        self.file = file
        self._pipeline: Iterator[Located | LocatedList] | None = None
        self._pid = os.getpid()

    @cached_property
    def reader_order(self) -> ReaderOrder:
        """Made on first use, because finding the blocks may take reading."""
        options = self.options
        streams = not options.steps or options.on_corrupt != "raise"
        dataset = self.shared.dataset if streams else self.shared.with_blocks(options)
        reader_order = ReaderOrder(dataset, options.steps, streams=streams)
        if reader_order.shuffle is not None:
            reader_order.shuffle.check_room(reader_order.window_most(), options.memory_budget)
        return reader_order

    def order_of(self, rest: Rest | None) -> ReaderOrder:
        """The order of the rest of an epoch. Rests are cut into blocks, even for a reader that
        goes in order."""
        if rest is None or self.options.steps or self.options.on_corrupt != "raise":
            return self.reader_order
        if self.file is not None:
            raise ValueError("state= is of several readers, and source= is a file object")
        return self._order_in_blocks

    @cached_property
    def _order_in_blocks(self) -> ReaderOrder:
        return ReaderOrder(self.shared.with_blocks(self.options), (), streams=False)

    def num_records(self) -> int | None:
        """How many records the position's epoch has, if that is known in advance."""
        if self.options.on_corrupt != "raise" or self.file is not None:
            return None
        rest = self.position.rest
        if not self.options.steps and rest is None:
            return self.shared.dataset.num_records
        return self.order_of(rest).epoch_order(self.position.epoch, rest).num_records()

    def next_batch(self) -> RecordBatch | None:
        """The next batch, behind which the position moves; None at the end of the epoch. ValueError
        once closed."""
        found = self.next_records(single=False)
        return RecordBatch.from_records(found) if isinstance(found, list) else found

    def next_records(self, *, single: bool = True) -> RecordBatch | list[bytes] | None:
        """The same, or a list of records, for a caller who wants them one by one."""
        self.check_open()
        if self._pipeline is None or self._pid != os.getpid():
            self._pipeline, self._pid = self._start(single), os.getpid()
        try:
            located = next(self._pipeline, None)
        except BaseException:
            self.stop()  # so that the next call meets the same fault again, not an early end
            raise
        if located is None:
            self.stop()
            self.position = Position(epoch=self.position.epoch + 1)
            self.passes += 1
            self._epoch_ended()
            return None
        self.current = located
        self.records += len(located.batch)
        self.position = self.position.at(located, len(located.batch))
        return located.batch

    def metrics(self) -> dict[str, float]:
        """See `Iterated.metrics`."""
        meter = self.meter
        return {
            "bytes": meter.nbytes,
            "requests": meter.requests,
            "records": self.records,
            "skipped": self.skips.count,
            "waited_s": meter.waited,
            "read_s": meter.read,
            "inflate_s": meter.inflate,
            "scan_s": meter.scan,
            "held_bytes": meter.held + meter.behind,
        }

    def _epoch_ended(self) -> None:
        self.learn()

    def learn(self) -> None:
        """Go on with what is known of the data by now, at the beginning of an epoch."""
        known = self.shared.later or self.shared.dataset
        if self._indexes is not None and self._indexes.shards:
            known = known.with_shards(self._indexes.shards)
            self._indexes = _Indexes(known)
        if known is not self.shared.dataset:
            self.go_on(Shared(known))

    def go_on(self, shared: Shared) -> None:
        """Go on in the same data, of which more or less is known."""
        if shared is self.shared:
            return
        self.shared = shared
        for name in ("reader_order", "_order_in_blocks"):
            self.__dict__.pop(name, None)

    def state(self, position: Position) -> dict[str, Any]:
        """The state of a reader that stands at a position."""
        return state_of(position, self.order_of(position.rest))

    def find(self, state: Mapping[str, Any]) -> tuple[Position, Shared]:
        """The position of a state, and the data to `go_on` in from there. If it was taken when more
        or less was known of the same streams, its epoch is gone through as it was then. Raises as
        `position_of`."""
        try:
            return position_of(state, self.order_of), self.shared
        except ValueError:
            for other in self.shared.others():
                traversal = Traversal(other, self.options, self.position, self.file)
                with suppress(ValueError):
                    return position_of(state, traversal.order_of), other
            raise

    @property
    def last(self) -> RecordBatch | list[bytes] | None:
        """The records that were given last."""
        return None if self.current is None else self.current.batch

    def before(self, unread: int) -> Position:
        """Where it stands, before so many of the last records."""
        if self.current is None:
            return self.position
        return self.position.at(self.current, len(self.current.batch) - unread)

    def mark(self) -> Mark:
        """Where it stands behind the last batch."""
        return Mark.of(self.position, self.current, self.order_of(self.position.rest))

    @property
    def room(self) -> int:
        """Bytes of the budget that may be held behind it, made of records that it gave."""
        return (self.options.memory_budget - 2 * self.reader_order.window_most()) // 2

    @property
    def waits(self) -> bool:
        """Whether the next range of a bucket has been asked for, and is not there yet."""
        coming = self.meter.coming
        return coming is not None and not coming.done()

    def hold(self, nbytes: int) -> None:
        """Take so many bytes of the budget for what is held behind it."""
        self.meter.behind = nbytes

    def limit(self, threads: int) -> None:
        """Use no more than so many threads from now on."""
        least = min(threads, self.options.threads or threads)
        self.options = replace(self.options, threads=least)

    def begin(self, position: Position) -> None:
        """Go to a position."""
        self.stop()
        self.position = position

    def stop(self) -> None:
        """Give up what is in flight. Idempotent."""
        pipeline, self._pipeline, self.current = self._pipeline, None, None
        if pipeline is not None and self._pid == os.getpid():
            pipeline.close()  # type: ignore[attr-defined]
        self.skips.say()

    def check_open(self) -> None:
        if self.closed:
            raise ValueError("the reader is closed")

    def _start(self, single: bool) -> Iterator[Located | LocatedList]:
        """Make the pipeline from the position on. It must not hold this object, which holds it."""
        options, position = self.options, self.position
        reader_order = self.order_of(position.rest)
        skips = None if options.on_corrupt == "raise" else self.skips
        save = None if self._indexes is None else self._indexes.save
        how = Decoding(options.verify, options.max_record_bytes, skips, save)
        epoch_order = reader_order.epoch_order(position.epoch, position.rest)
        order = epoch_order.read.numbers
        start = max(position.offset, 0)
        if self.file is not None:
            parts = metered(self.file.parts(start), self.meter)
            located = decode(reader_order.dataset, parts, how)
        else:
            # one window is gathered while the one before it is still in use
            budget = options.memory_budget - 2 * reader_order.window_most()
            means = Means(budget, options.threads, self.meter)
            at = position.position
            plain = not options.steps and position.rest is None
            # reading can begin right there, with nothing to drop before it
            at_frame = position.records == 0 or position.offset != NO_OFFSET
            if single and skips is None and plain and at_frame:
                return fetch_records_of_files(
                    reader_order.units,
                    order,
                    how,
                    means,
                    position=at,
                    start=start,
                    records=position.records,
                )
            located = fetch_blocks(
                reader_order.units,
                order,
                how,
                means,
                position=at,
                start=start,
            )
        located = within(located, epoch_order.read.cuts)
        if reader_order.shuffle is not None and epoch_order.windows is not None:
            located = shuffled(
                located, reader_order.shuffle, epoch_order.windows, epoch=position.epoch
            )
            located = within(located, epoch_order.given)
        return position.resume(located)


# Iterators over a traversal, each to the end of the epoch in which it was made.


class AnyTraversal(Protocol):
    """The cursor of an iterator: through a source, or through a mixture."""

    passes: int
    turn: OneThread

    @property
    def room(self) -> int: ...
    @property
    def waits(self) -> bool: ...
    def next_batch(self) -> RecordBatch | None: ...
    def next_records(self) -> RecordBatch | list[bytes] | None: ...
    def mark(self) -> AnyMark: ...
    def hold(self, nbytes: int) -> None: ...
    def limit(self, threads: int) -> None: ...
    def metrics(self) -> dict[str, float]: ...


Given = TypeVar("Given", bound="RecordBatch | list[bytes]")


class _ToTheEnd:
    """Goes to the end of the epoch. No generator, which an error would end early."""

    def __init__(self, traversal: AnyTraversal) -> None:
        self._traversal = traversal
        self._pass = traversal.passes

    @property
    def ended(self) -> bool:
        """Whether the epoch has ended, whoever has read the last of it."""
        return self._pass != self._traversal.passes

    def _given(self, give: Callable[[], Given | None]) -> Given:
        with self._traversal.turn:
            found = None if self.ended else give()
        if found is None:
            raise StopIteration
        return found


class Records(_ToTheEnd, Iterator["RecordBatch | list[bytes]"]):
    """The batch that is given out record by record."""

    def __next__(self) -> RecordBatch | list[bytes]:
        return self._given(self._traversal.next_records)


class Batches(_ToTheEnd, Iterator[RecordBatch]):
    """The batches, but first of all what a record iterator has left of its own, which ``take_rest``
    gives."""

    def __init__(
        self, traversal: AnyTraversal, take_rest: Callable[[], RecordBatch | None]
    ) -> None:
        super().__init__(traversal)
        self._take_rest = take_rest

    def __next__(self) -> RecordBatch:
        if self.ended:
            raise StopIteration
        rest = self._take_rest()
        return self._given(self._traversal.next_batch) if rest is None else rest


def traversal_of(reader: Iterated) -> AnyTraversal:
    """The traversal of a reader or a mixture, for who reads ahead of what he gives."""
    found: AnyTraversal = reader._traversal
    return found


class Iterated:
    """The part that readers and mixtures share: iterating, and ending."""

    _traversal: Any

    def _begin(self, traversal: Any) -> Self:
        """Begin to iterate a traversal."""
        self._traversal = traversal
        self._begin_records()
        return self

    def _begin_records(self) -> None:
        self._batches = Records(self._traversal)
        self._records = RecordIterator(self._batches)

    def __iter__(self) -> Iterator[bytes]:
        self._traversal.check_open()
        if self._batches.ended:
            self._begin_records()
        return self._records

    def batches(self) -> Iterator[RecordBatch]:
        """Iterate the records as batches, to the end of the epoch.

        Records that a ``for`` loop has left of its batch come first.

        Yields:
            RecordBatch: About a block of records (1 MiB), or a few blocks, not copied; of a mixture
                up to a few thousand, of all sources.

        Raises:
            ValueError: The reader or mixture is closed.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> [len(batch) for batch in tfs.RecordReader("train").batches()]
            [3]
        """
        self._traversal.check_open()
        return Batches(self._traversal, lambda: self._records.take_rest())

    def metrics(self) -> dict[str, float]:
        """What the reader has read so far, and how long it took. Counting costs almost nothing.

        Seconds of work are the sum of all threads. A mixture counts all its sources together.

        Returns:
            dict: ``bytes``: stored bytes read. ``requests`` for them. ``records`` in the batches
            handed out. ``skipped`` damaged regions. ``waited_s``: seconds that the caller waited
            for bytes and records. ``read_s``, ``inflate_s`` and ``scan_s``: seconds that threads
            spent on reading local files, on decompressing, and on finding and checking records.
            ``held_bytes``: bytes of the ``memory_budget`` that are in use.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> reader = tfs.RecordReader("train")
            >>> _ = list(reader)
            >>> found = reader.metrics()
            >>> found["records"], found["requests"], found["held_bytes"]
            (3, 1, 0)
        """
        found: dict[str, float] = self._traversal.metrics()
        return found

    def close(self) -> None:
        """Stop reading, and drop what is in flight.

        `state` still says where it stood. A second call does nothing.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> reader = tfs.RecordReader("train")
            >>> reader.close()
        """
        self._leave(self._stands_at())
        self._traversal.closed = True

    def _stands_at(self, unread: int = 0) -> Any:
        """Behind the last record that was given out, which may be in the midst of a batch, or
        ``unread`` records before it."""
        last = self._traversal.last
        held = given = 0 if last is None else len(last)
        if last is not None and self._records.batch is last:
            given = self._records.position
        if not 0 <= unread <= given:
            raise ValueError(f"unread={unread}: the last batch has given {given} records")
        return self._traversal.before(held - given + unread)

    def _leave(self, position: Any) -> None:
        """Go to a position. Give up what is in flight, and what is left of the batch that records
        are given from."""
        with self._traversal.turn:
            self._traversal.begin(position)
            self._records.take_rest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

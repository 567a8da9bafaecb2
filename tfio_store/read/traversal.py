"""A reader's way through its data.

The reader and its iterators both hold this, and so do not hold each other. So a dropped object goes
at once, not when the garbage collector finds a cycle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.read.fetch import decode, fetch_blocks
from tfio_store.read.file_object import FileStream
from tfio_store.read.located import NO_OFFSET, Decoding, Located, within
from tfio_store.read.long_records import LocatedList, fetch_records_of_files
from tfio_store.read.order import Share, Step, check_from_0
from tfio_store.read.position import Position
from tfio_store.read.rest import Rest
from tfio_store.read.route import Route
from tfio_store.read.shuffle import shuffled
from tfio_store.read.skips import OnCorrupt, Skips
from tfio_store.records.framing import RecordBatch

__all__ = ["ReaderOptions", "Shared", "Traversal"]


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """A reader's arguments. Its pickle holds these and the dataset."""

    verify: bool
    on_corrupt: OnCorrupt
    memory_budget: int
    max_record_bytes: int
    steps: tuple[Step, ...] = ()
    epoch: int = 0

    def __post_init__(self) -> None:
        check_positive("memory_budget", self.memory_budget)

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
        epoch = self.epoch if epoch is None else epoch
        check_from_0("epoch", epoch)
        return replace(self, steps=(*self.steps, step), epoch=epoch)


@dataclass(slots=True)
class Shared:
    """The dataset of a reader, and of all readers made from it. The first of them that needs the
    blocks of files without an index finds them for all."""

    dataset: Dataset

    def with_blocks(self, options: ReaderOptions) -> Dataset:
        self.dataset = index_raw_shards(self.dataset, **options.limits._asdict())
        return self.dataset


class Traversal:
    """Batches from a position on, epoch after epoch; after a fork it goes on by itself."""

    def __init__(
        self, shared: Shared, options: ReaderOptions, position: Position, file: FileStream | None
    ) -> None:
        self.position = position
        self.current: Located | LocatedList | None = None
        """The last batch given."""
        self.passes = 0
        """How many epochs have ended."""
        self.closed = False
        self.skips = Skips(options.on_corrupt)
        self._shared = shared
        self._options = options
        self._file = file
        self._pipeline: Iterator[Located | LocatedList] | None = None
        self._pid = os.getpid()

    @cached_property
    def route(self) -> Route:
        """Made on first use, because finding the blocks may take reading."""
        options = self._options
        streams = not options.steps or options.on_corrupt != "raise"
        dataset = self._shared.dataset if streams else self._shared.with_blocks(options)
        route = Route(dataset, options.steps, streams=streams)
        if route.shuffle is not None:
            route.shuffle.check_room(route.window_most(), options.memory_budget)
        return route

    def route_of(self, rest: Rest | None) -> Route:
        """The way through the rest of an epoch. Rests are cut into blocks, even for a reader that
        goes in order."""
        if rest is None or self._options.steps or self._options.on_corrupt != "raise":
            return self.route
        if self._file is not None:
            raise ValueError("state= is of several readers, and source= is a file object")
        return self._route_in_blocks

    @cached_property
    def _route_in_blocks(self) -> Route:
        return Route(self._shared.with_blocks(self._options), (), streams=False)

    def num_records(self) -> int | None:
        """How many records the position's epoch has, if that is known in advance."""
        if self._options.on_corrupt != "raise" or self._file is not None:
            return None
        rest = self.position.rest
        if not self._options.steps and rest is None:
            return self._shared.dataset.num_records
        return self.route_of(rest).course(self.position.epoch, rest).num_records()

    def next_batch(self) -> RecordBatch | None:
        """The next batch, behind which the position moves; None at the end of the epoch. ValueError
        once closed."""
        found = self._next(single=False)
        return RecordBatch.from_records(found) if isinstance(found, list) else found

    def next_records(self) -> RecordBatch | list[bytes] | None:
        """The same, or a list of records, for a caller who wants them one by one."""
        return self._next(single=True)

    def _next(self, *, single: bool) -> RecordBatch | list[bytes] | None:
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
            return None
        self.current = located
        self.position = self.position.at(located, len(located.batch))
        return located.batch

    def stop(self) -> None:
        """Give up what is in flight. Idempotent."""
        pipeline, self._pipeline, self.current = self._pipeline, None, None
        if pipeline is not None and self._pid == os.getpid():
            pipeline.close()  # type: ignore[attr-defined]
        self.skips.say()

    def close(self) -> None:
        """Stop for good. Idempotent."""
        self.stop()
        self.closed = True

    def check_open(self) -> None:
        if self.closed:
            raise ValueError("the reader is closed")

    def _start(self, single: bool) -> Iterator[Located | LocatedList]:
        """Make the pipeline from the position on. It must not hold this object, which holds it."""
        options, position = self._options, self.position
        route = self.route_of(position.rest)
        skips = None if options.on_corrupt == "raise" else self.skips
        how = Decoding(options.verify, options.max_record_bytes, skips)
        course = route.course(position.epoch, position.rest)
        order = course.read.numbers
        start = max(position.offset, 0)
        if self._file is not None:
            located = decode(route.dataset, self._file.parts(start), how)
        else:
            # one window is gathered while the one before it is still in use
            budget = options.memory_budget - 2 * route.window_most()
            at = position.position
            plain = not options.steps and position.rest is None
            if single and skips is None and plain and _is_frame(position):
                return fetch_records_of_files(
                    route.units,
                    order,
                    how,
                    budget=budget,
                    position=at,
                    start=start,
                    records=position.records,
                )
            located = fetch_blocks(route.units, order, how, budget=budget, position=at, start=start)
        located = within(located, course.read.cuts)
        if route.shuffle is not None and course.windows is not None:
            located = shuffled(located, route.shuffle, course.windows, epoch=position.epoch)
            located = within(located, course.given)
        return position.resume(located)


def _is_frame(position: Position) -> bool:
    """Whether reading can begin right at this position, with nothing to drop before it."""
    return position.records == 0 or position.offset != NO_OFFSET

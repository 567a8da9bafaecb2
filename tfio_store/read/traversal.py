"""A reader's way through its data.

The reader and the iterators that it hands out both hold this, and so neither holds the other:
whatever is dropped goes at once, and not when the garbage collector finds a cycle.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tfio_store.read.decode import Decoding, Located, decode
from tfio_store.read.file_object import FileStream
from tfio_store.read.order import Order, Share, Shuffle
from tfio_store.read.plan import Piece, fetches
from tfio_store.read.position import Position
from tfio_store.read.route import Route
from tfio_store.read.shuffle import shuffled
from tfio_store.read.skips import OnCorrupt, Skips
from tfio_store.records.framing import RecordBatch
from tfio_store.storage.read_ahead import ReadAhead

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["Options", "Traversal"]


@dataclass(frozen=True, slots=True)
class Options:
    """What a reader was asked for; with the dataset, all that its pickle holds."""

    verify: bool
    on_corrupt: OnCorrupt
    memory_budget: int
    max_record_bytes: int
    steps: tuple[Share | Shuffle, ...] = ()
    epoch: int = 0


class Traversal:
    """Batches from a position on, epoch after epoch; after a fork it goes on by itself."""

    def __init__(
        self, route: Route, options: Options, position: Position, file: FileStream | None
    ) -> None:
        self.position = position
        self.current: Located | None = None
        """The last batch given."""
        self.passes = 0
        """How often the end of an epoch was reached."""
        self.closed = False
        self.skips = Skips(options.on_corrupt)
        self._route = route
        self._options = options
        self._file = file
        self._pipeline: Iterator[Located] | None = None
        self._pid = os.getpid()

    def next_batch(self) -> RecordBatch | None:
        """The next batch, behind which the position moves; None at the end of the epoch. ValueError
        once closed."""
        self.check_open()
        if self._pipeline is None or self._pid != os.getpid():
            self._pipeline, self._pid = self._start(), os.getpid()
        try:
            located = next(self._pipeline, None)
        except BaseException:
            self.stop()  # whoever asks again meets the same fault again, not an early end
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

    def _start(self) -> Iterator[Located]:
        """The pipeline from the position on. It must not hold this object, which holds it."""
        options, position, route = self._options, self.position, self._route
        skips = None if options.on_corrupt == "raise" else self.skips
        how = Decoding(options.verify, options.max_record_bytes, skips)
        order = route.order(position.epoch)
        if self._file is not None:
            pieces = self._file.pieces(max(position.offset, 0))
        else:
            # one window is gathered while the one before it is still in use
            budget = options.memory_budget - 2 * route.window_most()
            pieces = _pieces(route, order, position, budget)
        located = decode(route.dataset, pieces, how)
        if route.shuffle is not None:
            windows = route.windows(order)
            located = shuffled(located, route.shuffle, windows, epoch=position.epoch)
        return position.resume(located)


def _pieces(
    route: Route, order: Order, position: Position, budget: int
) -> Iterator[tuple[Piece, BytesLike]]:
    start = max(position.offset, 0)
    ranges = fetches(route.dataset, route.units, order, position=position.position, start=start)
    with closing(ReadAhead(ranges, budget=budget, may_be_short=True)) as ahead:
        for fetch, data in ahead:
            yield fetch.tag, data

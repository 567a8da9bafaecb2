"""The blocks of a reader, decoded and cut into batches, and the reader's state behind each batch.

A block is decoded at once, or a long one in parts. Batches have their size whatever the blocks are.
"""

from __future__ import annotations

from typing import Any

from tfio_store.records.framing import RecordBatch
from tfio_store.tools.loader_content import LoaderContent
from tfio_store.tools.loader_source import Reader

__all__ = ["Blocks", "Gathering"]

_DECODED_AT_ONCE = 2 << 20
"""Bytes of records that are decoded together. A window of a shuffle is much longer."""


class Blocks:
    """The decoded rows of a reader's blocks, one block at a time, or a part of a long one."""

    def __init__(self, reader: Reader, content: LoaderContent) -> None:
        self._reader = reader
        self._content = content
        self._batches = reader.batches()
        self._waiting: RecordBatch | None = None
        """What is not decoded yet of a block, and won't be if it is damaged."""
        self._rows: Any = None
        self._at = self._count = 0
        self.over = False

    @property
    def left(self) -> int:
        """How many decoded rows are not taken yet."""
        return self._count - self._at

    def pull(self) -> None:
        """Go to the next rows, or to the end."""
        if self._waiting is None:
            self._waiting = next(self._batches, None)
        if self._waiting is None:
            self.over, self._rows, self._at, self._count = True, None, 0, 0
            return
        count = _rows_at_once(self._waiting)
        self._rows = self._content.decode(self._waiting[:count])
        self._at, self._count, self._waiting = 0, count, self._waiting[count:] or None

    def take(self, most: int) -> Any:
        """Some of the decoded rows."""
        stop = min(self._at + most, self._count)
        part = self._content.cut(self._rows, self._at, stop)
        self._at = stop
        return part

    def untake(self, count: int) -> None:
        """Put back the rows that were taken last."""
        self._at -= count

    def state(self, unread: int) -> dict[str, Any]:
        """The reader's state, before ``unread`` of the rows that were taken of its block."""
        return self._reader.state(unread=len(self._waiting or ()) + self.left + unread)


def _rows_at_once(records: RecordBatch) -> int:
    """How many records to decode: all, or the first of about equal parts."""
    parts = records.nbytes // _DECODED_AT_ONCE + 1
    return -(-len(records) // parts)


class Gathering:
    """Batches of ``size`` rows, in parts; the last one may be smaller, or is left out by
    ``drop_last``."""

    def __init__(self, reader: Reader, content: LoaderContent, size: int, drop_last: bool) -> None:
        self._blocks = Blocks(reader, content)
        self._size = size
        self._drop_last = drop_last
        self._parts: list[Any] = []
        self._gathered = 0
        self._before: dict[str, Any] | None = None
        """The state before what was gathered, while that takes another block."""

    @property
    def over(self) -> bool:
        """Whether the reader has nothing left."""
        return self._blocks.over

    def state(self) -> dict[str, Any]:
        """The reader's state, before the parts of a batch that is not `done`."""
        return self._before or self._blocks.state(self._gathered)

    def parts(self) -> list[Any] | None:
        """The parts of the next batch; None at the end."""
        self._gather()
        if self._gathered == 0 or (self._drop_last and self._gathered < self._size):
            return None
        return self._parts

    def done(self) -> None:
        """The parts are used: the state stands behind them."""
        self._parts, self._gathered, self._before = [], 0, None

    def _gather(self) -> None:
        blocks = self._blocks
        while self._gathered < self._size and not blocks.over:
            if blocks.left == 0:
                if self._before is None:
                    self._before = blocks.state(self._gathered)
                blocks.pull()
                continue
            wanted = min(self._size - self._gathered, blocks.left)
            self._parts.append(blocks.take(wanted))
            self._gathered += wanted

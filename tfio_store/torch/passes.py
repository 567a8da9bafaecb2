"""One pass over a share of a dataset: batches or rows, and a state behind each of them.

A block is decoded at once, or a long one in parts, and cut into batches. These have their size
whatever the blocks are.
Nothing here is a generator: an error would end one, and who asked for the next batch would take
that for the end of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map

from tfio_store.records.framing import RecordBatch
from tfio_store.torch.carried import carrying_errors
from tfio_store.torch.content import Content
from tfio_store.torch.source import Reader

__all__ = ["Batches", "Nothing", "Rows", "Steps"]

_ROWS_AT_ONCE = 256
"""Rows that become Python objects together."""

_DECODED_AT_ONCE = 2 << 20
"""Bytes of records that are decoded together. A window of a shuffle is much longer."""


class _Blocks:
    """The decoded rows of a reader's blocks, one block at a time, or a part of a long one."""

    def __init__(self, reader: Reader, content: Content) -> None:
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


class Steps(Iterator[Any]):
    """What a pass gives."""

    ended = False
    """Whether everything was given."""

    def state(self) -> dict[str, Any]:
        """The state of the reader behind what was given."""
        raise NotImplementedError

    def __next__(self) -> Any:
        with carrying_errors():
            return self._step()

    def _step(self) -> Any:
        raise NotImplementedError


class WholeColumns(dict[str, Any]):
    """A batch. By this class torch's default collate_fn finds `_refused`."""


class WholeRecords(list[bytes]):
    """A batch of records as they are. By this class torch's default collate_fn finds `_refused`."""


def _refused(batches: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """A loader makes batches of batches, and rows of each in one more dimension."""
    raise TypeError(
        "the dataset gives whole batches, and the DataLoader would make batches of them: pass "
        "batch_size=None to the DataLoader (its default is 1), or leave out batch_size= of "
        "TFRecordIterable, which is slower"
    )


default_collate_fn_map[WholeColumns] = default_collate_fn_map[WholeRecords] = _refused


class Nothing(Steps):
    """What is left of a share that has ended."""

    ended = True

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def state(self) -> dict[str, Any]:
        return self._state

    def _step(self) -> Any:
        raise StopIteration


class Batches(Steps):
    """Batches of ``size`` rows; the last one may be smaller, or is left out by ``drop_last``."""

    def __init__(self, reader: Reader, content: Content, size: int, drop_last: bool) -> None:
        self._blocks = _Blocks(reader, content)
        self._content = content
        self._size = size
        self._drop_last = drop_last
        self._parts: list[Any] = []
        self._gathered = 0
        self._before: dict[str, Any] | None = None
        """The state before what was gathered, while that takes another block."""

    def state(self) -> dict[str, Any]:
        return self._before or self._blocks.state(self._gathered)

    def _step(self) -> Any:
        self._gather()
        if self._gathered == 0 or (self._drop_last and self._gathered < self._size):
            self._done()
            raise StopIteration
        batch = self._content.given(self._content.batch(self._parts))
        self._done()
        if type(batch) is dict:
            return WholeColumns(batch)
        return WholeRecords(batch) if type(batch) is list else batch

    def _done(self) -> None:
        self._parts, self._gathered, self._before = [], 0, None
        self.ended = self._blocks.over

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


class Rows(Steps):
    """Single rows."""

    def __init__(self, reader: Reader, content: Content) -> None:
        self._blocks = _Blocks(reader, content)
        self._content = content
        self._rows: list[Any] = []
        self._next = 0

    def state(self) -> dict[str, Any]:
        return self._blocks.state(len(self._rows) - self._next)

    def _step(self) -> Any:
        if self._next == len(self._rows):
            self._fill()
        row = self._content.given(self._rows[self._next])
        self._next += 1
        return row

    def _fill(self) -> None:
        blocks = self._blocks
        self._rows, self._next = [], 0
        while blocks.left == 0:
            if blocks.over:
                self.ended = True
                raise StopIteration
            blocks.pull()
        count = min(_ROWS_AT_ONCE, blocks.left)
        part = blocks.take(count)
        try:
            self._rows = self._content.rows(part)
        except BaseException:
            blocks.untake(count)
            raise

"""One pass over a share of a dataset: batches or rows, and a state behind each of them.

Nothing here is a generator: an error would end one, and who asked for the next batch would take
that for the end of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from torch.utils.data._utils.collate import default_collate_fn_map

from tfio_store._loader import Blocks, Gathering, Reader
from tfio_store.torch.content import Content
from tfio_store.torch.workers import carrying_errors

__all__ = ["Batches", "Nothing", "Rows", "Steps"]


class Steps(Iterator[Any]):
    """The records of a pass."""

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
    """The rest of a share that has ended."""

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
        self._gathering = Gathering(reader, content, size, drop_last)
        self._content = content

    def state(self) -> dict[str, Any]:
        return self._gathering.state()

    def _step(self) -> Any:
        parts = self._gathering.parts()
        # An error here leaves the parts: the state stands before them, and they are met again.
        batch = None if parts is None else self._content.given(self._content.batch(parts))
        self._gathering.done()
        self.ended = self._gathering.over
        if parts is None:
            raise StopIteration
        if type(batch) is dict:
            return WholeColumns(batch)
        return WholeRecords(batch) if type(batch) is list else batch


class Rows(Steps):
    """Single rows."""

    def __init__(self, reader: Reader, content: Content) -> None:
        self._blocks = Blocks(reader, content)
        self._content = content
        self._rows: list[Any] = []
        self._next = 0

    def state(self) -> dict[str, Any]:
        return self._blocks.state(len(self._rows) - self._next)

    def _step(self) -> Any:
        if self._next == len(self._rows):
            self._rows, self._next = self._blocks.made(self._content.rows), 0
            if not self._rows:
                self.ended = True
                raise StopIteration
        row = self._content.given(self._rows[self._next])
        self._next += 1
        return row

"""`Documents` of a share, in `Part`s: flat columns, and where each document begins in them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfio_store.errors import SchemaError
from tfio_store.example.ragged import apart
from tfio_store.loader.content import LoaderContent, Reader
from tfio_store.loader.gathering import Gathering
from tfio_store.loader.packed_states import Share, State
from tfio_store.records.arrays import Int64Array

__all__ = ["Documents", "Part", "parts_from"]

_AT_ONCE, _LEAST_AT_ONCE, _TOKENS_AT_ONCE = 512, 16, 1 << 20
"""Documents that are decoded together: fewer of long ones, which are in long rows."""


@dataclass(frozen=True, slots=True)
class Part:
    """Documents that were read together: flat columns, and where each begins in them."""

    columns: Mapping[str, Any]
    splits: Int64Array
    share: Share
    place: Callable[[int], State]
    """The state before so many of the documents that were read with these."""
    behind: int = 0
    """How many of those come behind these."""
    skipped: int = 0
    """Tokens of the first document that are left out, since they were given."""
    unit: bool = False
    """Whether it is one that a state has open."""

    def __len__(self) -> int:
        return len(self.splits) - 1

    @property
    def tokens(self) -> int:
        return int(self.splits[-1])

    def before(self, index: int) -> State:
        """The reader's state before a document."""
        return self.place(self.behind + len(self) - index)

    def first(self, count: int) -> Part:
        """The first documents."""
        columns = {name: values[: self.splits[count]] for name, values in self.columns.items()}
        behind = self.behind + len(self) - count
        return replace(self, columns=columns, splits=self.splits[: count + 1], behind=behind)

    def rest(self, index: int, token: int) -> Part:
        """The documents from this one on, and of it what is behind a token of the part."""
        columns = {name: values[token:] for name, values in self.columns.items()}
        skipped = token - int(self.splits[index]) + (self.skipped if index == 0 else 0)
        splits = np.maximum(self.splits[index:] - token, 0)
        return replace(self, columns=columns, splits=splits, skipped=skipped)


class Documents:
    """The documents of a share, some at a time."""

    def __init__(
        self, reader: Reader, share: Share, content: LoaderContent, threads: int | None
    ) -> None:
        assert content.packing is not None
        self._share, self._packing, self._source = share, content.packing, content.source or ""
        fitting = _TOKENS_AT_ONCE // content.packing.length
        size = max(_LEAST_AT_ONCE, min(_AT_ONCE, fitting))
        self.gathering = Gathering(reader, content, size, False, threads)
        self._parts: deque[Part] = deque()
        """Those that were read, and not taken."""
        self._window: list[Part] = []
        self._read = 0
        self.empty = 0

    def part(self) -> Part | None:
        """The next ones. None at the end."""
        if not self._parts:
            columns = self.gathering.batch()
            if columns is None:
                return None
            found, read = [], self._read
            for one in columns:
                lists = {name: apart(one[name])[0] for name in self._packing.columns}
                found.append((lists, self._checked(lists, read)))
                read += len(found[-1][1]) - 1
            self.gathering.done()  # now that they are as they should be
            place, behind, self._read = self.gathering.place(), read - self._read, read
            for lists, splits in found:
                behind -= len(splits) - 1
                self.empty += int(np.count_nonzero(splits[1:] == splits[:-1]))
                values = {name: column.values for name, column in lists.items()}
                self._parts.append(Part(values, splits, self._share, place, behind))
        return self._parts.popleft()

    def _checked(self, lists: Mapping[str, Any], before: int) -> Int64Array:
        """Where the documents of each column begin. SchemaError if they are not as long as each
        other, or as a row. ``before``: how many come before these."""
        packing = self._packing
        name, splits = packing.columns[0], lists[packing.columns[0]].row_splits
        sizes = np.diff(splits)
        for other in packing.columns[1:]:
            lengths = lists[other].row_lengths
            odd = np.flatnonzero(lengths != sizes)
            if len(odd):
                i = int(odd[0])
                reason = f"has {lengths[i]} values, and {name!r} has {sizes[i]}"
                raise self._wrong(before + i, other, reason)
        if packing.long == "error" and len(long := np.flatnonzero(sizes > packing.length)):
            i = int(long[0])
            reason = (
                f"has {sizes[i]} tokens, and a row has {packing.length}: pass a larger length, or "
                'long="split" to the Packing'
            )
            raise self._wrong(before + i, name, reason)
        found: Int64Array = splits
        return found

    def _wrong(self, record: int, name: str, reason: str) -> SchemaError:
        return SchemaError(reason, feature=name, record=record, path=self._source)

    def window(self, tokens: int) -> list[Part]:
        """So many documents that they have as many tokens, of which each counts one at least. None
        are lost where reading them fails."""
        held = sum(int(np.maximum(np.diff(part.splits), 1).sum()) for part in self._window)
        while held < tokens and (part := self.part()) is not None:
            ends = held + np.cumsum(np.maximum(np.diff(part.splits), 1))
            count = int(np.searchsorted(ends, tokens)) + 1
            if count < len(part):
                self._parts.appendleft(part.rest(count, int(part.splits[count])))
                part = part.first(count)
            self._window.append(part)
            held = int(ends[min(count, len(ends)) - 1])
        found, self._window = self._window, []
        return found


def parts_from(parts: Sequence[Part], token: int) -> list[Part]:
    """The documents from this token of all parts on."""
    found: list[Part] = []
    for part in parts:
        if token >= part.tokens:
            token -= part.tokens
            continue
        index = int(np.searchsorted(part.splits, token, "right")) - 1
        found.append(part.rest(index, token))
        token = 0
    return found

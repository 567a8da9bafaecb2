"""`PackedRows`: documents of a reader in rows of one length, with a state behind each row.

Rows are made in *runs*: of a window of documents by first fit, or of documents that are laid end to
end. A state keeps no tokens. It says where the reader stands behind the documents that were begun,
and which *units* of these are open: a window of which some rows were given, or a document of which
some tokens were given. Each unit is read again, from the place of its first record, by a reader of
the share that it is of. So a state is small. The shares of another number go on from it too: the
open units are dealt out, and what was not begun is shared out anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from tfio_store.dataset.checks import whole_number
from tfio_store.errors import SchemaError
from tfio_store.example.ragged import apart
from tfio_store.loader.content import LoaderContent, Reader
from tfio_store.loader.gathering import Gathering
from tfio_store.loader.packing import (
    POSITIONS,
    SEGMENTS,
    mark_of,
    padding_of,
    rows_at_once,
    rows_together,
)
from tfio_store.read.reshard import reshard_state
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compiled import load

__all__ = ["PackedRows", "gathered", "reshard_states"]

_pack = load("pack", "tfio_store.loader._pack", "tfio_store.loader.pure_pack")

Share: TypeAlias = "tuple[int, int]"
State: TypeAlias = "dict[str, Any]"

_AT_ONCE, _LEAST_AT_ONCE, _TOKENS_AT_ONCE = 128, 16, 1 << 18
"""Documents that are decoded together: fewer of long ones, which are in long rows."""


# States


_KEY, _VERSION = "packed", 1


@dataclass(frozen=True, slots=True)
class _Unit:
    """What a share has begun: a window, or a document. ``begin``: the state of the share's reader
    before it. ``given``: its rows, or its tokens, that were given."""

    share: Share
    begin: Mapping[str, Any]
    given: int

    def to_json(self) -> State:
        return {"share": list(self.share), "reader": dict(self.begin), "given": self.given}

    @classmethod
    def from_json(cls, state: Any) -> _Unit:
        index, count, given = map(whole_number, (*state["share"], state["given"]))
        if index is None or count is None or given is None or not 0 <= index < count or given < 0:
            raise ValueError("a unit is of no share, or of nothing")
        return cls((index, count), dict(state["reader"]), given)


def _state(mark: str, units: Sequence[_Unit], behind: Mapping[str, Any]) -> State:
    opened = [unit.to_json() for unit in units]
    return {_KEY: _VERSION, "packing": mark, "open": opened, "reader": dict(behind)}


def _parsed(state: Mapping[str, Any], mark: str | None) -> tuple[list[_Unit], Mapping[str, Any]]:
    """What is open, and the reader's state behind that. A state of a reader is one where nothing
    is. ValueError if it is none, or one of another packing than of this mark."""
    if _KEY not in state:
        return [], state
    try:
        if state[_KEY] != _VERSION:
            raise ValueError(f"it has version {state[_KEY]!r}")
        units = [_Unit.from_json(one) for one in state["open"]]
        theirs, behind = state["packing"], dict(state["reader"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"state= is no state of packed rows: {error!r}") from error
    if mark is not None and theirs != mark:
        raise ValueError(
            f"state= was taken of {theirs}, and pack= is {mark}: pass the same Packing"
        )
    return units, behind


def reshard_states(states: Sequence[Mapping[str, Any]], count: int) -> list[State]:
    """As `reshard_state`, for states of packed rows too. What is open is dealt out."""
    packed = [state for state in states if _KEY in state]
    if not packed:
        return reshard_state(states, count)
    mark = packed[0].get("packing")
    parsed = [_parsed(state, mark) for state in states]
    units = [unit for opened, _ in parsed for unit in opened]
    behind = reshard_state([state for _, state in parsed], count)
    return [_state(str(mark), units[index::count], behind[index]) for index in range(count)]


# Documents


@dataclass(frozen=True, slots=True)
class _Part:
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

    def first(self, count: int) -> _Part:
        """The first documents."""
        columns = {name: values[: self.splits[count]] for name, values in self.columns.items()}
        behind = self.behind + len(self) - count
        return replace(self, columns=columns, splits=self.splits[: count + 1], behind=behind)

    def rest(self, index: int, token: int) -> _Part:
        """The documents from this one on, and of it what is behind a token of the part."""
        columns = {name: values[token:] for name, values in self.columns.items()}
        skipped = token - int(self.splits[index]) + (self.skipped if index == 0 else 0)
        splits = np.maximum(self.splits[index:] - token, 0)
        return replace(self, columns=columns, splits=splits, skipped=skipped)


class _Documents:
    """The documents of a share, some at a time."""

    def __init__(
        self, reader: Reader, share: Share, content: LoaderContent, threads: int | None
    ) -> None:
        assert content.packing is not None
        self._share, self._packing, self._source = share, content.packing, content.source or ""
        fitting = _TOKENS_AT_ONCE // content.packing.length
        size = max(_LEAST_AT_ONCE, min(_AT_ONCE, fitting))
        self.gathering = Gathering(reader, content, size, False, threads)
        self._left: _Part | None = None
        self._window: list[_Part] = []
        self._read = 0
        self.empty = 0

    def part(self) -> _Part | None:
        """The next ones. None at the end."""
        found, self._left = self._left, None
        if found is not None:
            return found
        columns = self.gathering.batch()
        if columns is None:
            return None
        lists = {name: apart(columns[name])[0] for name in self._packing.columns}
        splits = self._checked(lists)
        self.gathering.done()
        self._read += len(splits) - 1
        self.empty += int(np.count_nonzero(splits[1:] == splits[:-1]))
        values = {name: column.values for name, column in lists.items()}
        return _Part(values, splits, self._share, self.gathering.place())

    def _checked(self, lists: Mapping[str, Any]) -> Int64Array:
        """Where the documents of each column begin. SchemaError if they are not as long as each
        other, or as a row."""
        packing = self._packing
        name, splits = packing.columns[0], lists[packing.columns[0]].row_splits
        sizes = np.diff(splits)
        for other in packing.columns[1:]:
            lengths = lists[other].row_lengths
            odd = np.flatnonzero(lengths != sizes)
            if len(odd):
                i = int(odd[0])
                raise self._wrong(i, other, f"has {lengths[i]} values, and {name!r} has {sizes[i]}")
        long = np.flatnonzero(sizes > packing.length)
        if len(long) and packing.long == "error":
            i = int(long[0])
            reason = (
                f"has {sizes[i]} tokens, and a row has {packing.length}: pass a larger length, or "
                'long="split" to the Packing'
            )
            raise self._wrong(i, name, reason)
        found: Int64Array = splits
        return found

    def _wrong(self, index: int, name: str, reason: str) -> SchemaError:
        record = self._read + index
        return SchemaError(reason, feature=name, record=record, path=self._source)

    def window(self, tokens: int) -> list[_Part]:
        """So many documents that they have as many tokens, of which each counts one at least. None
        are lost where reading them fails."""
        held = sum(int(np.maximum(np.diff(part.splits), 1).sum()) for part in self._window)
        while held < tokens and (part := self.part()) is not None:
            ends = held + np.cumsum(np.maximum(np.diff(part.splits), 1))
            count = int(np.searchsorted(ends, tokens)) + 1
            if count < len(part):
                self._left = part.rest(count, int(part.splits[count]))
                part = part.first(count)
            self._window.append(part)
            held = int(ends[min(count, len(ends)) - 1])
        found, self._window = self._window, []
        return found


# Rows


@dataclass(slots=True)
class _Run:
    """Rows that were planned together."""

    plan: Any
    columns: Mapping[str, list[Any]]
    """The bytes of each, in parts."""
    rows: int
    state: Callable[[int], State]
    """The state behind so many of them."""
    given: int = 0


class PackedRows:
    """Batches of ``size`` rows, as `Gathering` gives batches of records. ``reader_of`` makes a
    reader of a share at the beginning of the epoch, and ``share`` is the one that is read, from its
    beginning or from a state. ValueError for a state of another packing or order."""

    def __init__(
        self,
        reader_of: Callable[[int, int], Reader],
        share: Share,
        state: Mapping[str, Any] | None,
        content: LoaderContent,
        size: int,
        drop_last: bool,
        threads: int | None = None,
    ) -> None:
        assert content.packing is not None
        self._reader_of, self._content, self._threads = reader_of, content, threads
        self._packing = content.packing
        self._mark = mark_of(content.packing)
        assert content.schema is not None
        self._dtypes = {name: content.schema[name].item_dtype() for name in content.packing.columns}
        self._size, self._drop_last = size, drop_last
        self._laid_together = max(size, rows_at_once(content.packing))
        """The rows of documents that are laid end to end together."""
        reader = reader_of(*share)
        begun = reader.state()
        units, behind = _parsed(begun if state is None else state, self._mark)
        self._units = deque(units)
        """Those that are open and not read again yet."""
        self._no_more = _epoch(behind) > _epoch(begun)
        """Whether the reader has nothing left in the epoch."""
        if not self._no_more:
            reader.restore(behind)
        elif any(behind.get(name) != begun.get(name) for name in ("source", "mixture")):
            raise ValueError("state= was taken of another source: its files or their sizes differ")
        self._behind = behind
        self._begin = _state(self._mark, units, behind)
        self._own = _Documents(reader, share, content, threads)
        self._check_room()
        self._carried: list[_Part] = []
        """Documents that are to be laid end to end, before those that come."""
        self._runs: deque[_Run] = deque()
        self._last: list[tuple[_Run, int, int]] = []
        """The rows of the last batch; of those that are `done`, the ones behind which it stands."""
        self._stands: list[tuple[_Run, int, int]] = []
        self._counts = dict.fromkeys(("rows", "tokens"), 0)
        self._tokens = 0
        self.over = False
        """Whether all was given, as far as the caller has seen."""

    def _check_room(self) -> None:
        packing = self._packing
        each = packing.length * sum(dtype.itemsize for dtype in self._dtypes.values())
        rows = self._laid_together if packing.how == "concat" else rows_together(packing)
        room = self._own.gathering.room
        if rows * each > room:
            raise ValueError(
                f"pack= fills {rows} rows of {packing.length} tokens together, which take "
                f"{rows * each} bytes, and memory_budget= leaves {room}: pass a larger one, or a "
                "smaller window or batch"
            )
        self._own.gathering.keep(rows * each)

    def state(self, unread: int = 0) -> State:
        """The state behind the batches that are `done`, before so many of the last rows."""
        if self.over and not unread and not self._runs:
            behind = self._behind if self._no_more else self._own.gathering.state()
            return _state(self._mark, [], behind)
        for run, first, last in reversed(self._stands):
            if unread <= last - first:
                return run.state(last - unread)
            unread -= last - first
        return self._begin

    def batch(self) -> Any:
        """The columns of the next batch; None at the end. It is the next one until it is `done`."""
        while sum(run.rows - run.given for run in self._runs) < self._size:
            run = self._concat_run() if self._packing.how == "concat" else self._window_run()
            if run is None:
                break
            self._runs.append(run)
        self._last, left = [], self._size
        for run in self._runs:
            last = min(run.given + left, run.rows)
            self._last.append((run, run.given, last))
            left -= last - run.given
            if not left:
                break
        count = self._size - left
        if not count or (left and self._drop_last):
            self.over, self._last = True, []
            self._runs.clear()
            return None
        return self._made(count)

    def done(self) -> None:
        """The batch is used: the state stands behind it."""
        if not self._last:
            return
        for run, _, last in self._last:
            run.given = last
        while self._runs and self._runs[0].given == self._runs[0].rows:
            self._runs.popleft()
        count = sum(last - first for _, first, last in self._last)
        self._counts["rows"] += count
        self._counts["tokens"] += self._tokens
        self.over = count < self._size
        self._stands, self._last = self._last, []

    def metrics(self) -> dict[str, float]:
        """Those of the reader, the rows and tokens that were given, and the documents without
        tokens that were read."""
        return {**self._own.gathering.metrics(), **self._counts, "empty": self._own.empty}

    def _made(self, count: int) -> dict[str, Any]:
        packing, runs = self._packing, self._last
        made = {}
        for name, dtype in self._dtypes.items():
            made[name] = np.zeros((count, packing.length), dtype)
            if padding := padding_of(packing, name):
                made[name].fill(padding)
        marks = [np.empty((count, packing.length), np.int32) for _ in range(2)]
        at = 0
        for run, first, last in runs:
            end = at + last - first
            for name, parts in run.columns.items():
                run.plan.copy(first, last, parts, made[name][at:end].view(np.uint8))
            run.plan.mark(first, last, *(mark[at:end] for mark in marks))
            at = end
        self._tokens = int(np.count_nonzero(marks[0]))
        return {**made, SEGMENTS: marks[0], POSITIONS: marks[1]}

    # Runs

    def _opened(self) -> _Documents:
        """The documents from the first open unit on."""
        unit = self._units[0]
        reader = self._reader_of(*unit.share)
        reader.restore(unit.begin)
        return _Documents(reader, unit.share, self._content, self._threads)

    def _planned(self, parts: Sequence[_Part]) -> tuple[Any, dict[str, list[Any]]]:
        """The rows of documents, and the bytes of their columns."""
        ends = np.cumsum([0, *(part.tokens for part in parts)])
        splits = [part.splits[1:] + end for part, end in zip(parts, ends, strict=False)]
        whole = np.concatenate([np.zeros(1, np.int64), *splits])
        columns = {
            name: [part.columns[name].view(np.uint8) for part in parts] for name in self._dtypes
        }
        return _pack.Plan(whole, self._packing.length, self._packing.how == "concat"), columns

    def _window_run(self) -> _Run | None:
        """The rows of the next window that has any."""
        tokens = rows_together(self._packing) * self._packing.length
        while self._units:
            unit, parts = self._units[0], self._opened().window(tokens)
            plan, columns = self._planned(parts)
            if unit.given >= plan.rows:
                raise ValueError(f"state= has {unit.given} rows of a window of {plan.rows}")
            self._units.popleft()
            state = self._window_state(parts[0], plan.rows, None)
            return _Run(plan, columns, plan.rows, state, unit.given)
        while not self._no_more and (parts := self._own.window(tokens)):
            plan, columns = self._planned(parts)
            if plan.rows:
                state = self._window_state(parts[0], plan.rows, parts[-1])
                return _Run(plan, columns, plan.rows, state)
        return None

    def _window_state(self, first: _Part, rows: int, last: _Part | None) -> Callable[[int], State]:
        """What gives the state behind some rows of a window: of this share, if it has a ``last``
        part."""
        later = tuple(self._units)

        def state(given: int) -> State:
            here = [_Unit(first.share, first.before(0), given)] if given < rows else []
            behind = self._behind if last is None else last.before(len(last))
            return _state(self._mark, [*here, *later], behind)

        return state

    def _concat_run(self) -> _Run | None:
        """The next rows of documents that are laid end to end."""
        needed = self._laid_together * self._packing.length
        parts = self._carried  # which stay there where reading fails
        held = sum(part.tokens for part in parts)
        while held < needed and (part := self._next_part()) is not None:
            if part.tokens:
                parts.append(part)
                held += part.tokens
        if not parts:
            return None
        plan, columns = self._planned(parts)
        whole = held < needed
        rows = plan.rows if whole else held // self._packing.length
        self._carried = [] if whole else _from(parts, rows * self._packing.length)
        return _Run(plan, columns, rows, self._concat_state(parts))

    def _next_part(self) -> _Part | None:
        """The rest of an open document, or the next ones of the share."""
        if not self._units:
            return None if self._no_more else self._own.part()
        unit, found = self._units[0], self._opened().part()
        if found is None or not 0 < unit.given < int(found.splits[1]):
            raise ValueError(f"state= has {unit.given} tokens of a document that has not more")
        self._units.popleft()
        return replace(found.first(1).rest(0, unit.given), unit=True)

    def _concat_state(self, parts: Sequence[_Part]) -> Callable[[int], State]:
        """What gives the state behind some rows of documents that are laid end to end."""
        later = tuple(self._units)

        def state(given: int) -> State:
            left = _from(parts, given * self._packing.length)
            units = [_Unit(p.share, p.before(0), p.skipped) for p in left if p.skipped]
            own = next((part for part in left if not part.unit), None)
            if own is not None:
                behind: Mapping[str, Any] = own.before(int(own.skipped > 0))
            elif parts[-1].unit:
                behind = self._behind
            else:
                behind = parts[-1].before(len(parts[-1]))
            return _state(self._mark, [*units, *later], behind)

        return state


def _from(parts: Sequence[_Part], token: int) -> list[_Part]:
    """The documents from this token of all parts on."""
    found: list[_Part] = []
    for part in parts:
        if token >= part.tokens:
            token -= part.tokens
            continue
        index = int(np.searchsorted(part.splits, token, "right")) - 1
        found.append(part.rest(index, token))
        token = 0
    return found


def _epoch(state: Mapping[str, Any]) -> int:
    """The epoch of a state of a reader or a mixture. ValueError if it has none."""
    epoch = whole_number(state.get("epoch"))
    if epoch is None:
        raise ValueError(f"state= is no reader's state: {state!r}")
    return epoch


def gathered(
    reader_of: Callable[[int, int], Reader],
    share: Share,
    state: Mapping[str, Any] | None,
    content: LoaderContent,
    size: int,
    drop_last: bool,
    threads: int | None,
) -> Gathering | PackedRows:
    """Batches of a share: of its records, or of the rows that they are packed into. ValueError for
    a state of the other."""
    if content.packing is not None:
        return PackedRows(reader_of, share, state, content, size, drop_last, threads)
    reader = reader_of(*share)
    if state is not None:
        if _KEY in state:
            raise ValueError(f"state= was taken of {state.get('packing')}: pass the same pack=")
        reader.restore(state)
    return Gathering(reader, content, size, drop_last, threads)

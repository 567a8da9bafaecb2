"""`PackedRows`: documents of a reader in rows of one length, with a state behind each row.

Rows are made in *runs*: of a window of documents by first fit, or of documents that are laid end to
end. Of each run, rows are copied as batches need them. `packed_states` tells what a state holds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tfio_store.loader.content import LoaderContent, Reader
from tfio_store.loader.documents import Documents, Part, parts_from
from tfio_store.loader.gathering import Gathering
from tfio_store.loader.packed_states import (
    Share,
    State,
    Unit,
    check_not_packed,
    epoch_of,
    packed_state,
    parse_packed,
)
from tfio_store.loader.packing import (
    POSITIONS,
    SEGMENTS,
    mark_of,
    padding_of,
    rows_at_once,
    rows_together,
)
from tfio_store.records.compiled import load

__all__ = ["PackedRows", "gathered"]

_pack = load("pack", "tfio_store.loader._pack", "tfio_store.loader.pure_pack")


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
        dtypes = {name: content.schema[name].item_dtype() for name in content.packing.columns}
        self._columns = {
            name: (dtype, np.array(padding_of(content.packing, name), dtype).tobytes())
            for name, dtype in dtypes.items()
        }
        """The dtype of each, and the bytes of its padding."""
        self._size, self._drop_last = size, drop_last
        self._laid_together = max(size, rows_at_once(content.packing))
        """The rows of documents that are laid end to end together."""
        reader = reader_of(*share)
        begun = reader.state()
        units, behind = parse_packed(begun if state is None else state, self._mark)
        self._units = deque(units)
        """Those that are open and not read again yet."""
        self._no_more = epoch_of(behind) > epoch_of(begun)
        """Whether the reader has nothing left in the epoch."""
        if not self._no_more:
            reader.restore(behind)
        elif any(behind.get(name) != begun.get(name) for name in ("source", "mixture")):
            raise ValueError("state= was taken of another source: its files or their sizes differ")
        self._behind = behind
        self._begin = packed_state(self._mark, units, behind)
        self._own = Documents(reader, share, content, threads)
        self._check_room()
        self._carried: list[Part] = []
        """Documents that are to be laid end to end, before those that come."""
        self._runs: deque[_Run] = deque()
        self._ready = 0
        """Their rows that were not given."""
        self._last: list[tuple[_Run, int, int]] = []
        """The rows of the last batch; of those that are `done`, the ones behind which it stands."""
        self._stands: list[tuple[_Run, int, int]] = []
        self._counts = dict.fromkeys(("rows", "tokens"), 0)
        self._given = 0, 0
        """The rows and the tokens of the last batch."""
        self.over = False
        """Whether all was given, as far as the caller has seen."""

    def _check_room(self) -> None:
        packing = self._packing
        each = packing.length * sum(dtype.itemsize for dtype, _ in self._columns.values())
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
            return packed_state(self._mark, [], behind)
        for run, first, last in reversed(self._stands):
            if unread <= last - first:
                return run.state(last - unread)
            unread -= last - first
        return self._begin

    def batch(self) -> Any:
        """The columns of the next batch; None at the end. It is the next one until it is `done`."""
        while self._ready < self._size:
            run = self._concat_run() if self._packing.how == "concat" else self._window_run()
            if run is None:
                break
            self._runs.append(run)
            self._ready += run.rows - run.given
        count = min(self._size, self._ready)
        if not count or (count < self._size and self._drop_last):
            self.over, self._last, self._ready = True, [], 0
            self._runs.clear()
            return None
        self._last, left = [], count
        for run in self._runs:
            last = min(run.given + left, run.rows)
            self._last.append((run, run.given, last))
            left -= last - run.given
            if not left:
                break
        return self._made(count)

    def done(self) -> None:
        """The batch is used: the state stands behind it."""
        if not self._last:
            return
        for run, _, last in self._last:
            run.given = last
        while self._runs and self._runs[0].given == self._runs[0].rows:
            self._runs.popleft()
        rows, tokens = self._given
        self._ready -= rows
        self._counts["rows"] += rows
        self._counts["tokens"] += tokens
        self.over = rows < self._size
        self._stands, self._last = self._last, []

    def metrics(self) -> dict[str, float]:
        """Those of the reader, the rows and tokens that were given, and the documents without
        tokens that were read."""
        return {**self._own.gathering.metrics(), **self._counts, "empty": self._own.empty}

    def _made(self, count: int) -> dict[str, Any]:
        shape = count, self._packing.length
        made = {name: np.empty(shape, dtype) for name, (dtype, _) in self._columns.items()}
        segments, positions = np.empty(shape, np.int32), np.empty(shape, np.int32)
        at = tokens = 0
        for run, first, last in self._last:
            end = at + last - first
            for name, (_, padding) in self._columns.items():
                run.plan.copy(
                    first, last, run.columns[name], padding, made[name][at:end].view(np.uint8)
                )
            tokens += run.plan.mark(first, last, segments[at:end], positions[at:end])
            at = end
        self._given = count, tokens
        return {**made, SEGMENTS: segments, POSITIONS: positions}

    # Runs

    def _opened(self) -> Documents:
        """The documents from the first open unit on."""
        unit = self._units[0]
        reader = self._reader_of(*unit.share)
        reader.restore(unit.begin)
        return Documents(reader, unit.share, self._content, self._threads)

    def _planned(self, parts: Sequence[Part]) -> tuple[Any, dict[str, list[Any]]]:
        """The rows of documents, and the bytes of their columns."""
        ends = np.cumsum([0, *(part.tokens for part in parts)])
        splits = [part.splits[1:] + end for part, end in zip(parts, ends, strict=False)]
        whole = np.concatenate([np.zeros(1, np.int64), *splits])
        columns = {
            name: [part.columns[name].view(np.uint8) for part in parts] for name in self._columns
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

    def _window_state(self, first: Part, rows: int, last: Part | None) -> Callable[[int], State]:
        """What gives the state behind some rows of a window: of this share, if it has a ``last``
        part."""
        later = tuple(self._units)

        def state(given: int) -> State:
            here = [Unit(first.share, first.before(0), given)] if given < rows else []
            behind = self._behind if last is None else last.before(len(last))
            return packed_state(self._mark, [*here, *later], behind)

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
        self._carried = [] if whole else parts_from(parts, rows * self._packing.length)
        return _Run(plan, columns, rows, self._concat_state(parts))

    def _next_part(self) -> Part | None:
        """The rest of an open document, or the next ones of the share."""
        if not self._units:
            return None if self._no_more else self._own.part()
        unit, found = self._units[0], self._opened().part()
        if found is None or not 0 < unit.given < int(found.splits[1]):
            raise ValueError(f"state= has {unit.given} tokens of a document that has not more")
        self._units.popleft()
        return replace(found.first(1).rest(0, unit.given), unit=True)

    def _concat_state(self, parts: Sequence[Part]) -> Callable[[int], State]:
        """What gives the state behind some rows of documents that are laid end to end."""
        later = tuple(self._units)

        def state(given: int) -> State:
            left = parts_from(parts, given * self._packing.length)
            units = [Unit(p.share, p.before(0), p.skipped) for p in left if p.skipped]
            own = next((part for part in left if not part.unit), None)
            if own is not None:
                behind: Mapping[str, Any] = own.before(int(own.skipped > 0))
            elif parts[-1].unit:
                behind = self._behind
            else:
                behind = parts[-1].before(len(parts[-1]))
            return packed_state(self._mark, [*units, *later], behind)

        return state


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
        check_not_packed(state)
        reader.restore(state)
    return Gathering(reader, content, size, drop_last, threads)

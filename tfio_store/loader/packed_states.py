"""States of packed rows, which keep no tokens, and the same for another number of shares.

A state says where the reader stands behind the documents that were begun, and which *units* of
these are open: a window of which some rows were given, or a document of which some tokens were
given. Each unit is read again, from the place of its first record, by a reader of the share that it
is of. So a state is small. The shares of another number go on from it too: the open units are dealt
out, and what was not begun is shared out anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from tfio_store.dataset.checks import whole_number
from tfio_store.read.reshard import reshard_state

__all__ = [
    "Share",
    "State",
    "Unit",
    "check_not_packed",
    "epoch_of",
    "packed_state",
    "parse_packed",
    "reshard_states",
]

Share: TypeAlias = "tuple[int, int]"
"""The number of a share, and of how many."""
State: TypeAlias = "dict[str, Any]"

_KEY, _VERSION = "packed", 1


@dataclass(frozen=True, slots=True)
class Unit:
    """What a share has begun: a window, or a document. ``begin``: the state of the share's reader
    before it. ``given``: its rows, or its tokens, that were given."""

    share: Share
    begin: Mapping[str, Any]
    given: int

    def to_json(self) -> State:
        return {"share": list(self.share), "reader": dict(self.begin), "given": self.given}

    @classmethod
    def from_json(cls, state: Any) -> Unit:
        index, count, given = map(whole_number, (*state["share"], state["given"]))
        if index is None or count is None or given is None or not 0 <= index < count or given < 0:
            raise ValueError("a unit is of no share, or of nothing")
        return cls((index, count), dict(state["reader"]), given)


def packed_state(mark: str, units: Sequence[Unit], behind: Mapping[str, Any]) -> State:
    """The state of a packing of this mark. ``behind``: of the reader."""
    opened = [unit.to_json() for unit in units]
    return {_KEY: _VERSION, "packing": mark, "open": opened, "reader": dict(behind)}


def parse_packed(
    state: Mapping[str, Any], mark: str | None
) -> tuple[list[Unit], Mapping[str, Any]]:
    """What is open, and the reader's state behind that. A state of a reader is one where nothing
    is. ValueError if it is none, or one of another packing than of this mark."""
    if _KEY not in state:
        return [], state
    try:
        if state[_KEY] != _VERSION:
            raise ValueError(f"it has version {state[_KEY]!r}")
        units = [Unit.from_json(one) for one in state["open"]]
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
    parsed = [parse_packed(state, mark) for state in states]
    units = [unit for opened, _ in parsed for unit in opened]
    behind = reshard_state([state for _, state in parsed], count)
    return [packed_state(str(mark), units[index::count], behind[index]) for index in range(count)]


def epoch_of(state: Mapping[str, Any]) -> int:
    """The epoch of a state of a reader or a mixture. ValueError if it has none."""
    epoch = whole_number(state.get("epoch"))
    if epoch is None:
        raise ValueError(f"state= is no reader's state: {state!r}")
    return epoch


def check_not_packed(state: Mapping[str, Any]) -> None:
    """ValueError for a state of packed rows."""
    if _KEY in state:
        raise ValueError(f"state= was taken of {state.get('packing')}: pass the same pack=")

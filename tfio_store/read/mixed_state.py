"""A mixture's state: its position as JSON, with the state of each source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfio_store.read.mixed import MixedPosition, MixedWay, mixture_epoch
from tfio_store.read.position import Position
from tfio_store.read.state import MOST, position_of, state_of
from tfio_store.read.traversal import Traversal

__all__ = ["checked_mixture", "mixed_position", "mixture_state"]

_FORMAT = 3

_NUMBERS = ("epoch", "begin", "place")


def mixture_state(position: MixedPosition, way: MixedWay) -> dict[str, Any]:
    """The state of a mixture that stands at a position."""
    return {
        "format": _FORMAT,
        "mixture": _marks(way),
        **{name: getattr(position, name) for name in _NUMBERS},
        "ended": [int(ended) for ended in position.ended],
        "sources": [
            state_of(at, one.route_of(at.rest))
            for at, one in zip(position.sources, way.ways, strict=True)
        ],
    }


def _marks(way: MixedWay) -> str:
    return f"mix(seed={way.choices.seed}, stop={way.stop_at}, weights={way.choices})"


def mixed_position(state: Mapping[str, Any], way: MixedWay) -> MixedPosition:
    """The position of a state. ValueError if it is none of this mixture's."""
    checked_mixture(state)
    if state["mixture"] != _marks(way):
        raise ValueError(
            f"state= was taken of another mixture, {state['mixture']}; this is {_marks(way)}"
        )
    ways, states = way.ways, state["sources"]
    if len(states) != len(ways):
        raise ValueError(f"state= holds {len(states)} sources, and the mixture has {len(ways)}")
    sources = tuple(map(_source_position, states, ways, range(len(ways))))
    for number, at in enumerate(sources):
        if mixture_epoch(at.epoch) != state["epoch"]:
            raise ValueError(f"state= holds another epoch of source {number} than of the mixture")
    ended = tuple(map(bool, state["ended"]))
    epoch, begin, place = (state[name] for name in _NUMBERS)
    return MixedPosition(epoch, begin, place, ended, sources)


def _source_position(state: Mapping[str, Any], way: Traversal, number: int) -> Position:
    try:
        return position_of(state, way.route_of)
    except ValueError as error:
        raise ValueError(f"source {number} of the mixture: {error}") from error


def checked_mixture(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state. ValueError if it is none of a mixture."""
    found = isinstance(state, Mapping) and state.get("format") == _FORMAT
    if not found or not isinstance(state.get("mixture"), str):
        raise ValueError(f"state= is no mixture's state of format {_FORMAT}: {state!r}")
    for name in _NUMBERS:
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
            raise ValueError(f"state= holds {name}={value!r}, which is no position")
    if state["begin"] > state["place"]:
        raise ValueError(f"state= holds place={state['place']!r}, before its begin=")
    ended, sources = state.get("ended"), state.get("sources")
    if not isinstance(ended, list | tuple) or not all(one in (0, 1) for one in ended):
        raise ValueError(f"state= holds ended={ended!r}, which is no list of 0 and 1")
    if not isinstance(sources, list | tuple) or len(sources) != len(ended):
        raise ValueError("state= holds no list of as many sources")
    return state

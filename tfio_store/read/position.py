"""The place where a reader stands, and the way back to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any

from tfio_store.read.located import NO_OFFSET, Located, Standing
from tfio_store.read.route import Route

__all__ = ["Position"]

_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Position:
    """``records`` behind the start of the unit (or shuffled window) at ``position`` of an epoch's
    order.

    ``offset`` is the next frame's byte in a stream of raw records: going there needs no reading
    of what lies before. Elsewhere it is `NO_OFFSET`, a number all the same, so that all states have
    one shape.
    """

    epoch: int = 0
    position: int = 0
    records: int = 0
    offset: int = NO_OFFSET

    def at(self, located: Standing, index: int) -> Position:
        """The position of record ``index`` of a batch of the same epoch."""
        return Position(  # replace() takes several times as long
            self.epoch, located.position, located.records + index, located.offset(index)
        )

    def resume(self, batches: Iterator[Located]) -> Iterator[Located]:
        """Drop what comes before this position. ``batches`` starts with its unit, or at
        ``offset``. ValueError if there is no such position."""
        ahead = self.records
        with closing(batches):  # type: ignore[type-var]
            if self.offset != NO_OFFSET:
                batches, ahead = self._counted_on(batches), 0
            for located in batches:
                if located.position > self.position and ahead:
                    break
                if ahead:
                    cut = ahead - located.records
                    if cut >= len(located.batch):
                        ahead = 0 if cut == len(located.batch) else ahead
                        continue
                    located = replace(located, batch=located.batch[cut:], records=ahead)
                    ahead = 0
                yield located
            if ahead:
                raise ValueError(
                    f"state= stands behind record {self.records} of a file or block that has fewer"
                )

    def _counted_on(self, batches: Iterator[Located]) -> Iterator[Located]:
        """What comes from ``offset`` on, with the records before it counted."""
        for located in batches:
            if located.position == self.position:
                located = replace(located, records=located.records + self.records)
            yield located

    def to_json(self, route: Route) -> dict[str, Any]:
        return {"format": _FORMAT, **_identity(route), **asdict(self)}

    @classmethod
    def from_json(cls, state: Mapping[str, Any], route: Route) -> Position:
        """ValueError if the state is not one of this library's, was taken of another source or
        order, or stands where there is nothing."""
        if state.get("format") != _FORMAT:
            raise ValueError(f"state= is no reader's state of format {_FORMAT}: {dict(state)!r}")
        _check_identity(state, route)
        least = {"epoch": 0, "position": 0, "records": 0, "offset": NO_OFFSET}
        for name, smallest in least.items():
            value = state.get(name)
            if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
                raise ValueError(f"state= holds {name}={value!r}, which is no position")
        found = cls(**{name: state[name] for name in least})
        found._check(route)
        return found

    def _check(self, route: Route) -> None:
        """ValueError for a position beyond the end, or an offset where there are none."""
        if self == Position(epoch=self.epoch):
            return
        course = route.course(self.epoch)
        most = course.records_at(self.position)
        if most is None:
            raise ValueError(
                f"state= holds position={self.position}, which is no place to go on from: the "
                f"order has {len(course)} positions"
            )
        if self.records > most:
            raise ValueError(
                f"state= holds records={self.records}, where position {self.position} has {most}"
            )
        if self.offset > route.offsets_to(self.position, self.epoch):
            raise ValueError(f"state= holds offset={self.offset}, which the file does not reach")


def _identity(route: Route) -> dict[str, Any]:
    return {"source": route.source, "order": route.steps_text, "blocks": route.blocks}


_OTHERS = {
    "source": "another source: its files or their sizes differ",
    "order": "another order, {theirs}; this reader's is {ours}",
    "blocks": "the same files, but other blocks: their index or on_corrupt= differs",
}


def _check_identity(state: Mapping[str, Any], route: Route) -> None:
    for name, ours in _identity(route).items():
        theirs = state.get(name)
        if theirs != ours:
            raise ValueError(
                "state= was taken of " + _OTHERS[name].format(theirs=theirs, ours=ours)
            )

"""The rest of an epoch that other readers began: what their shares had not given yet.

When states are resharded, nothing is known but where each reader stood. That is what the new states
hold, as a `Stage`. A reader that restores one finds the old orders again, for they depend on
the data and the steps alone. What lies behind the old readers' places are pieces like others: they
are shared out by the new reader's own steps. A window of which a part was given goes on in its own
permutation. Readers of a rest can be resharded too, which is one more stage.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tfio_store.read.course import Course, course_of
from tfio_store.read.order import (
    Share,
    Shuffle,
    Step,
    last_shuffle,
    parse_steps,
    place_of,
    rearrange,
    steps_at,
    steps_text,
)
from tfio_store.read.pieces import Pieces
from tfio_store.read.plan import Units

__all__ = ["Cursor", "Rest", "Stage", "course_of_rest", "parse_rest", "rest_text"]

Cursor: TypeAlias = "tuple[int, int] | None"
"""Position and records of a reader; None if it has given all of its share."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where all readers of one layout stood. ``steps`` are those of the first of them."""

    steps: tuple[Step, ...]
    cursors: tuple[Cursor, ...]


Rest: TypeAlias = "tuple[Stage, ...]"
"""The stages by which an epoch came to its rest. Without any, nothing had been given."""


def rest_text(rest: Rest | None) -> str:
    """The stages as JSON. "" if the epoch was not resharded."""
    if rest is None:
        return ""
    return json.dumps([[steps_text(one.steps), one.cursors] for one in rest], separators=(",", ":"))


def parse_rest(text: Any) -> Rest | None:
    """The stages that `rest_text` made a text of. ValueError for any other."""
    if text == "":
        return None
    try:
        found = json.loads(text)
        if not isinstance(found, list):
            raise ValueError("it is no list")
        return tuple(_stage(*one) for one in found)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"state= holds rest={text!r}, which is none: {error}") from error


def _stage(order: str, cursors: list[Any]) -> Stage:
    steps = parse_steps(order)
    if len(cursors) != place_of(steps)[1]:
        raise ValueError(f"{order!r} is not the order of {len(cursors)} readers")
    return Stage(steps, tuple(_cursor(one) for one in cursors))


def _cursor(found: Any) -> Cursor:
    if found is None:
        return None
    position, records = found
    if not all(type(number) is int and number >= 0 for number in (position, records)):
        raise ValueError(f"{found!r} is no place of a reader")
    return position, records


def course_of_rest(units: Units, steps: tuple[Step, ...], rest: Rest, epoch: int) -> Course:
    """What a reader of these steps gives of the rest of an epoch. ValueError for a cursor that
    stands nowhere."""
    course = _first(units, rest[0], epoch)
    for stage in rest[1:]:
        course = _later(course, stage, epoch)
    return _shared(course, steps, epoch)


def _first(units: Units, stage: Stage, epoch: int) -> Course:
    """What the readers of a dataset had not given."""
    shuffle = last_shuffle(stage.steps)
    pieces, alike = Pieces(range(len(units))), 0
    while alike < len(stage.steps) and isinstance(stage.steps[alike], Shuffle):
        alike += 1  # the steps before the first share are the same for all: they are taken once
    pieces = rearrange(pieces, units, stage.steps[:alike], epoch)
    courses = []
    for index, cursor in enumerate(stage.cursors):
        own = steps_at(stage.steps, index)[alike:]
        course = course_of(units, rearrange(pieces, units, own, epoch), shuffle)
        if not stage.steps and cursor is not None:
            cursor = _in_blocks(units, cursor)
        courses.append(_tail(course, cursor))
    return Course.joined(courses)


def _in_blocks(units: Units, cursor: tuple[int, int]) -> tuple[int, int]:
    """The place of a reader in order, which reads raw shards as streams, in blocks."""
    position, records = cursor
    streams = Units(units.dataset, streams=True)
    if position >= len(streams):
        return len(units), records
    shard, block = streams[position]
    first = units.first(shard)
    if block is not None or units.is_stream(shard):
        return first + position - streams.first(shard), records
    (table,) = units.dataset.tables([shard])
    found = int(np.searchsorted(table.records, records, side="right")) - 1
    found = max(min(found, len(table) - 1), 0)
    return first + found, records - int(table.records[found])


def _later(course: Course, stage: Stage, epoch: int) -> Course:
    """What the readers of a rest had not given."""
    shares = enumerate(stage.cursors)
    return Course.joined(
        [_tail(_shared(course, steps_at(stage.steps, i), epoch), cursor) for i, cursor in shares]
    )


def _tail(course: Course, cursor: Cursor) -> Course:
    return course.empty() if cursor is None else course.tail(*cursor)


def _shared(course: Course, steps: tuple[Step, ...], epoch: int) -> Course:
    for step in steps:
        if isinstance(step, Share):
            course = course.share(step, epoch)
    return course

"""A reader's state: its position as JSON, with marks of the source and the order it belongs to."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from tfio_store.dataset.model import Dataset, Shard, hold_versions
from tfio_store.errors import ReplacedError
from tfio_store.read.cursor import Position, ReaderOrder, Rest, parse_rest, rest_text
from tfio_store.read.decode import NO_OFFSET
from tfio_store.read.order import Shuffle, Step, parse_steps, place_of, steps_text

__all__ = [
    "MOST",
    "differing",
    "hold_to",
    "made_state",
    "numbers_of",
    "position_of",
    "state_of",
    "together",
    "versions_text",
]


# Which versions of its files a state was taken of, as text.
#
# A manifest has a shard's CRC32C, which a copy of the dataset has too. For another file the store
# has an etag. That says something only while the file lies where it lay: of a file with another
# URL, or reached another way, it is unknown whether it is a copy.


MOST_NAMED = 64
"""The versions of so many files are kept one by one. Of more, one number stands for all."""

_UNKNOWN = "?"


def versions_text(dataset: Dataset) -> str:
    """The marks that `differing` compares: a digest of where the files lie, and a mark of each.
    Nothing of a long dataset, the list of which has CRCs of its own."""
    if dataset.shards.long:
        return ""
    place = zlib.crc32(dataset.storage.backend.encode())
    shards = [dataset.shard(i) for i in range(len(dataset.shards))]
    for shard in shards:
        place = zlib.crc32(f"{shard.url}\0".encode(), place)
    marks = [_mark(shard) for shard in shards]
    if len(marks) > MOST_NAMED:
        kinds = {mark[0] for mark in marks}
        crc = zlib.crc32(" ".join(marks).encode())
        marks = [_UNKNOWN if len(kinds) > 1 else f"{kinds.pop()}{crc:08x}"]
    return " ".join([f"{place:08x}", *marks])


def _mark(shard: Shard) -> str:
    if shard.crc32c is not None:
        return f"c{shard.crc32c:08x}"
    mark = shard.version.mark(shard.url)
    return _UNKNOWN if mark is None else f"e{mark}"


def hold_to(versions: object, dataset: Dataset) -> None:
    """Read only these versions, of which a state was taken. ReplacedError if another is there."""
    _check_versions(versions, dataset)
    _expect(versions, dataset)


def _expect(versions: object, dataset: Dataset) -> None:
    """Bind files whose versions are not known yet to those of a state that is gone on from."""
    if not isinstance(versions, str):
        return
    place, *others = versions.split(" ")
    here, *marks = versions_text(dataset).split(" ")
    if place != here or len(marks) != len(dataset.shards):
        return
    for shard, mark, other in zip(dataset.shards, marks, others, strict=False):
        if mark == _UNKNOWN and other[:1] == "e":
            shard.version.expect(other[1:])


def together(theirs: str, ours: str) -> str:
    """What two texts that do not differ know of the versions."""
    there, *others = theirs.split(" ")
    here, *marks = ours.split(" ")
    if there != here or len(others) != len(marks):
        return ours
    pairs = zip(others, marks, strict=True)
    return " ".join([here, *(other if mark == _UNKNOWN else mark for other, mark in pairs)])


def differing(theirs: str, ours: str) -> int | None:
    """The number of the first file whose version differs in two texts, or None."""
    there, *others = theirs.split(" ")
    here, *marks = ours.split(" ")
    kinds = "ce" if there == here else "c"
    for number, (one, other) in enumerate(zip(others, marks, strict=False)):
        if one != other and one[:1] == other[:1] and one[:1] in kinds:
            return number
    return None


_FORMAT = 3

MOST = 1 << 62
"""No number of a state is larger."""

_LEAST = {"epoch": 0, "position": 0, "records": 0, "offset": NO_OFFSET}

_OTHERS = {
    "source": "another source: its files or their sizes differ",
    "order": "another order, {theirs}; this reader's is {ours}",
    "blocks": "the same files, but other blocks: their index or on_corrupt= differs",
}


def state_of(position: Position, reader_order: ReaderOrder) -> dict[str, Any]:
    """The state of a reader that stands at a position."""
    blocks, versions = reader_order.blocks(position.rest), versions_text(reader_order.dataset)
    return made_state(
        position,
        source=reader_order.source,
        steps=reader_order.steps,
        blocks=blocks,
        versions=versions,
    )


def made_state(
    position: Position, *, source: str, steps: tuple[Step, ...], blocks: str, versions: str
) -> dict[str, Any]:
    """A state of these marks. All states have one shape."""
    return {
        "format": _FORMAT,
        "source": source,
        "versions": versions,
        "order": steps_text(steps),
        "blocks": blocks,
        **{name: getattr(position, name) for name in _LEAST},
        "rest": rest_text(position.rest),
    }


def position_of(
    state: Mapping[str, Any], order_of: Callable[[Rest | None], ReaderOrder]
) -> Position:
    """The position of a state. ``order_of``: the reader's way through an epoch's rest.

    ValueError if the state is not one of this library's, was taken of another source or order, or
    stands where there is nothing. ReplacedError if it was taken of another version of a file."""
    numbers = numbers_of(state)
    rest = parse_rest(state["rest"])
    reader_order = order_of(rest)
    _check_same("source", state, reader_order.source)
    versions = state.get("versions")
    _check_versions(versions, reader_order.dataset)
    _check_order(state, rest, reader_order.steps)
    if rest == ():
        if numbers["position"] or numbers["records"]:
            raise ValueError(
                "state= holds a place in the rest of an epoch of which nothing was given"
            )
        return Position(epoch=numbers["epoch"])
    _check_same("blocks", state, reader_order.blocks(rest))
    found = Position(**numbers, rest=rest)
    _check_place(found, reader_order)
    _expect(versions, reader_order.dataset)
    return found


def numbers_of(state: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of a state. ValueError if it is not one of this library's."""
    newer = state.get("format") if isinstance(state, Mapping) else None
    if isinstance(newer, int) and newer > _FORMAT:
        raise ValueError(
            f"state= has format {newer}, which a newer tfio_store wrote: update it to go on there"
        )
    if not isinstance(state, Mapping) or state.get("format") != _FORMAT or "rest" not in state:
        raise ValueError(f"state= is no reader's state of format {_FORMAT}: {state!r}")
    for name, smallest in _LEAST.items():
        value = state.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= MOST:
            raise ValueError(f"state= holds {name}={value!r}, which is no position")
    return {name: state[name] for name in _LEAST}


def _check_versions(theirs: object, dataset: Dataset) -> None:
    if len(dataset.shards) > MOST_NAMED and " e" in str(theirs) and not dataset.shards.long:
        hold_versions(dataset)  # one number tells only whether all of them are the same
    found = differing(theirs, versions_text(dataset)) if isinstance(theirs, str) else None
    if found is None:
        return
    count = len(dataset.shards)
    among = f" (or another of the {count} files)" if count > MOST_NAMED else ""
    raise ReplacedError(
        errno.ESTALE,
        f"state= was taken of another version of this file{among}, which was replaced since; begin "
        "anew, or read what was there then",
        dataset.shard(found).url,
    )


def _another(name: str, theirs: object, ours: object) -> ValueError:
    """The error for a state of another "source", "order" or "blocks"."""
    return ValueError("state= was taken of " + _OTHERS[name].format(theirs=theirs, ours=ours))


def _check_same(name: str, state: Mapping[str, Any], ours: str) -> None:
    if state.get(name) != ours:
        raise _another(name, state.get(name), ours)


def _check_order(state: Mapping[str, Any], rest: Rest | None, steps: tuple[Step, ...]) -> None:
    """A rest that is not begun may be shared out in any way that has so many shares."""
    theirs, ours = state.get("order"), steps_text(steps)
    if theirs == ours:
        return
    if rest is None or state["position"] or state["records"] or not isinstance(theirs, str):
        raise _another("order", theirs, ours)
    wanted = parse_steps(theirs)
    if _shuffles(wanted) != _shuffles(steps) or place_of(wanted) != place_of(steps):
        raise _another("order", theirs, ours)


def _shuffles(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if isinstance(step, Shuffle)]


def _check_place(found: Position, reader_order: ReaderOrder) -> None:
    """ValueError for a position beyond the end, or an offset where there are none."""
    for stage in found.rest or ():
        if _shuffles(stage.steps) != _shuffles(reader_order.steps):
            raise _another("order", steps_text(stage.steps), steps_text(reader_order.steps))
    if found == Position(epoch=found.epoch):
        return
    epoch_order = reader_order.epoch_order(found.epoch, found.rest)
    if found == Position(epoch=found.epoch, rest=found.rest):
        return
    most = epoch_order.records_at(found.position)
    if most is None:
        raise ValueError(
            f"state= holds position={found.position}, which is no place to go on from: the "
            f"order has {len(epoch_order)} positions"
        )
    if found.records > most:
        raise ValueError(
            f"state= holds records={found.records}, where position {found.position} has {most}"
        )
    if found.offset > reader_order.offsets_to(found.position, epoch_order):
        raise ValueError(f"state= holds offset={found.offset}, which the file does not reach")

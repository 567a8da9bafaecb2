"""`reshard_state`: from the states of all workers to those of another number of workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfio_store.read.cursor import Cursor, Position, Rest, Stage, parse_rest
from tfio_store.read.decode import NO_OFFSET
from tfio_store.read.mixed import checked_mixture, first_epoch
from tfio_store.read.order import Share, Step, parse_steps, place_of, steps_at, steps_text
from tfio_store.read.state import differing, made_state, numbers_of, together

__all__ = ["reshard_state"]


def reshard_state(states: Sequence[Mapping[str, Any]], count: int) -> list[dict[str, Any]]:
    """Make of the states of all shares of a reader those of another number of shares.

    It works in the midst of an epoch, without the data. Each record of the epoch that none of the
    old readers gave comes once from the new ones, and none comes that was given. State ``j`` is for
    ``reader.shard(j, count).restore``, with the steps of the old readers before and behind: the
    same source, and the same shuffles. Shares of shares are counted through:
    ``shard(rank, ranks).shard(worker, workers)`` takes state ``rank * workers + worker``. New
    states can be resharded again, also in the midst of the same epoch. The next epoch has the order
    that it always has for so many shares.

    States of a `Mixture` are resharded source by source. Where a source has begun anew in an epoch,
    the records that some shares have given of it in advance come once more.

    With ``even`` each new share has the same number of the records that are left: "drop" leaves out
    the last ones, and "pad" repeats the first ones. What "drop" of the old shares left out stays
    out, and what "pad" of the old shares was to repeat is left like other records.

    Args:
        states (list[dict]): What `RecordReader.state` or `Mixture.state` returned for each share,
            in any order. All stand in the same epoch, or have ended it.
        count (int): The number of new shares, 1 or more.

    Returns:
        list[dict]: ``count`` states. They are small: a few bytes for each old share, and JSON can
        hold them.

    Raises:
        ValueError: The states are not all of the shares of one reader, or ``count`` is below 1. It
            says what differs.

    Example:
        >>> _ = tfs.write_table({"x": list(range(100))}, "train", max_shard_bytes=100)
        >>> old = [tfs.RecordReader("train").shuffle(7).shard(i, 2) for i in range(2)]
        >>> given = [next(iter(reader)) for reader in old]
        >>> states = tfs.reshard_state([reader.state() for reader in old], 3)
        >>> new = [tfs.RecordReader("train").shuffle(7).shard(j, 3) for j in range(3)]
        >>> for reader, state in zip(new, states):
        ...     reader.restore(state)
        >>> given += [record for reader in new for record in reader]
        >>> len(given), len(set(given))
        (100, 100)
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count= takes 1 or more workers, not {count!r}")
    if isinstance(states, Mapping):
        raise ValueError("states= is one state; it takes a list of those of all shares of a reader")
    if isinstance(states, str | bytes) or not isinstance(states, Iterable):
        raise TypeError(f"states= takes a list of states, not a {type(states).__name__}")
    states = list(states)
    if not states:
        raise ValueError("states= holds no state; it takes those of all shares of a reader")
    if any(isinstance(state, Mapping) and "mixture" in state for state in states):
        return _of_mixtures([checked_mixture(state) for state in states], count)
    return _of_readers(states, count)


def _of_readers(states: Sequence[Mapping[str, Any]], count: int) -> list[dict[str, Any]]:
    found = [_Taken.of(state) for state in states]
    epoch = min(one.epoch for one in found)
    for number, one in enumerate(found):
        _check_epoch(number, one, epoch)
    begun = next(one for one in found if one.epoch == epoch)
    versions = begun.versions
    for number, one in enumerate(found):
        _check_alike(number, one, begun, versions)
        versions = together(one.versions, versions)  # each share knows those that it has read
    cursors = tuple(_in_order([one.cursor(epoch) for one in found], [one.steps for one in found]))
    rest = begun.rest or ()
    if any(cursor != (0, 0) for cursor in cursors):
        rest = (*rest, Stage(steps_at(begun.steps, 0), cursors))
    fresh = Position(epoch=epoch, rest=rest)
    marks = {"source": begun.source, "blocks": begun.blocks, "versions": versions}
    return [
        made_state(fresh, steps=_one_share(begun.steps, index, count), **marks)
        for index in range(count)
    ]


def _of_mixtures(states: Sequence[Mapping[str, Any]], count: int) -> list[dict[str, Any]]:
    """Each source by itself. The choices go on behind the last place of all."""
    first = states[0]
    for number, state in enumerate(states):
        if state["mixture"] != first["mixture"] or len(state["ended"]) != len(first["ended"]):
            raise ValueError(
                f"states[{number}] was taken of another mixture, {state['mixture']}, than states[0]"
                f", {first['mixture']}"
            )
    epoch = min(state["epoch"] for state in states)
    for number, state in enumerate(states):
        if state["epoch"] > epoch + (not state["place"]):
            raise ValueError(
                f"states[{number}] stands in epoch {state['epoch']}, and another one in epoch "
                f"{epoch}: take the states of all shares in the same epoch"
            )
    begun = [state["epoch"] == epoch for state in states]
    place = max(state["place"] for state in states)
    ended, sources = [], []
    for source in range(len(first["ended"])):
        found = _passes([state["sources"][source] for state in states], begun)
        new = _of_readers(found, count)
        ended.append(int(new[0]["epoch"] > first_epoch(epoch)))
        sources.append(new)
    return [
        {
            "format": first["format"],
            "mixture": first["mixture"],
            "epoch": epoch,
            "begin": place,
            "place": place,
            "ended": ended,
            "values": [0] * len(ended),
            "sources": [new[index] for new in sources],
        }
        for index in range(count)
    ]


def _passes(states: list[Mapping[str, Any]], begun: list[bool]) -> list[Mapping[str, Any]]:
    """The states of one source, with those that are ahead at the end of the first pass that is
    still going on. So is a share of a mixture whose epoch has ended."""
    for state in states:
        numbers_of(state)
    current = min(one["epoch"] for one, going in zip(states, begun, strict=True) if going)
    end = {"epoch": current + 1, "position": 0, "records": 0, "offset": NO_OFFSET, "rest": ""}
    return [
        one if going and one["epoch"] == current else {**one, **end}
        for one, going in zip(states, begun, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _Taken:
    """A state, taken apart."""

    source: str
    versions: str
    blocks: str
    steps: tuple[Step, ...]
    rest: Rest | None
    epoch: int
    place: tuple[int, int]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> _Taken:
        numbers = numbers_of(state)
        marks = [state.get(name) for name in ("source", "blocks", "order")]
        if not all(isinstance(mark, str) for mark in marks):
            raise ValueError(f"states= holds no reader's state: {state!r}")
        source, blocks, order = map(str, marks)
        place = numbers["position"], numbers["records"]
        rest = parse_rest(state["rest"])
        versions = state.get("versions")
        text = versions if isinstance(versions, str) else ""
        return cls(source, text, blocks, parse_steps(order), rest, numbers["epoch"], place)

    def cursor(self, epoch: int) -> Cursor:
        return self.place if self.epoch == epoch else None


def _check_epoch(number: int, one: _Taken, epoch: int) -> None:
    """One that has given its share stands at the beginning of the next epoch."""
    if one.epoch == epoch or (one.epoch == epoch + 1 and one.place == (0, 0)):
        return
    raise ValueError(
        f"states[{number}] stands in epoch {one.epoch}, and another one in epoch {epoch}: take the "
        "states of all shares in the same epoch"
    )


def _check_alike(number: int, one: _Taken, other: _Taken, versions: str) -> None:
    """ValueError unless both are of one reader's shares, and of these versions of its files."""
    if one.source != other.source:
        raise ValueError(f"states[{number}] was taken of another source: its files differ")
    if differing(one.versions, versions) is not None:
        raise ValueError(f"states[{number}] was taken of another version of its files")
    if steps_at(one.steps, 0) != steps_at(other.steps, 0):
        theirs, ours = steps_text(one.steps), steps_text(other.steps)
        raise ValueError(
            f"states[{number}] was taken of {theirs}, which is of another order than {ours}"
        )
    if one.epoch != other.epoch:
        return
    if one.blocks != other.blocks:
        raise ValueError(f"states[{number}] was taken of other blocks: the index differs")
    if one.rest != other.rest:
        raise ValueError(f"states[{number}] was taken of the rest of another epoch")


def _in_order(cursors: list[Cursor], steps: list[tuple[Step, ...]]) -> list[Cursor]:
    """The cursors by the places of their shares. ValueError unless there is one for each."""
    count = place_of(steps[0])[1]
    numbers = [place_of(each)[0] for each in steps]
    for index in range(count):
        times = numbers.count(index)
        if times != 1:
            held = "holds no state" if not times else f"holds {times} states"
            raise ValueError(
                f"states= {held} of share {index} of {count}; it takes one of each share"
            )
    return [cursors[numbers.index(index)] for index in range(count)]


def _one_share(steps: tuple[Step, ...], index: int, count: int) -> tuple[Step, ...]:
    """These steps, with one share in place of all."""
    shuffles = [step for step in steps if not isinstance(step, Share)]
    before = next((at for at, step in enumerate(steps) if isinstance(step, Share)), len(steps))
    return (*shuffles[:before], Share(index, count), *shuffles[before:])

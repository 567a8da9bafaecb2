"""Chooses what a sample reads: one block by chance of each of many equal parts of a dataset.

The parts are of the stored bytes, so every region of the dataset is looked at. Files without an
index have no blocks. Small ones are read whole, large raw ones in spots, and compressed streams
from their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import counted
from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import Block, Dataset
from tfio_store.records.arrays import Int64Array
from tfio_store.show.model import number
from tfio_store.storage.store import LOOKS_AT_ONCE
from tfio_store.storage.threads import mapped

SPOT_BYTES = 256 << 10
"""Bytes that are read at a spot of a file without an index; and the share of a spot in what is read
of files that have none."""

_MOST_BYTES = 512 << 20
"""Uncompressed bytes of all blocks of a sample."""

_MOST_BLOCK_BYTES = 64 << 20
"""Blocks of more are of one huge record, which would not fit into a sample's memory."""

_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class BlockPick:
    """A block. ``first`` is the number of its first record in its shard."""

    shard: int
    block: Block
    first: int

    @property
    def start(self) -> int:
        return self.block.start


@dataclass(frozen=True, slots=True)
class SpotPick:
    """A raw shard without an index, from byte ``start`` on, where some record may lie."""

    shard: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class FilePick:
    """A shard from its beginning, up to the stored byte ``stop``. ``room``: how many uncompressed
    bytes may come out."""

    shard: int
    codec: str | None
    stop: int
    room: int | None
    start: int = 0


Pick: TypeAlias = "BlockPick | SpotPick | FilePick"


@dataclass(slots=True)
class Plan:
    """The blocks to read, in the dataset's order."""

    picks: Iterable[Pick]
    count: int
    of_blocks: int | None
    spots: bool
    unreadable: dict[int, OSError] = field(default_factory=dict)
    codecs: dict[int, str | None] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


def chosen(dataset: Dataset, *, blocks: int, seed: int, full: bool) -> Plan:
    """The picks of a sample of about so many blocks, or of all that there is."""
    if full:
        return _all(dataset)
    nbytes, known, of_blocks = _sizes(dataset)
    if of_blocks is not None and of_blocks <= blocks:
        return _thinned(_every_block(dataset, range(len(nbytes))), of_blocks, None)
    ends = np.cumsum(nbytes)
    total = int(ends[-1]) if len(ends) else 0
    if not total:
        return Plan((), 0, of_blocks, False)
    chance = np.random.default_rng(seed)
    places = ((np.arange(blocks) + chance.random(blocks)) * (total / blocks)).astype(np.int64)
    places = np.minimum(places, total - 1)
    shards = np.searchsorted(ends, places, side="right")
    within = places - (ends - nbytes)[shards]
    of_known = known[shards]
    picks = _blocks_at(dataset, shards[of_known], within[of_known])
    for _ in range(_ROUNDS):  # two strata may have met in one block
        if of_blocks is None or len(picks) >= blocks:
            break
        places = chance.integers(0, total, blocks - len(picks))
        shards = np.searchsorted(ends, places, side="right")
        picks |= _blocks_at(dataset, shards, places - (ends - nbytes)[shards])
    plan = _thinned([picks[place] for place in sorted(picks)], of_blocks, chance)
    if not of_known.all() or not known.all():
        loose = _Loose(dataset, nbytes, blocks, seed)
        loose.choose(shards[~of_known], within[~of_known], np.flatnonzero(~known))
        loose.add_to(plan)
    return plan


def _sizes(dataset: Dataset) -> tuple[Int64Array, npt.NDArray[np.bool_], int | None]:
    """Each shard's stored bytes, and whether its blocks are known; and how many blocks there
    are in all, if that is."""
    nbytes, blocks = dataset.shards.columns("nbytes", "blocks")
    return nbytes, blocks >= 0, dataset.shards.blocks


def _every_block(dataset: Dataset, shards: Sequence[int]) -> Iterator[BlockPick]:
    for shard, table in zip(shards, dataset.shards.tables(shards), strict=True):
        for block in range(len(table)):
            yield BlockPick(shard, dataset.block(shard, block), int(table.records[block]))


def _blocks_at(
    dataset: Dataset, shards: Int64Array, within: Int64Array
) -> dict[tuple[int, int], BlockPick]:
    """The blocks that hold these bytes of these shards, by shard and number."""
    found = {}
    wanted = np.unique(shards).tolist()
    for shard, table in zip(wanted, dataset.shards.tables(wanted), strict=True):
        if not len(table):
            continue
        places = within[shards == shard] + int(table.offsets[0])
        numbers = np.searchsorted(table.offsets, places, side="right") - 1
        for block in np.unique(np.clip(numbers, 0, len(table) - 1)).tolist():
            pick = BlockPick(shard, dataset.block(shard, block), int(table.records[block]))
            found[shard, block] = pick
    return found


def _thinned(
    picks: Iterable[BlockPick], of_blocks: int | None, chance: np.random.Generator | None
) -> Plan:
    """The plan of these blocks, without those that are too large for a sample."""
    every = list(picks)
    fit = [pick for pick in every if _raw_bytes(pick) <= _MOST_BLOCK_BYTES]
    plan = Plan((), 0, of_blocks, False)
    if len(fit) < len(every):
        huge = counted(len(every) - len(fit), "block")
        plan.left_out.append(f"{huge} of more than {_MOST_BLOCK_BYTES >> 20} MiB")
    sizes = np.array([_raw_bytes(pick) for pick in fit], np.int64)
    total = int(sizes.sum())
    if total > _MOST_BYTES:
        keep = max(1, int(len(fit) * _MOST_BYTES / total))
        chance = chance or np.random.default_rng(0)
        rows = np.sort(chance.choice(len(fit), keep, replace=False))
        fit = [fit[row] for row in rows.tolist()]
        plan.left_out.append(
            f"{number(len(sizes) - keep)} of {counted(len(sizes), 'chosen block')}: together they "
            f"are over {_MOST_BYTES >> 20} MiB"
        )
    plan.picks, plan.count = fit, len(fit)
    return plan


def _raw_bytes(pick: BlockPick) -> int:
    return pick.block.raw_stop - pick.block.raw_start


class _Loose:
    """Chooses parts of the files that have no index."""

    def __init__(self, dataset: Dataset, nbytes: Int64Array, blocks: int, seed: int) -> None:
        self._dataset = dataset
        self._nbytes = nbytes
        self._room = blocks * SPOT_BYTES
        self._blocks = blocks
        self._seed = seed
        self._picks: list[SpotPick | FilePick] = []
        self._codecs: Mapping[int, str | None] = {}
        self._unreadable: dict[int, OSError] = {}
        self._left_out: list[str] = []

    def choose(self, shards: Int64Array, within: Int64Array, every: Int64Array) -> None:
        """``shards`` and ``within``: where the strata's places lie. ``every``: all such files."""
        small = int(self._nbytes[every].sum()) <= self._room and len(every) <= self._blocks
        looked = every.tolist() if small else np.unique(shards).tolist()
        self._look(looked)
        streams = [i for i in self._codecs if self._codecs[i] is not None]
        room = max(4 << 20, (256 << 20) // max(1, len(streams)))
        cut = 0
        for shard in self._codecs:
            codec, nbytes = self._codecs[shard], int(self._nbytes[shard])
            mine = np.sort(within[shards == shard])
            share = max(2, len(mine)) * SPOT_BYTES
            if codec is not None:
                stop = nbytes if small else min(nbytes, share)
                self._picks.append(FilePick(shard, codec, stop, room))
                cut += stop < nbytes
            elif small or nbytes <= share:
                self._picks.append(FilePick(shard, None, nbytes, None))
            else:
                self._spots(shard, mine, nbytes)
        if not small and len(looked) < len(every):
            self._left_out.append(
                f"{number(len(every) - len(looked))} of {counted(len(every), 'file')} without an "
                "index: no part of these was drawn"
            )
        if cut:
            self._left_out.append(
                f"all but the beginning of {counted(cut, 'compressed file')}, which can be read "
                "only in order"
            )

    def _spots(self, shard: int, places: Int64Array, nbytes: int) -> None:
        stop = 0
        for place in places.tolist():
            start = max(place, stop)
            stop = min(start + SPOT_BYTES, nbytes)
            if start < stop:
                self._picks.append(SpotPick(shard, start, stop))

    def _look(self, shards: list[int]) -> None:
        """Find the codecs, many at once."""

        def look(shard: int) -> str | OSError | None:
            try:
                return codec_of(self._dataset, shard)
            except OSError as error:
                return error

        found = dict(zip(shards, mapped(look, shards, LOOKS_AT_ONCE), strict=True))
        self._unreadable = {i: e for i, e in found.items() if isinstance(e, OSError)}
        self._codecs = {i: c for i, c in found.items() if not isinstance(c, OSError)}

    def add_to(self, plan: Plan) -> None:
        picks = sorted([*plan.picks, *self._picks], key=lambda pick: (pick.shard, pick.start))
        plan.picks, plan.count = picks, len(picks)
        for pick in self._picks:
            if isinstance(pick, SpotPick):
                plan.spots = True
        plan.codecs.update(self._codecs)
        plan.unreadable.update(self._unreadable)
        plan.left_out += self._left_out


def _all(dataset: Dataset) -> Plan:
    """Everything: files without an index from beginning to end."""
    count = dataset.shards.blocks
    if count is not None:
        return Plan(_every_block(dataset, range(len(dataset.shards))), count, count, False)
    picks: list[Pick] = []
    for shard, each in enumerate(dataset.shards):
        if each.blocks is None:
            picks.append(FilePick(shard, each.compression, each.nbytes, None))
        else:
            picks += _every_block(dataset, [shard])
    return Plan(picks, len(picks), None, False)

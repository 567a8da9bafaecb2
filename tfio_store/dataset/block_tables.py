"""Block tables: where the blocks of a shard lie, to and from the section of an index. No I/O.

The payload of a section "table"; the arrays are as `BlockTable` has them::

    u64 nbytes  u64 records  u64 blocks  u32 crc32c  u32 flags
    i64 offsets[blocks + 1]
    i64 raw_offsets[blocks + 1]   if it is COMPRESSED
    i64 records[blocks + 1]
    u32 starts[records]           if it is POSITIONED
    u32 crcs[records]             if it is POSITIONED and SUMMED
    u32 sums[blocks + 1]          if it is SUMMED

nbytes, records and crc32c repeat those of the list of shards. So a table of another generation is
recognised.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.container import payload_of, section, section_bytes
from tfio_store.dataset.inflate.checkpoints import Checkpoints
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import FRAME_OVERHEAD, RecordBatch, crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike


# Where each record of a raw shard begins. By this one record is read alone, without its block.
#
# The numbers count from the start of the record's block, so that 32 bits hold them.


StartsArray = npt.NDArray[np.uint32]
"""uint32 [n_records]: bytes from the start of a record's block to the record's frame."""

CrcsArray = npt.NDArray[np.uint32]
"""uint32 [n]: sums of records, or their masked CRCs; see `BlockTable`."""

MOST_BLOCK_BYTES = 64 << 20
"""A writer ends a block with the record that makes it as long as this, or before."""

START_BYTES = 4
"""Bytes of a start, a CRC or a sum in the index."""

_LEAST_FRAME = 1 << 10
"""From this mean size of frames on, starts take less than half a percent of the data."""


def are_cheap(nbytes: int, records: int) -> bool:
    """Whether the starts of so many records are small beside ``nbytes`` of frames."""
    return records > 0 and nbytes >= _LEAST_FRAME * records


def relative_starts(frames: Int64Array, offsets: Int64Array, records: Int64Array) -> StartsArray:
    """The starts of a shard's records, from the byte offsets of their ``frames`` and from its block
    table. ValueError if a record begins 4 GiB behind its block."""
    starts = frames - np.repeat(offsets[:-1], np.diff(records))
    if len(starts) and starts.max() >> 32:
        raise ValueError(f"a record begins {starts.max()} bytes behind the start of its block")
    return starts.astype(np.uint32)


def crcs_of(batch: RecordBatch) -> CrcsArray:
    """The masked CRCs that stand behind the records of a batch that was scanned."""
    places = (batch.offsets + batch.lengths)[:, None] + np.arange(START_BYTES)
    found: CrcsArray = np.frombuffer(batch.buffer, np.uint8)[places].view("<u4").ravel()
    return found.astype(np.uint32, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Where the blocks of one shard lie: three int64 arrays of n_blocks + 1 running totals.

    Block b is the stored bytes ``offsets[b]:offsets[b + 1]`` of the object; decompressed they are
    bytes ``raw_offsets[b]:raw_offsets[b + 1]`` of the record stream (for uncompressed shards the
    same array) and hold records ``records[b]:records[b + 1]`` of the shard. The first offset is 0,
    or 2 for ZLIB, whose header belongs to no block. ``starts`` of a raw shard says where each
    record's frame begins, counted from its block, or is None.

    ``sums`` say what must be in the blocks: sums[b] is CRC32C over the masked CRCs that
    stand behind the data of the records before block b, 4 bytes each. ``crcs`` are these masked
    CRCs, beside ``starts``. Both are None where they are unknown. A compressed block with sums is
    one gzip member or ZSTD frame, or one piece of the ZLIB stream.

    ``checkpoints`` are of a stream that others compressed: its blocks are found by these, and
    overlap by a few stored bytes. None for blocks that are compressed by themselves.

    A table that is not ``whole`` is of a part of its shard, as `cut_table` cuts it.
    It has some of the blocks, and numbers the records of the part. The first block may hold
    records ``before`` these, and the last one records ``behind`` them.
    """

    offsets: Int64Array
    raw_offsets: Int64Array
    records: Int64Array
    starts: StartsArray | None = None
    before: int = 0
    behind: int = 0
    whole: bool = True
    sums: CrcsArray | None = None
    crcs: CrcsArray | None = None
    checkpoints: Checkpoints | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        found = [array.nbytes for array in _arrays_of(self)]
        points = 0 if self.checkpoints is None else self.checkpoints.nbytes
        return sum(found) + sum(array.nbytes for array in _details_of(self)) + points

    @property
    def stops(self) -> Int64Array:
        """int64 [blocks]: where the stored bytes of each block end."""
        return self.offsets[1:] if self.checkpoints is None else self.checkpoints.stops

    @property
    def bounds(self) -> tuple[bool, int, int]:
        """Whether it is whole, and the records beside its own in the first and the last block."""
        return self.whole, self.before, self.behind

    def without_starts(self) -> BlockTable:
        """The table without the facts about single records."""
        if self.starts is None:
            return self
        return replace(self, starts=None, crcs=None)

    def sum_before(self, record: int) -> int | None:
        """The sum of the records before this one. None where it is unknown."""
        if self.sums is None:
            return None
        block = int(np.searchsorted(self.records, record, side="right")) - 1
        first = int(self.records[block])
        if record == first:
            return int(self.sums[block])
        if self.crcs is None:
            return None
        return crc32c(self.crcs[first:record].astype("<u4").tobytes(), int(self.sums[block]))

    def __eq__(self, other: object) -> bool:
        # of two that cut a shard alike, one may know less
        if not isinstance(other, BlockTable):
            return NotImplemented
        return (
            np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.raw_offsets, other.raw_offsets)
            and np.array_equal(self.records, other.records)
            and _same(self.starts, other.starts)
            and self.bounds == other.bounds
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        records = int(self.records[-1])
        return f"<BlockTable of {records} records in {len(self)} blocks>"


def _same(ours: StartsArray | None, theirs: StartsArray | None) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return np.array_equal(ours, theirs)


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """One finished shard.

    Attributes:
        name (str): Its name, relative to the manifest's folder.
        nbytes (int): The bytes of the object.
        records (int): The number of records.
        crc32c (int): The CRC32C of the object's bytes.
        blocks (BlockTable | None): Where its blocks lie. Default None: they are not known, or the
            index is not loaded.
        learned (dict | None): What mappings show of the columns, on the way from
            `WriteJob.write_shard` to the commit. Default None.
        values (dict): How many values its lists of numbers have, on the same way. Default {}: not
            known.

    Example:
        >>> manifest = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> shard = manifest.shards[0]
        >>> shard.name, shard.records, len(shard.blocks)
        ('train-00000.tfrecord', 3, 1)
    """

    name: str
    nbytes: int
    records: int
    crc32c: int
    blocks: BlockTable | None = None
    learned: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    values: dict[str, int] = field(default_factory=dict, compare=False, repr=False)


# A table is cut at record boundaries. Whole blocks stay as they are. A block at the end of a part
# that is cut stays whole on the store: whoever reads it decodes and checks all of it, and drops the
# records beside the part's. Where the index knows the places of a raw shard's records, the block is
# cut at its bytes instead, and nothing is read in vain.


def cut_table(table: BlockTable, first: int, stop: int) -> BlockTable:
    """Records ``first:stop`` of those in a table. None of them are in no block."""
    begin = int(np.searchsorted(table.records, first, side="right")) - 1
    if first == stop:
        return _without_blocks(table, begin)
    end = int(np.searchsorted(table.records, stop, side="left"))
    before = first - int(table.records[begin]) + (table.before if begin == 0 else 0)
    behind = int(table.records[end]) - stop + (table.behind if end == len(table) else 0)
    blocks = slice(begin, end + 1)
    sums = None if table.sums is None else table.sums[blocks]
    records = np.clip(table.records[blocks], first, stop) - first
    if table.starts is not None:
        offsets, starts = _cut_at_bytes(table, first, stop, begin, end)
        crcs = None if table.crcs is None else table.crcs[first:stop].copy()
        if sums is not None:
            ends = table.sum_before(first), table.sum_before(stop)
            sums = None if None in ends else np.array([ends[0], *sums[1:-1], ends[1]], np.uint32)
        return BlockTable(offsets, offsets, records, starts, whole=False, sums=sums, crcs=crcs)
    offsets = table.offsets[blocks]
    same = table.raw_offsets is table.offsets
    raw = offsets if same else table.raw_offsets[blocks]
    points = None if table.checkpoints is None else table.checkpoints.part(begin, end)
    return BlockTable(
        offsets, raw, records, None, before, behind, whole=False, sums=sums, checkpoints=points
    )


def _without_blocks(table: BlockTable, at: int) -> BlockTable:
    """The table of no records, which begins where block ``at`` does."""
    offsets, same = table.offsets[at : at + 1], table.raw_offsets is table.offsets
    return BlockTable(
        offsets,
        offsets if same else table.raw_offsets[at : at + 1],
        np.zeros(1, np.int64),
        starts=None if table.starts is None else table.starts[:0],
        whole=False,
        sums=None if table.sums is None else table.sums[at : at + 1],
        crcs=None if table.crcs is None else table.crcs[:0],
        checkpoints=None if table.checkpoints is None else table.checkpoints.part(at, at),
    )


def _cut_at_bytes(
    table: BlockTable, first: int, stop: int, begin: int, end: int
) -> tuple[Int64Array, StartsArray]:
    """The offsets and the starts of records ``first:stop``, which blocks ``begin:end`` hold."""
    assert table.starts is not None
    offsets, starts = table.offsets[begin : end + 1].copy(), table.starts[first:stop].copy()
    ahead = table.starts[first]
    in_first = int(min(table.records[begin + 1], stop)) - first
    starts[:in_first] -= ahead
    if stop < table.records[end]:
        offsets[-1] = table.offsets[end - 1] + int(table.starts[stop])
    offsets[0] += int(ahead)
    return offsets, starts


# The section of a table.


_KIND = b"table"
_HEAD = struct.Struct("<QQQII")
COMPRESSED, POSITIONED, SUMMED = 1, 2, 4
_FLAGS = (0, COMPRESSED, POSITIONED, SUMMED, COMPRESSED | SUMMED, POSITIONED | SUMMED)

MOST_TABLE_BYTES = 1 << 30
"""A longer table is refused, so that no list of shards makes a reader fetch what it likes."""

ONE_BLOCK_BYTES = section_bytes(_HEAD.size + 2 * 2 * 8 + 2 * START_BYTES)
"""The bytes of a raw shard's table with sums, if it has one block."""


def _arrays_of(table: BlockTable) -> list[Int64Array]:
    """The columns of 64 bits that the index holds of a table."""
    if table.raw_offsets is table.offsets:
        return [table.offsets, table.records]
    return [table.offsets, table.raw_offsets, table.records]


def _details_of(table: BlockTable) -> list[npt.NDArray[np.uint32]]:
    """The columns of 32 bits that the index holds of a table."""
    columns = (table.starts, table.crcs, table.sums)
    return [column for column in columns if column is not None]


def _flags_of(table: BlockTable) -> int:
    """Which columns the index holds of a table."""
    flags = 0 if table.raw_offsets is table.offsets else COMPRESSED
    flags |= 0 if table.starts is None else POSITIONED
    return flags | (0 if table.sums is None else SUMMED)


def encode_table(shard: ShardInfo) -> bytes:
    """The section of a shard's table. None of its checkpoints are in it."""
    table = shard.blocks
    assert table is not None
    found = section(
        _KIND,
        _HEAD.pack(shard.nbytes, shard.records, len(table), shard.crc32c, _flags_of(table)),
        *(array.astype("<i8").tobytes() for array in _arrays_of(table)),
        *(array.astype("<u4").tobytes() for array in _details_of(table)),
    )
    if len(found) > MOST_TABLE_BYTES:
        raise ValueError(
            f"{shard.name}: a table of its {len(table)} blocks is longer than an index can hold; "
            "write smaller shards, larger blocks, or no record_positions="
        )
    return found


def decode_table(data: BytesLike, shard: ShardInfo) -> BlockTable:
    """The table of ``shard``, as views of its section; ValueError says why it is not this table."""
    try:
        body = payload_of(data, _KIND)
    except ValueError as error:
        raise ValueError(f"the table of {shard.name}: {error}") from error
    if len(body) < _HEAD.size:
        raise ValueError(f"the table of {shard.name} has {len(body)} bytes")
    nbytes, records, blocks, crc, flags = _HEAD.unpack_from(body)
    if (nbytes, records, crc) != (shard.nbytes, shard.records, shard.crc32c):
        raise ValueError(f"it describes another {shard.name}")
    if flags not in _FLAGS:
        raise ValueError(f"{shard.name} has a table of an unknown kind, {flags}")
    wide = 3 if flags & COMPRESSED else 2
    counts = {
        "starts": records if flags & POSITIONED else None,
        "crcs": records if flags & POSITIONED and flags & SUMMED else None,
        "sums": blocks + 1 if flags & SUMMED else None,
    }
    narrow = sum(count for count in counts.values() if count is not None)
    if len(body) != _HEAD.size + 8 * wide * (blocks + 1) + START_BYTES * narrow:
        raise ValueError(
            f"{shard.name}: {len(body)} bytes are not a table of {blocks} blocks and {records} "
            "records"
        )
    at, arrays = _HEAD.size, []
    for _ in range(wide):
        array = np.frombuffer(body, "<i8", blocks + 1, at)
        arrays.append(array.astype(np.int64, copy=False))
        at += array.nbytes
    found: dict[str, CrcsArray] = {}
    for name, count in counts.items():
        if count is not None:
            column = np.frombuffer(body, "<u4", count, at)
            found[name] = column.astype(np.uint32, copy=False)
            at += column.nbytes
    table = BlockTable(
        arrays[0],
        arrays[-2],
        arrays[-1],
        starts=found.get("starts"),
        crcs=found.get("crcs"),
        sums=found.get("sums"),
    )
    _check_totals(table, shard)
    if table.starts is not None:
        _check_starts(table.starts, table, shard)
    if table.sums is not None and table.sums[0]:
        raise ValueError(f"the sums of {shard.name} do not begin at 0")
    return table


def _check_totals(table: BlockTable, shard: ShardInfo) -> None:
    for array in _arrays_of(table):
        if (array[1:] < array[:-1]).any():  # a difference could wrap
            raise ValueError(f"the totals of {shard.name} go down")
    first, raw = table.offsets[0], table.raw_offsets
    starts_right = (first in (0, 2) or not len(table)) and table.records[0] == 0
    if not starts_right or (raw is not table.offsets and raw[0] != 0):
        raise ValueError(f"the totals of {shard.name} do not begin at 0")
    if table.offsets[-1] != shard.nbytes or table.records[-1] != shard.records:
        raise ValueError(f"the totals of {shard.name} are not those of the shard")


def _check_starts(starts: StartsArray, table: BlockTable, shard: ShardInfo) -> None:
    """ValueError unless the frames at ``starts`` fill each block, one behind the other. Whether a
    frame is there, only reading shows."""
    held = np.diff(table.records) > 0
    if starts[table.records[:-1][held]].any():
        raise ValueError(f"{shard.name}: a block's first record does not begin with the block")
    stops = np.empty(len(starts), np.int64)
    stops[:-1] = starts[1:]
    stops[table.records[1:][held] - 1] = np.diff(table.offsets)[held]
    if (stops - starts < FRAME_OVERHEAD).any():
        raise ValueError(
            f"{shard.name}: two records begin closer to each other than their framing allows"
        )

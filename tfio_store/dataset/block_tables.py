"""Block tables, and the index: one binary object with the tables of every shard. No I/O.

This is the index that is read whole; that of version 3, whose tables are read one at a time, is
below. All numbers are little-endian; the arrays are as `BlockTable` has them::

    "TFIOSIDX"  u32 version  u32 shards
    per shard   u64 nbytes  u64 records  u64 blocks  u32 crc32c  u32 kind
    per shard   i64 offsets[blocks + 1]      unless kind is NO_TABLE
                i64 raw_offsets[blocks + 1]  if kind is COMPRESSED
                i64 records[blocks + 1]
    per shard   u32 starts[records]          if kind is POSITIONED
                u32 crcs[records]            if it is SUMMED too
                u32 sums[blocks + 1]         if kind is SUMMED
    u32         CRC32C of all of the above

nbytes, records and crc32c repeat the manifest's. So an index of another generation is recognised.
SUMMED is added to the other kinds. Version 4 is written if a shard is SUMMED, version 2 if one is
POSITIONED, and else version 1: each version knows the kinds of those before it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.inflate.checkpoints import Checkpoints
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import FRAME_OVERHEAD, RecordBatch, crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Buffer as BytesLike


__all__ = [
    "CRC",
    "INDEX_HEADER_BYTES",
    "MOST_BLOCK_BYTES",
    "MOST_TABLE_BYTES",
    "START_BYTES",
    "SUMMED_BYTES",
    "BlockTable",
    "CrcsArray",
    "ShardInfo",
    "StartsArray",
    "are_cheap",
    "crcs_of",
    "decode_table",
    "decode_tables",
    "encode_table",
    "encode_tables",
    "index_of",
    "most_bytes",
    "relative_starts",
]


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

SUMMED_BYTES = 4
"""Bytes of a record that go into a sum: its masked CRC."""

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


MAGIC = b"TFIOSIDX"
_VERSIONS = (1, 2, 4)
HEADER = struct.Struct("<8sII")
SHARD = struct.Struct("<QQQII")
CRC = struct.Struct("<I")
NO_TABLE, PLAIN, COMPRESSED, POSITIONED = 0, 1, 2, 3
SUMMED = 4


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


def encode_tables(shards: Sequence[ShardInfo]) -> bytes:
    """The index of ``shards``, in their order."""
    tables = [shard.blocks for shard in shards if shard.blocks is not None]
    version = max((_version_for(kind_of(table)) for table in tables), default=1)
    pieces = [HEADER.pack(MAGIC, version, len(shards))]
    pieces += [_shard_header(shard) for shard in shards]
    for table in tables:
        pieces += [array.astype("<i8").tobytes() for array in _arrays_of(table)]
    for table in tables:
        pieces += [array.astype("<u4").tobytes() for array in _details_of(table)]
    body = b"".join(pieces)
    return body + CRC.pack(crc32c(body))


def most_bytes(shards: Sequence[ShardInfo]) -> int:
    """No index of ``shards`` has more: each block holds a record, and takes a byte of its shard."""
    each_block = 3 * 8 + START_BYTES  # three columns of totals, and a sum
    least = HEADER.size + CRC.size + len(shards) * (SHARD.size + 2 * each_block)
    held = sum(min(shard.records, shard.nbytes) for shard in shards)
    return least + held * (each_block + 2 * START_BYTES)


def _version_for(kind: int) -> int:
    """The first version of the index that is read whole which knows this kind of table."""
    if kind & SUMMED:
        return 4
    return 2 if kind == POSITIONED else 1


def _shard_header(shard: ShardInfo) -> bytes:
    """The header of a shard's table."""
    blocks = 0 if shard.blocks is None else len(shard.blocks)
    return SHARD.pack(shard.nbytes, shard.records, blocks, shard.crc32c, kind_of(shard.blocks))


def kind_of(table: BlockTable | None) -> int:
    """The number in the index that says how a table is laid out."""
    if table is None:
        return NO_TABLE
    summed = 0 if table.sums is None else SUMMED
    if table.starts is not None:
        return POSITIONED | summed
    return (PLAIN if table.raw_offsets is table.offsets else COMPRESSED) | summed


def _arrays_of(table: BlockTable) -> list[Int64Array]:
    """The columns of 64 bits that the index holds of a table."""
    if table.raw_offsets is table.offsets:
        return [table.offsets, table.records]
    return [table.offsets, table.raw_offsets, table.records]


def _details_of(table: BlockTable) -> list[npt.NDArray[np.uint32]]:
    """The columns of 32 bits that the index holds of a table."""
    columns = (table.starts, table.crcs, table.sums)
    return [column for column in columns if column is not None]


def decode_tables(data: BytesLike, shards: Sequence[ShardInfo]) -> list[BlockTable | None]:
    """The tables of ``shards``; ValueError says why ``data`` is not their index."""
    view = memoryview(data).cast("B")
    if len(view) < HEADER.size + CRC.size or bytes(view[:8]) != MAGIC:
        raise ValueError("it does not begin as an index does")
    body = view[: -CRC.size]
    if crc32c(body) != CRC.unpack(view[-CRC.size :])[0]:
        raise ValueError("its checksum does not hold")
    _, version, count = HEADER.unpack_from(body)
    if version not in _VERSIONS:
        raise ValueError(f"it has version {version}, and this library reads {_VERSIONS}")
    if count != len(shards) or len(body) < HEADER.size + count * SHARD.size:
        raise ValueError(f"it has {count} shards, and the manifest {len(shards)}")
    headers = [SHARD.unpack_from(body, HEADER.size + i * SHARD.size) for i in range(len(shards))]
    position = HEADER.size + count * SHARD.size
    tables = []
    for header, shard in zip(headers, shards, strict=True):
        table, position = _table_at(body, position, header, shard)
        tables.append(table)
    for i, (header, shard) in enumerate(zip(headers, shards, strict=True)):
        table = tables[i]
        if table is not None and header[-1] > COMPRESSED:
            if version < _version_for(header[-1]):
                raise ValueError(f"{shard.name} has a table that version {version} does not know")
            tables[i], position = _with_details(body, position, table, header[-1], shard)
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes follow its tables")
    return tables


def _table_at(
    body: memoryview, position: int, header: tuple[int, int, int, int, int], shard: ShardInfo
) -> tuple[BlockTable | None, int]:
    """The table that begins at ``position``, without its details, and where it ends."""
    nbytes, records, blocks, crc, kind = header
    if (nbytes, records, crc) != (shard.nbytes, shard.records, shard.crc32c):
        raise ValueError(f"it describes another {shard.name}")
    if kind == NO_TABLE:
        return None, position
    if kind & ~SUMMED not in (PLAIN, COMPRESSED, POSITIONED):
        raise ValueError(f"{shard.name} has a table of an unknown kind, {kind}")
    arrays = 3 if kind & ~SUMMED == COMPRESSED else 2
    if (blocks + 1) * 8 * arrays > len(body) - position:
        raise ValueError(f"{shard.name} claims {blocks} blocks, more than there are bytes for")
    step = (blocks + 1) * 8
    views = [
        np.frombuffer(body, "<i8", blocks + 1, position + step * i).astype(np.int64, copy=False)
        for i in range(arrays)
    ]
    table = BlockTable(views[0], views[-2], views[-1])
    _check_table(table, shard)
    return table, position + step * arrays


def _with_details(
    body: memoryview, position: int, table: BlockTable, kind: int, shard: ShardInfo
) -> tuple[BlockTable, int]:
    """The table with the columns of 32 bits that begin at ``position``, and where they end."""
    positioned, summed = kind & ~SUMMED == POSITIONED, bool(kind & SUMMED)
    found: dict[str, CrcsArray] = {}
    counts = {
        "starts": shard.records if positioned else None,
        "crcs": shard.records if positioned and summed else None,
        "sums": len(table) + 1 if summed else None,
    }
    for name, count in counts.items():
        if count is None:
            continue
        if START_BYTES * count > len(body) - position:
            raise ValueError(f"{shard.name} has {count} {name}, more than there are bytes for")
        column = np.frombuffer(body, "<u4", count, position).astype(np.uint32, copy=False)
        found[name], position = column, position + START_BYTES * count
    if positioned:
        _check_starts(found["starts"], table, shard)
    if summed and found["sums"][0]:
        raise ValueError(f"the sums of {shard.name} do not begin at 0")
    table = replace(
        table, starts=found.get("starts"), crcs=found.get("crcs"), sums=found.get("sums")
    )
    return table, position


def _check_table(table: BlockTable, shard: ShardInfo) -> None:
    for array in _arrays_of(table):
        if (array[1:] < array[:-1]).any():  # a difference could wrap
            raise ValueError(f"the totals of {shard.name} go down")
    first = table.offsets[0]
    starts_right = (first in (0, 2) or not len(table)) and table.records[0] == 0
    if not starts_right or (kind_of(table) == COMPRESSED and table.raw_offsets[0] != 0):
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


# The index of version 3: block tables that are read one at a time, each with its own CRC.
#
#     "TFIOSIDX"  u32 version = 3  u32 tables
#     per table   its header and then its columns, in the order above
#                 zeros up to a multiple of 8, less 4
#                 u32 CRC32C of the table's bytes before it
#
# The list of shards says where each table lies (see `tfio_store.dataset.shard_page`): whoever
# wants a table needs the shard's name and size too, so one question answers for both.


_RANGED_VERSION = 3
INDEX_HEADER_BYTES = HEADER.size
MOST_TABLE_BYTES = 1 << 30
"""A longer table is refused, so that no list of shards makes a reader fetch what it likes."""

_ALIGNMENT = 8


def index_of(tables: Iterable[bytes]) -> bytes:
    """The index that holds these encoded tables, one behind the other from `INDEX_HEADER_BYTES`
    on."""
    pieces = list(tables)
    return b"".join([HEADER.pack(MAGIC, _RANGED_VERSION, len(pieces)), *pieces])


def encode_table(shard: ShardInfo) -> bytes:
    """The table of a shard whose blocks are known, with its CRC."""
    table = shard.blocks
    assert table is not None
    pieces = [_shard_header(shard)]
    pieces += [array.astype("<i8").tobytes() for array in _arrays_of(table)]
    pieces += [array.astype("<u4").tobytes() for array in _details_of(table)]
    body = b"".join(pieces)
    body += bytes(-(len(body) + CRC.size) % _ALIGNMENT)
    if len(body) + CRC.size > MOST_TABLE_BYTES:
        raise ValueError(
            f"{shard.name}: a table of its {len(table)} blocks is longer than an index can hold; "
            "write smaller shards, larger blocks, or no record_positions="
        )
    return body + CRC.pack(crc32c(body))


def decode_table(data: BytesLike, shard: ShardInfo) -> BlockTable:
    """The table of ``shard``, as views of ``data``; ValueError says why it is not this table."""
    view = memoryview(data).cast("B")
    if len(view) < SHARD.size + CRC.size:
        raise ValueError(f"the table of {shard.name} is cut off after {len(view)} bytes")
    body = view[: -CRC.size]
    if crc32c(body) != CRC.unpack(view[-CRC.size :])[0]:
        raise ValueError(f"the checksum of the table of {shard.name} does not hold")
    header = SHARD.unpack_from(body)
    if header[-1] == NO_TABLE:
        raise ValueError(f"{shard.name} has a table of an unknown kind, {NO_TABLE}")
    table, position = _table_at(body, SHARD.size, header, shard)
    assert table is not None
    if header[-1] > COMPRESSED:
        table, position = _with_details(body, position, table, header[-1], shard)
    rest = bytes(body[position : position + _ALIGNMENT])
    if len(body) - position >= _ALIGNMENT or any(rest):
        raise ValueError(f"{len(body) - position} bytes follow the table of {shard.name}")
    return table

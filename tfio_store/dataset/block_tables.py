"""Block tables, and the index: one binary object with the tables of every shard. No I/O.

This is the index that is read whole, of versions 1 and 2; `tfio_store.dataset.ranged_tables` is
that of version 3. All numbers are little-endian; the arrays are as `BlockTable` has them::

    "TFIOSIDX"  u32 version  u32 shards
    per shard   u64 nbytes  u64 records  u64 blocks  u32 crc32c  u32 kind
    per shard   i64 offsets[blocks + 1]      unless kind is NO_TABLE
                i64 raw_offsets[blocks + 1]  if kind is COMPRESSED
                i64 records[blocks + 1]
    per shard   u32 starts[records]          if kind is POSITIONED
    u32         CRC32C of all of the above

nbytes, records and crc32c repeat the manifest's. So an index of another generation is recognised.
Version 2 is written if a shard is POSITIONED, which version 1 does not know, and else version 1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.record_starts import START_BYTES, StartsArray, check_starts
from tfio_store.records.framing import crc32c

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer as BytesLike

__all__ = [
    "CRC",
    "HEADER",
    "MAGIC",
    "NO_TABLE",
    "POSITIONED",
    "SHARD",
    "BlockTable",
    "ShardInfo",
    "arrays_of",
    "decode_tables",
    "encode_tables",
    "kind_of",
    "shard_header",
    "table_at",
    "with_starts",
]

Int64Array = npt.NDArray[np.int64]

MAGIC = b"TFIOSIDX"
_VERSIONS = (1, 2)
HEADER = struct.Struct("<8sII")
SHARD = struct.Struct("<QQQII")
CRC = struct.Struct("<I")
NO_TABLE, PLAIN, COMPRESSED, POSITIONED = 0, 1, 2, 3


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Where the blocks of one shard lie: three int64 arrays of n_blocks + 1 running totals.

    Block b is the stored bytes ``offsets[b]:offsets[b + 1]`` of the object; decompressed they are
    bytes ``raw_offsets[b]:raw_offsets[b + 1]`` of the record stream (for uncompressed shards the
    same array) and hold records ``records[b]:records[b + 1]`` of the shard. The first offset is 0,
    or 2 for ZLIB, whose header belongs to no block. ``starts`` tells of a raw shard where each
    record's frame begins, counted from its block, or is None.

    A table that is not ``whole`` is of a part of its shard, as `tfio_store.dataset.part` cuts it.
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

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        starts = 0 if self.starts is None else self.starts.nbytes
        return starts + sum(array.nbytes for array in arrays_of(self))

    @property
    def bounds(self) -> tuple[bool, int, int]:
        """Whether it is whole, and the records beside its own in the first and the last block."""
        return self.whole, self.before, self.behind

    def __eq__(self, other: object) -> bool:
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
    """None where the blocks are not known, or the index is not loaded."""


def encode_tables(shards: Sequence[ShardInfo]) -> bytes:
    """The index of ``shards``, in their order."""
    tables = [shard.blocks for shard in shards if shard.blocks is not None]
    starts = [table.starts for table in tables if table.starts is not None]
    pieces = [HEADER.pack(MAGIC, _VERSIONS[bool(starts)], len(shards))]
    pieces += [shard_header(shard) for shard in shards]
    for table in tables:
        pieces += [array.astype("<i8").tobytes() for array in arrays_of(table)]
    pieces += [array.astype("<u4").tobytes() for array in starts]
    body = b"".join(pieces)
    return body + CRC.pack(crc32c(body))


def shard_header(shard: ShardInfo) -> bytes:
    """What stands before a shard's table."""
    blocks = 0 if shard.blocks is None else len(shard.blocks)
    return SHARD.pack(shard.nbytes, shard.records, blocks, shard.crc32c, kind_of(shard.blocks))


def kind_of(table: BlockTable | None) -> int:
    """The number by which the index tells how a table is laid out."""
    if table is None:
        return NO_TABLE
    if table.starts is not None:
        return POSITIONED
    return PLAIN if table.raw_offsets is table.offsets else COMPRESSED


def arrays_of(table: BlockTable) -> list[Int64Array]:
    """The columns that the index holds of a table, without its starts."""
    if kind_of(table) in (PLAIN, POSITIONED):
        return [table.offsets, table.records]
    return [table.offsets, table.raw_offsets, table.records]


def decode_tables(data: BytesLike, shards: Sequence[ShardInfo]) -> list[BlockTable | None]:
    """The tables of ``shards``; ValueError says why ``data`` is not their index."""
    body = _checked_body(memoryview(data).cast("B"))
    _, version, count = HEADER.unpack_from(body)
    if version not in _VERSIONS:
        raise ValueError(f"it has version {version}, and this library reads {_VERSIONS}")
    if count != len(shards) or len(body) < HEADER.size + count * SHARD.size:
        raise ValueError(f"it tells of {count} shards, and the manifest of {len(shards)}")
    headers = [SHARD.unpack_from(body, HEADER.size + i * SHARD.size) for i in range(len(shards))]
    position = HEADER.size + count * SHARD.size
    tables = []
    for header, shard in zip(headers, shards, strict=True):
        table, position = table_at(body, position, header, shard)
        tables.append(table)
    for i, (header, shard) in enumerate(zip(headers, shards, strict=True)):
        table = tables[i]
        if table is not None and header[-1] == POSITIONED:
            if version == 1:
                raise ValueError(f"{shard.name} has a table that version 1 does not know")
            tables[i], position = with_starts(body, position, table, shard)
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes follow its tables")
    return tables


def _checked_body(data: memoryview) -> memoryview:
    if len(data) < HEADER.size + CRC.size or bytes(data[:8]) != MAGIC:
        raise ValueError("it does not begin as an index does")
    body = data[: -CRC.size]
    if crc32c(body) != CRC.unpack(data[-CRC.size :])[0]:
        raise ValueError("its checksum does not hold")
    return body


def table_at(
    body: memoryview, position: int, header: tuple[int, int, int, int, int], shard: ShardInfo
) -> tuple[BlockTable | None, int]:
    """The table that begins at ``position``, without its starts, and where it ends."""
    nbytes, records, blocks, crc, kind = header
    if (nbytes, records, crc) != (shard.nbytes, shard.records, shard.crc32c):
        raise ValueError(f"it describes another {shard.name}")
    if kind == NO_TABLE:
        return None, position
    if kind not in (PLAIN, COMPRESSED, POSITIONED):
        raise ValueError(f"{shard.name} has a table of an unknown kind, {kind}")
    arrays = 3 if kind == COMPRESSED else 2
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


def with_starts(
    body: memoryview, position: int, table: BlockTable, shard: ShardInfo
) -> tuple[BlockTable, int]:
    """The table with the starts that begin at ``position``, and where they end."""
    nbytes = START_BYTES * shard.records
    if nbytes > len(body) - position:
        raise ValueError(f"{shard.name} has {shard.records} records, more than have a start")
    starts = np.frombuffer(body, "<u4", shard.records, position).astype(np.uint32, copy=False)
    try:
        check_starts(starts, table.offsets, table.records)
    except ValueError as error:
        raise ValueError(f"{shard.name}: {error}") from error
    return replace(table, starts=starts), position + nbytes


def _check_table(table: BlockTable, shard: ShardInfo) -> None:
    for array in arrays_of(table):
        if (array[1:] < array[:-1]).any():  # a difference could wrap
            raise ValueError(f"the totals of {shard.name} go down")
    first = table.offsets[0]
    starts_right = (first in (0, 2) or not len(table)) and table.records[0] == 0
    if not starts_right or (kind_of(table) == COMPRESSED and table.raw_offsets[0] != 0):
        raise ValueError(f"the totals of {shard.name} do not begin at 0")
    if table.offsets[-1] != shard.nbytes or table.records[-1] != shard.records:
        raise ValueError(f"the totals of {shard.name} are not those of the shard")

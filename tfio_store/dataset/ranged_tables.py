"""The index of version 3: block tables that are read one at a time, each with its own CRC. No I/O.

Little-endian; the columns are as `BlockTable` has them::

    "TFIOSIDX"  u32 version = 3  u32 tables
    per table   u64 nbytes  u64 records  u64 blocks  u32 crc32c  u32 kind
                i64 offsets[blocks + 1]
                i64 raw_offsets[blocks + 1]  if kind is COMPRESSED
                i64 records[blocks + 1]
                u32 starts[records]          if kind is POSITIONED
                u32 crcs[records]            if it is SUMMED too
                u32 sums[blocks + 1]         if kind is SUMMED
                zeros up to a multiple of 8, less 4
                u32 CRC32C of the table's bytes before it

The list of shards tells where each table lies (see `tfio_store.dataset.shard_page`): whoever wants
a table needs the shard's name and size too, so one question answers for both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tfio_store.dataset.block_tables import (
    COMPRESSED,
    CRC,
    HEADER,
    MAGIC,
    NO_TABLE,
    SHARD,
    BlockTable,
    ShardInfo,
    arrays_of,
    details_of,
    shard_header,
    table_at,
    with_details,
)
from tfio_store.records.framing import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["INDEX_HEADER_BYTES", "MOST_TABLE_BYTES", "decode_table", "encode_table", "index_of"]

VERSION = 3
INDEX_HEADER_BYTES = HEADER.size
MOST_TABLE_BYTES = 1 << 30
"""A longer table is refused, so that no list of shards makes a reader fetch what it likes."""

_ALIGNMENT = 8


def index_of(tables: Iterable[bytes]) -> bytes:
    """The index that holds these encoded tables, one behind the other from `INDEX_HEADER_BYTES`
    on."""
    pieces = list(tables)
    return b"".join([HEADER.pack(MAGIC, VERSION, len(pieces)), *pieces])


def encode_table(shard: ShardInfo) -> bytes:
    """The table of a shard whose blocks are known, with its CRC."""
    table = shard.blocks
    assert table is not None
    pieces = [shard_header(shard)]
    pieces += [array.astype("<i8").tobytes() for array in arrays_of(table)]
    pieces += [array.astype("<u4").tobytes() for array in details_of(table)]
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
    table, position = table_at(body, SHARD.size, header, shard)
    assert table is not None
    if header[-1] > COMPRESSED:
        table, position = with_details(body, position, table, header[-1], shard)
    rest = bytes(body[position : position + _ALIGNMENT])
    if len(body) - position >= _ALIGNMENT or any(rest):
        raise ValueError(f"{len(body) - position} bytes follow the table of {shard.name}")
    return table

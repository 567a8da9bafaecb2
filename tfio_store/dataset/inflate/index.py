"""The index of one file that others compressed: its blocks, and a checkpoint for each. No I/O.

It lies in an object of its own, beside the file or in a folder of the user's. Little-endian::

    "TFIOSCKP"  u32 version = 1  u32 codec (1 GZIP, 2 ZLIB)
    the seeds, one behind the other
    u64 nbytes  u64 records  u64 blocks  u64 place  u32 bytes of the etag  u32 0
    i64 bits[blocks]  stops[blocks]  raw_offsets[blocks + 1]  records[blocks + 1]  seeds[blocks + 1]
    u32 skips[blocks]  crcs[blocks]
    the etag
    u64 bytes from nbytes up to here  u32 CRC32C of the first 16 bytes and of these  "CKPE"

``nbytes`` are the file's, ``place`` is a digest of its URL, and the etag is that of the version
that was indexed. A file of the same URL must still have this etag. Of a file that was copied
elsewhere, together with its index, it can't be asked: each block is checked by its CRC32C. The
other columns are those of `BlockTable` and `Checkpoints`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.inflate.checkpoints import (
    MOST_SEED_BYTES,
    MOST_SKIP,
    Checkpoints,
    UInt32Array,
)
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c
from tfio_store.storage import Version

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = [
    "END_BYTES",
    "HEAD_BYTES",
    "MOST_TABLE_BYTES",
    "BuiltIndex",
    "FoundIndex",
    "decode_index",
    "encoded_index",
    "place_of",
    "table_bytes",
]

_MAGIC, _END_MAGIC = b"TFIOSCKP", b"CKPE"
_VERSION = 1
_CODECS = {"GZIP": 1, "ZLIB": 2}
_HEAD = struct.Struct("<8sII")
_FACTS = struct.Struct("<QQQQII")
_END = struct.Struct("<QI4s")
_PIECE = 1 << 20
_MOST_BITS = 1 << 62

HEAD_BYTES = _HEAD.size
END_BYTES = _END.size
MOST_TABLE_BYTES = 1 << 30
"""A longer table is refused, so that no index makes a reader fetch what it likes."""


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """The result of a pass over a file. ``seeds`` is a file that has them one behind the other."""

    codec: str
    nbytes: int
    bits: Int64Array
    stops: Int64Array
    raw_offsets: Int64Array
    records: Int64Array
    seed_ends: Int64Array
    skips: UInt32Array
    crcs: UInt32Array
    seeds: IO[bytes]


@dataclass(frozen=True, slots=True)
class FoundIndex:
    """The facts that an index has about its file."""

    codec: str
    nbytes: int
    place: int
    etag: str
    table: BlockTable

    def is_of(self, url: str, nbytes: int, etag: str | None) -> bool:
        """Whether it is of this version of a file, as far as that is known."""
        if self.nbytes != nbytes:
            return False
        return not (etag and self.etag and self.place == place_of(url)) or self.etag == etag


def place_of(url: str) -> int:
    """A digest of a file's URL, in 64 bits."""
    return int.from_bytes(hashlib.sha256(url.encode()).digest()[:8], "little")


def encoded_index(built: BuiltIndex, url: str, etag: str | None) -> Iterator[bytes]:
    """The index of the file at ``url``, in pieces."""
    head = _HEAD.pack(_MAGIC, _VERSION, _CODECS[built.codec])
    yield head
    built.seeds.seek(0)
    while piece := built.seeds.read(_PIECE):
        yield piece
    named = (etag or "").encode()
    blocks, records = len(built.bits), int(built.records[-1])
    wide = (built.bits, built.stops, built.raw_offsets, built.records, built.seed_ends + HEAD_BYTES)
    body = b"".join(
        [
            _FACTS.pack(built.nbytes, records, blocks, place_of(url), len(named), 0),
            *(column.astype("<i8").tobytes() for column in wide),
            *(column.astype("<u4").tobytes() for column in (built.skips, built.crcs)),
            named,
        ]
    )
    yield body + _END.pack(len(body), crc32c(body, crc32c(head)), _END_MAGIC)


def table_bytes(end: BytesLike) -> int:
    """How many bytes before an index's last `END_BYTES` its table takes. ValueError says why it is
    no index."""
    nbytes, _, magic = _END.unpack(end)
    if magic != _END_MAGIC:
        raise ValueError("it does not end as an index of checkpoints does")
    if not _FACTS.size <= nbytes <= MOST_TABLE_BYTES:
        raise ValueError(f"its table has {nbytes} bytes")
    return int(nbytes)


def decode_index(
    head: BytesLike,
    table: BytesLike,
    end: BytesLike,
    *,
    nbytes: int,
    address: str,
    version: Version,
) -> FoundIndex:
    """The index of ``nbytes`` bytes at ``address``: its first `HEAD_BYTES`, its table, and its last
    `END_BYTES`. ValueError says why it is none."""
    magic, number, codec = _HEAD.unpack(head)
    if magic != _MAGIC:
        raise ValueError("it does not begin as an index of checkpoints does")
    if number != _VERSION:
        raise ValueError(f"it has version {number}, and this library reads {_VERSION}")
    body = memoryview(table).cast("B")
    if crc32c(body, crc32c(head)) != _END.unpack(end)[1]:
        raise ValueError("its checksum does not hold")
    if codec not in _CODECS.values():
        raise ValueError(f"it has an unknown codec, {codec}")
    of_file, records, blocks, place, etag_bytes, _ = _FACTS.unpack_from(body)
    columns_bytes = 8 * (5 * blocks + 3) + 8 * blocks
    if len(body) != _FACTS.size + columns_bytes + etag_bytes:
        raise ValueError(f"its {len(body)} bytes are not those of {blocks} blocks")
    at, columns = _FACTS.size, []
    for count in (blocks, blocks, blocks + 1, blocks + 1, blocks + 1):
        columns.append(np.frombuffer(body, "<i8", count, at).astype(np.int64))
        at += 8 * count
    skips, crcs = (
        np.frombuffer(body, "<u4", blocks, at + 4 * blocks * i).astype(np.uint32) for i in (0, 1)
    )
    bits, stops, raw_offsets, counts, seeds = columns
    _check(columns, skips, of_file, records)
    if seeds[0] < HEAD_BYTES or seeds[-1] > nbytes - len(body) - END_BYTES:
        raise ValueError("its seeds do not lie in it")
    points = Checkpoints(bits, stops, skips, crcs, seeds, address, version)
    offsets = np.append(bits >> 3, of_file)
    name = next(name for name, known in _CODECS.items() if known == codec)
    etag = bytes(body[at + 8 * blocks :]).decode(errors="replace")
    found = BlockTable(offsets, raw_offsets, counts, checkpoints=points)
    return FoundIndex(name, of_file, place, etag, found)


def _check(columns: list[Int64Array], skips: UInt32Array, nbytes: int, records: int) -> None:
    for column in columns:
        if (column[1:] < column[:-1]).any():  # a difference could wrap
            raise ValueError("its totals go down")
        if len(column) and not 0 <= column[0] <= column[-1] < _MOST_BITS:
            raise ValueError("its totals are no counts")
    bits, stops, raw_offsets, counts, seeds = columns
    if nbytes >> 59 or raw_offsets[0] or counts[0] or counts[-1] != records:
        raise ValueError("its totals are not those of the file")
    if len(bits):
        starts = bits >> 3
        if bits[0] or (stops < np.append(starts[1:], nbytes)).any() or (stops > nbytes).any():
            raise ValueError("its blocks do not lie in the file")
        if (np.diff(counts) < 1).any():
            raise ValueError("one of its blocks has no record")
    elif records:
        raise ValueError("it has records and no block")
    if (skips > MOST_SKIP).any() or (np.diff(seeds) > MOST_SEED_BYTES).any():
        raise ValueError("one of its checkpoints is longer than any")

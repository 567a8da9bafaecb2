"""Pages: the list of a long dataset's shards, a few thousand at a time. No I/O.

A page tells of each shard its name and totals, and where its block table lies. Little-endian, for
n shards whose tables lie in m indexes::

    u32 n  u32 m  u32 bytes of all names of shards  u32 bytes of all names of indexes
    u64 nbytes[n]  u64 records[n]  u64 blocks[n]  u64 table_start[n]  u64 table_nbytes[n]
    u32 crc32c[n]  u32 index[n]  u32 name_stop[n]  u32 index_stop[m]
    the names of the shards, then those of the indexes
    u32 CRC32C of all of the above

Pages lie one behind the other in objects that begin with "TFIOSLST"  u32 version = 1  u32 pages.
The root tells where each page lies, and its totals (see `PageRef`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.block_tables import CRC, ShardInfo
from tfio_store.dataset.ranged_tables import INDEX_HEADER_BYTES, MOST_TABLE_BYTES
from tfio_store.records.framing import crc32c

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = [
    "LIST_HEADER_BYTES",
    "MOST_PAGE_BYTES",
    "PAGE_SHARDS",
    "Listed",
    "PageTotals",
    "ShardPage",
    "TablePlace",
    "decode_page",
    "encode_page",
    "list_of",
    "page_crc",
]

PAGE_SHARDS = 2048
"""A page of so many shards takes about 200 KB: one request, and the most that an append writes
again."""

MOST_PAGE_BYTES = 16 << 20
"""No page is longer, however long its names are."""

_LEAST_OF_BLOCK = 16
"""Bytes of a table for each block."""

_MAGIC = b"TFIOSLST"
_VERSION = 1
_LIST = struct.Struct("<8sII")
_PAGE = struct.Struct("<IIII")
_WIDE = ("nbytes", "records", "blocks", "table_start", "table_nbytes")
_NARROW = ("crc32c", "index", "name_stop")

LIST_HEADER_BYTES = _LIST.size

Int64Array = npt.NDArray[np.int64]


class TablePlace(NamedTuple):
    """Where a shard's block table lies: bytes ``start:start + nbytes`` of the index ``name``."""

    name: str
    start: int
    nbytes: int


class Listed(NamedTuple):
    """A shard as a page lists it: without its block table, but with the table's place."""

    shard: ShardInfo
    blocks: int
    place: TablePlace


class PageTotals(NamedTuple):
    """The sums of a page's columns."""

    shards: int
    records: int
    nbytes: int
    blocks: int


@dataclass(frozen=True, slots=True, eq=False)
class ShardPage:
    """A page that was read and checked: a sequence of its shards."""

    columns: dict[str, Int64Array]
    names: bytes
    indexes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.columns["nbytes"])

    def __getitem__(self, number: int) -> Listed:
        if not 0 <= number < len(self):
            raise IndexError(number)
        row = {name: int(column[number]) for name, column in self.columns.items()}
        start = int(self.columns["name_stop"][number - 1]) if number else 0
        name = self.names[start : row["name_stop"]].decode()
        shard = ShardInfo(name, row["nbytes"], row["records"], row["crc32c"])
        index = self.indexes[row["index"]]
        place = TablePlace(index, row["table_start"], row["table_nbytes"])
        return Listed(shard, row["blocks"], place)

    @property
    def totals(self) -> PageTotals:
        """In Python's integers, which do not wrap."""
        sums = (sum(self.columns[name].tolist()) for name in ("records", "nbytes", "blocks"))
        return PageTotals(len(self), *sums)


def list_of(pages: Iterable[bytes]) -> bytes:
    """The object that holds these encoded pages, one behind the other from `LIST_HEADER_BYTES`
    on."""
    pieces = list(pages)
    return b"".join([_LIST.pack(_MAGIC, _VERSION, len(pieces)), *pieces])


def page_crc(page: bytes) -> int:
    """The CRC32C that an encoded page ends with."""
    (crc,) = CRC.unpack(page[-CRC.size :])
    return int(crc)


def encode_page(shards: Sequence[Listed]) -> bytes:
    """The page of these shards, in their order."""
    places = [one.place for one in shards]
    indexes = list(dict.fromkeys(place.name for place in places))
    number = {name: i for i, name in enumerate(indexes)}
    names = [one.shard.name.encode() for one in shards]
    index_names = [name.encode() for name in indexes]
    wide = {
        "nbytes": [one.shard.nbytes for one in shards],
        "records": [one.shard.records for one in shards],
        "blocks": [one.blocks for one in shards],
        "table_start": [place.start for place in places],
        "table_nbytes": [place.nbytes for place in places],
    }
    narrow = {
        "crc32c": [one.shard.crc32c for one in shards],
        "index": [number[place.name] for place in places],
        "name_stop": list(accumulate(map(len, names))),
    }
    body = b"".join(
        [
            _PAGE.pack(len(names), len(indexes), sum(map(len, names)), sum(map(len, index_names))),
            *(np.array(wide[column], "<u8").tobytes() for column in _WIDE),
            *(np.array(narrow[column], "<u4").tobytes() for column in _NARROW),
            np.array(list(accumulate(map(len, index_names))), "<u4").tobytes(),
            *names,
            *index_names,
        ]
    )
    if len(body) + CRC.size > MOST_PAGE_BYTES:
        raise ValueError(f"the names of {len(names)} shards take {len(body)} bytes, over the limit")
    return body + CRC.pack(crc32c(body))


def decode_page(data: BytesLike) -> ShardPage:
    """A page; ValueError says why ``data`` is none.

    Whether its names stay in the dataset's folder is for the caller to check: of the names used.
    """
    view = memoryview(data).cast("B")
    if not _PAGE.size + CRC.size <= len(view) <= MOST_PAGE_BYTES:
        raise ValueError(f"it has {len(view)} bytes, which no page has")
    body = view[: -CRC.size]
    if crc32c(body) != CRC.unpack(view[-CRC.size :])[0]:
        raise ValueError("its checksum does not hold")
    shards, indexes, name_bytes, index_bytes = _PAGE.unpack_from(body)
    if not 1 <= shards <= PAGE_SHARDS or indexes > shards:
        raise ValueError(f"it tells of {shards} shards in {indexes} indexes")
    columns_bytes = shards * (8 * len(_WIDE) + 4 * len(_NARROW)) + 4 * indexes
    if len(body) != _PAGE.size + columns_bytes + name_bytes + index_bytes:
        raise ValueError(f"its {len(view)} bytes are not those of {shards} shards")
    columns, position = _columns(body, shards)
    index_stops = np.frombuffer(body, "<u4", indexes, position).astype(np.int64)
    position += 4 * indexes
    shard_names = body[position : position + name_bytes]
    names = _names(shard_names, columns["name_stop"])
    if len(set(names)) != shards:
        raise ValueError("two of its shards have the same name")
    index_names = _names(body[position + name_bytes :], index_stops)
    _check_places(columns, len(index_names), names)
    return ShardPage(columns, bytes(shard_names), index_names)


def _columns(body: memoryview, shards: int) -> tuple[dict[str, Int64Array], int]:
    """The columns, and where they end."""
    columns, position = {}, _PAGE.size
    for width, dtype, names in ((8, "<u8", _WIDE), (4, "<u4", _NARROW)):
        for name in names:
            column = np.frombuffer(body, dtype, shards, position)
            if (column >> 63).any():
                raise ValueError(f'its "{name}" holds what is no count')
            columns[name] = column.astype(np.int64)
            position += width * shards
    return columns, position


def _names(data: memoryview, stops: Int64Array) -> tuple[str, ...]:
    bounds = [0, *stops.tolist()]
    if bounds[-1] != len(data) or (np.diff(stops, prepend=0) <= 0).any():
        raise ValueError("the ends of its names are not in order")
    encoded = bytes(data)
    if encoded.isascii():  # which takes a third of the time
        text = encoded.decode()
        return tuple(text[start:stop] for start, stop in pairwise(bounds))
    return tuple(encoded[start:stop].decode() for start, stop in pairwise(bounds))


def _check_places(columns: dict[str, Int64Array], indexes: int, names: tuple[str, ...]) -> None:
    start, nbytes = columns["table_start"], columns["table_nbytes"]
    lies = (start < INDEX_HEADER_BYTES) | (columns["index"] >= indexes)
    lies |= (nbytes > MOST_TABLE_BYTES) | (columns["blocks"] >= nbytes // _LEAST_OF_BLOCK)
    if lies.any():
        raise ValueError(f"the table of {names[int(lies.argmax())]} cannot lie where it says")
    lost = (columns["records"] > 0) & (columns["blocks"] == 0)
    if lost.any():
        raise ValueError(f"{names[int(lost.argmax())]} has records and no block")
    hidden = (columns["records"] == 0) & (columns["blocks"] > 0)
    if hidden.any():
        raise ValueError(f"{names[int(hidden.argmax())]} has blocks and no record")

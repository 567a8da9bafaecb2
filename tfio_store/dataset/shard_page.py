"""Pages: the list of a long dataset's shards, a few thousand at a time, and how they are found.
No I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import (
    CRC,
    INDEX_HEADER_BYTES,
    MOST_TABLE_BYTES,
    BlockTable,
    ShardInfo,
)
from tfio_store.dataset.checks import check_name
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import crc32c

__all__ = [
    "LIST_HEADER_BYTES",
    "PAGE_SHARDS",
    "Listed",
    "PageRef",
    "PageTotals",
    "ShardPage",
    "TablePlace",
    "decode_page",
    "encode_page",
    "list_of",
    "only_block",
    "page_crc",
    "pages_from_json",
    "pages_to_json",
    "shards_of_a_page",
]


# A page has each shard's name and totals, and says where its block table lies. Little-endian, for
# n shards whose tables lie in m indexes::
#
#     u32 n  u32 m  u32 bytes of all names of shards  u32 bytes of all names of indexes
#     u64 nbytes[n]  u64 records[n]  u64 blocks[n]  u64 table_start[n]  u64 table_nbytes[n]
#     u32 crc32c[n]  u32 index[n]  u32 name_stop[n]  u32 index_stop[m]
#     the names of the shards, then those of the indexes
#     u32 CRC32C of all of the above
#
# Pages lie one behind the other in objects that begin with "TFIOSLST"  u32 version = 1  u32 pages.
# The root says where each page lies, and its totals (see `PageRef`).


PAGE_SHARDS = 2048
"""The most shards of a page, which then takes about 200 KB: one request, and the most that an
append writes again."""

_LEAST_SHARDS = 128
_USUAL_PAGES = 512
"""The root tells of so many pages in 32 KB."""

MOST_PAGE_BYTES = 16 << 20
"""No page is longer, however long its names are."""

_ONE_BLOCK_BYTES = 80
"""The bytes of a table with sums, if it has one block."""

_LEAST_OF_BLOCK = 16
"""Bytes of a table for each block."""

_MAGIC = b"TFIOSLST"
_VERSION = 1
_LIST = struct.Struct("<8sII")
_PAGE = struct.Struct("<IIII")
_WIDE = ("nbytes", "records", "blocks", "table_start", "table_nbytes")
_NARROW = ("crc32c", "index", "name_stop")

LIST_HEADER_BYTES = _LIST.size


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


def shards_of_a_page(shards: int) -> int:
    """How many shards a page has in a list of so many. Who wants one of them reads the root and a
    page: of a shorter list the pages are shorter, so that neither takes much."""
    size = _LEAST_SHARDS
    while size < PAGE_SHARDS and size * _USUAL_PAGES < shards:
        size *= 2
    return size


def only_block(listed: Listed, *, raw: bool) -> BlockTable | None:
    """The table of a shard, without its sums, if the list tells all else that there is in it: the
    shard is raw, has one block, and its table has no place for those of more than two records."""
    if not raw or listed.blocks != 1 or listed.place.nbytes > _ONE_BLOCK_BYTES:
        return None
    offsets = np.array([0, listed.shard.nbytes], np.int64)
    return BlockTable(offsets, offsets, np.array([0, listed.shard.records], np.int64))


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
        raise ValueError(f"it has {shards} shards in {indexes} indexes")
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


# `PageRef`: the root of a long dataset has one for each page of its list of shards. No I/O.


_NUMBERS = 8
_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page is bytes ``start:start + nbytes`` of the object ``name``, and ends in ``crc32c``."""

    name: str
    start: int
    nbytes: int
    totals: PageTotals
    crc32c: int

    @property
    def place(self) -> tuple[str, int, int]:
        """Its object, where it begins there, and its bytes."""
        return self.name, self.start, self.nbytes


def pages_to_json(refs: Sequence[PageRef]) -> dict[str, Any]:
    """The value of "shards" in the root."""
    objects = list(dict.fromkeys(ref.name for ref in refs))
    number = {name: i for i, name in enumerate(objects)}
    rows = [[number[r.name], r.start, r.nbytes, *r.totals, r.crc32c] for r in refs]
    return {"objects": objects, "pages": rows}


def pages_from_json(document: Any) -> tuple[PageRef, ...]:
    """ValueError for anything that `pages_to_json` does not make."""
    objects, rows = document.get("objects"), document.get("pages")
    if not isinstance(objects, list) or not isinstance(rows, list):
        raise ValueError('"shards" has no lists of objects and pages')
    for name in objects:
        if not isinstance(name, str):
            raise ValueError(f"a name is {type(name).__name__}, not a string")
        check_name(name)
    refs = tuple(_ref(row, objects) for row in rows)
    if sum(ref.totals.blocks for ref in refs) >= _MOST:
        raise ValueError("its pages have more blocks than there can be")
    _check_apart(refs)
    return refs


def _check_apart(refs: Sequence[PageRef]) -> None:
    """A page that is named twice would give its records twice."""
    placed = sorted(refs, key=lambda ref: (ref.name, ref.start))
    for one, following in pairwise(placed):
        if one.name == following.name and following.start < one.start + one.nbytes:
            raise ValueError(
                f"two pages overlap in {one.name}: one begins at byte {following.start}, inside "
                "another"
            )


def _ref(row: Any, objects: list[str]) -> PageRef:
    if not isinstance(row, list) or len(row) != _NUMBERS or not all(map(_is_count, row)):
        raise ValueError(f"a page is {str(row)[:100]}, not {_NUMBERS} counts")
    number, start, nbytes, *sums, crc = row
    totals = PageTotals(*sums)
    if number >= len(objects):
        raise ValueError(f"a page lies in object {number} of {len(objects)}")
    if start < LIST_HEADER_BYTES or not 0 < nbytes <= MOST_PAGE_BYTES or crc >> 32:
        raise ValueError(f"no page lies at byte {start} with {nbytes} bytes")
    if not 1 <= totals.shards <= PAGE_SHARDS:
        raise ValueError(f"a page has {totals.shards} shards, not 1 to {PAGE_SHARDS}")
    if totals.records and not totals.blocks:
        raise ValueError(f"a page has {totals.records} records and no block")
    if totals.blocks and not totals.records:
        raise ValueError(f"a page has {totals.blocks} blocks and no record")
    return PageRef(objects[number], start, nbytes, totals, crc)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST

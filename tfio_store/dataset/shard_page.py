"""Pages: the list of a dataset's shards, a few thousand at a time, and how they are found. No I/O.

The payload of a section "page", for n shards::

    u32 n  u32 bytes of all names
    u64 nbytes[n]  u64 records[n]  u64 blocks[n]
    u32 crc32c[n]  u32 table_nbytes[n]  u32 name_stop[n]
    the names

The tables of a page's shards lie one behind the other, in their order. The root says where they
begin, where the page lies, and its totals (see `PageRef`). A shard that others compressed as one
stream has no table: its blocks and the bytes of its table are 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import (
    MOST_TABLE_BYTES,
    ONE_BLOCK_BYTES,
    BlockTable,
    ShardInfo,
)
from tfio_store.dataset.checks import check_name
from tfio_store.dataset.container import HEADER_BYTES, payload_of, section
from tfio_store.records.arrays import Int64Array

PAGE_SHARDS = 2048
"""The most shards of a page, which then takes about 150 KB: one request, and the most that an
append writes again."""

_LEAST_SHARDS = 128
_USUAL_PAGES = 512
"""The root tells of so many pages in 32 KB."""

MOST_PAGE_BYTES = 16 << 20
"""No page is longer, however long its names are."""

_LEAST_OF_BLOCK = 16
"""Bytes of a table for each block."""

_KIND = b"page"
_HEAD = struct.Struct("<II")
_WIDE = ("nbytes", "records", "blocks")
_NARROW = ("crc32c", "table_nbytes", "name_stop")


class Listed(NamedTuple):
    """A shard as a page lists it: without its block table, which has ``nbytes`` bytes, and begins
    so many behind the ``start`` of the page's first one."""

    shard: ShardInfo
    blocks: int
    start: int
    nbytes: int


class PageTotals(NamedTuple):
    """The sums of a page's columns."""

    shards: int
    records: int
    nbytes: int
    blocks: int
    table_nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class ShardPage:
    """A page that was read and checked: a sequence of its shards."""

    columns: dict[str, Int64Array]
    names: bytes

    def __len__(self) -> int:
        return len(self.columns["nbytes"])

    def __getitem__(self, number: int) -> Listed:
        if not 0 <= number < len(self):
            raise IndexError(number)
        row = {name: int(column[number]) for name, column in self.columns.items()}
        start = int(self.columns["name_stop"][number - 1]) if number else 0
        name = self.names[start : row["name_stop"]].decode()
        shard = ShardInfo(name, row["nbytes"], row["records"], row["crc32c"])
        return Listed(shard, row["blocks"], row["table_start"], row["table_nbytes"])

    def __iter__(self) -> Iterator[Listed]:
        columns = (
            self.columns[name].tolist()
            for name in ("nbytes", "records", "crc32c", "blocks", "table_start", "table_nbytes")
        )
        shards = zip(_names(self.names, self.columns["name_stop"]), *columns, strict=True)
        for name, nbytes, records, crc, blocks, start, table in shards:
            yield Listed(ShardInfo(name, nbytes, records, crc), blocks, start, table)

    @property
    def totals(self) -> PageTotals:
        """In Python's integers, which do not wrap."""
        columns = PageTotals._fields[1:]
        return PageTotals(len(self), *(sum(self.columns[name].tolist()) for name in columns))


def shards_of_a_page(shards: int) -> int:
    """How many shards a page has in a list of so many. Who wants one of them reads the root and a
    page: of a shorter list the pages are shorter, so that neither takes much."""
    size = _LEAST_SHARDS
    while size < PAGE_SHARDS and size * _USUAL_PAGES < shards:
        size *= 2
    return size


def only_block(listed: Listed, *, raw: bool) -> BlockTable | None:
    """The table of a shard, without its sums, if the list tells all else that there is in it: the
    shard is raw, has one block, and its table has no place for those of more than three records."""
    if not raw or listed.blocks != 1 or listed.nbytes > ONE_BLOCK_BYTES:
        return None
    offsets = np.array([0, listed.shard.nbytes], np.int64)
    return BlockTable(offsets, offsets, np.array([0, listed.shard.records], np.int64))


def encode_page(shards: Sequence[Listed]) -> bytes:
    """The page of these shards, in their order."""
    names = [one.shard.name.encode() for one in shards]
    wide = {
        "nbytes": [one.shard.nbytes for one in shards],
        "records": [one.shard.records for one in shards],
        "blocks": [one.blocks for one in shards],
    }
    narrow = {
        "crc32c": [one.shard.crc32c for one in shards],
        "table_nbytes": [one.nbytes for one in shards],
        "name_stop": list(accumulate(map(len, names))),
    }
    page = section(
        _KIND,
        _HEAD.pack(len(names), sum(map(len, names))),
        *(np.array(wide[column], "<u8").tobytes() for column in _WIDE),
        *(np.array(narrow[column], "<u4").tobytes() for column in _NARROW),
        *names,
    )
    if len(page) > MOST_PAGE_BYTES:
        raise ValueError(f"the names of {len(names)} shards take {len(page)} bytes, over the limit")
    return page


def decode_page(data: BytesLike) -> ShardPage:
    """A page; ValueError says why ``data`` is none.

    Whether its names stay in the dataset's folder is for the caller to check: of the names used.
    """
    nbytes = len(memoryview(data).cast("B"))
    if nbytes > MOST_PAGE_BYTES:
        raise ValueError(f"it has {nbytes} bytes, which no page has")
    body = payload_of(data, _KIND)
    if len(body) < _HEAD.size:
        raise ValueError(f"it has {nbytes} bytes, which no page has")
    shards, name_bytes = _HEAD.unpack_from(body)
    if not 1 <= shards <= PAGE_SHARDS:
        raise ValueError(f"it has {shards} shards")
    if len(body) != _HEAD.size + shards * (8 * len(_WIDE) + 4 * len(_NARROW)) + name_bytes:
        raise ValueError(f"its {len(body)} bytes are not those of {shards} shards")
    columns = _columns(body, shards)
    encoded = bytes(body[len(body) - name_bytes :])
    names = _names(encoded, columns["name_stop"])
    if len(set(names)) != shards:
        raise ValueError("two of its shards have the same name")
    _check_tables(columns, names)
    return ShardPage(columns, encoded)


def _columns(body: memoryview, shards: int) -> dict[str, Int64Array]:
    columns, position = {}, _HEAD.size
    for width, dtype, names in ((8, "<u8", _WIDE), (4, "<u4", _NARROW)):
        for name in names:
            column = np.frombuffer(body, dtype, shards, position)
            if (column >> 63).any():
                raise ValueError(f'its "{name}" holds what is no count')
            columns[name] = column.astype(np.int64)
            position += width * shards
    tables = columns["table_nbytes"]
    columns["table_start"] = tables.cumsum() - tables
    return columns


def _names(encoded: bytes, stops: Int64Array) -> tuple[str, ...]:
    bounds = [0, *stops.tolist()]
    if bounds[-1] != len(encoded) or (np.diff(stops, prepend=0) <= 0).any():
        raise ValueError("the ends of its names are not in order")
    if encoded.isascii():  # which takes a third of the time
        text = encoded.decode()
        return tuple(text[start:stop] for start, stop in pairwise(bounds))
    return tuple(encoded[start:stop].decode() for start, stop in pairwise(bounds))


def _check_tables(columns: dict[str, Int64Array], names: tuple[str, ...]) -> None:
    nbytes, blocks, records = (columns[name] for name in ("table_nbytes", "blocks", "records"))
    wrong = (nbytes > MOST_TABLE_BYTES) | ((nbytes > 0) & (blocks >= nbytes // _LEAST_OF_BLOCK))
    wrong |= (nbytes == 0) & (blocks > 0)
    if wrong.any():
        at = int(wrong.argmax())
        raise ValueError(
            f"no table of {blocks[at]} blocks, as {names[at]} has, has {nbytes[at]} bytes"
        )
    lost = (records > 0) & (blocks == 0) & (nbytes > 0)
    if lost.any():
        raise ValueError(f"{names[int(lost.argmax())]} has records and no block")
    hidden = (records == 0) & (blocks > 0)
    if hidden.any():
        raise ValueError(f"{names[int(hidden.argmax())]} has blocks and no record")


# `PageRef`: the root of a dataset has one for each page of its list of shards. No I/O.


_MOST = 1 << 63


class IndexObject(NamedTuple):
    """An object with pages or tables: its name in the dataset's folder, and its bytes."""

    name: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page is bytes ``start:start + nbytes`` of the object ``index``, and ends in ``crc32c``.

    The tables of its shards begin at byte ``tables_start`` of ``tables``, maybe another object."""

    index: IndexObject
    start: int
    nbytes: int
    crc32c: int
    tables: IndexObject
    tables_start: int
    totals: PageTotals


_NUMBERS = 11


def pages_to_json(refs: Sequence[PageRef]) -> dict[str, Any]:
    """The values of "objects" and "pages" in the root."""
    objects = list(dict.fromkeys(one for ref in refs for one in (ref.index, ref.tables)))
    number = {each: i for i, each in enumerate(objects)}
    return {
        "objects": [list(each) for each in objects],
        "pages": [
            [number[ref.index], ref.start, ref.nbytes, ref.crc32c, number[ref.tables],
             ref.tables_start, *ref.totals]
            for ref in refs
        ],
    }  # fmt: skip


def pages_from_json(objects: Any, rows: Any, *, streams: bool) -> tuple[PageRef, ...]:
    """ValueError for anything that `pages_to_json` does not make. ``streams``: whether some shards
    have no blocks."""
    if not isinstance(objects, list) or not isinstance(rows, list):
        raise ValueError('"objects" and "pages" are no lists')
    named = [_object(one) for one in objects]
    refs = tuple(_ref(row, named) for row in rows)
    for ref in refs if not streams else ():
        if ref.totals.records and not ref.totals.blocks:
            raise ValueError(f"a page has {ref.totals.records} records and no block")
    if sum(ref.totals.blocks for ref in refs) >= _MOST:
        raise ValueError("its pages have more blocks than there can be")
    if len({one.name for one in named}) != len(named):
        raise ValueError("two of its objects have the same name")
    _check_apart(refs)
    return refs


def _object(found: Any) -> IndexObject:
    if not isinstance(found, list) or len(found) != 2:
        raise ValueError(f"an object is {str(found)[:100]}, not a name and a size")
    name, nbytes = found
    if not isinstance(name, str):
        raise ValueError(f"a name is {type(name).__name__}, not a string")
    if not _is_count(nbytes):
        raise ValueError(f"{name!r} has {nbytes!r} bytes")
    return IndexObject(check_name(name), nbytes)


def _check_apart(refs: Sequence[PageRef]) -> None:
    """A page that is named twice would give its records twice."""
    placed = sorted(refs, key=lambda ref: (ref.index, ref.start))
    for one, following in pairwise(placed):
        if one.index == following.index and following.start < one.start + one.nbytes:
            raise ValueError(
                f"two pages overlap in {one.index.name}: one begins at byte {following.start}, "
                "inside another"
            )


def _ref(row: Any, objects: list[IndexObject]) -> PageRef:
    if not isinstance(row, list) or len(row) != _NUMBERS or not all(map(_is_count, row)):
        raise ValueError(f"a page is {str(row)[:100]}, not {_NUMBERS} counts")
    number, start, nbytes, crc, where, tables_start, *sums = row
    totals = PageTotals(*sums)
    if max(number, where) >= len(objects):
        raise ValueError(f"a page lies in object {max(number, where)} of {len(objects)}")
    index, tables = objects[number], objects[where]
    if start < HEADER_BYTES or not 0 < nbytes <= MOST_PAGE_BYTES or crc >> 32:
        raise ValueError(f"no page lies at byte {start} with {nbytes} bytes")
    if start + nbytes > index.nbytes or tables_start + totals.table_nbytes > tables.nbytes:
        raise ValueError(f"a page or its tables do not lie in {index.name} and {tables.name}")
    if not 1 <= totals.shards <= PAGE_SHARDS:
        raise ValueError(f"a page has {totals.shards} shards, not 1 to {PAGE_SHARDS}")
    if totals.blocks and not totals.records:
        raise ValueError(f"a page has {totals.blocks} blocks and no record")
    return PageRef(index, start, nbytes, crc, tables, tables_start, totals)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST

"""Block tables in an index: there and back, and every kind of hostile input."""

from __future__ import annotations

import struct
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import Buffer as BytesLike

from tests.support.indexes import sealed, section
from tfio_store.dataset import pages
from tfio_store.dataset.block_tables import BlockTable, ShardInfo, decode_table, encode_table
from tfio_store.dataset.container import section_crc
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import (
    IndexObject,
    Listed,
    PageRef,
    decode_page,
    encode_page,
)


def table(*rows: list[int], starts: list[int] | None = None) -> BlockTable:
    arrays = [np.array(row, np.int64) for row in rows]
    begins = None if starts is None else np.array(starts, np.uint32)
    return BlockTable(arrays[0], arrays[-2], arrays[-1], begins)


SHARDS = {
    "plain": ShardInfo("train-0", 90, 2, 3, table([0, 50, 90], [0, 1, 2])),
    "compressed": ShardInfo("train-1", 100, 7, 4, table([0, 60, 100], [0, 600, 900], [0, 3, 7])),
    "zlib": ShardInfo("train-2", 100, 7, 4, table([2, 60, 100], [0, 600, 900], [0, 3, 7])),
    "positioned": ShardInfo(
        "train-3", 95, 5, 1, table([0, 40, 95], [0, 2, 5], starts=[0, 20, 0, 16, 32])
    ),
    "empty": ShardInfo("train-4", 0, 0, 0, table([0], [0])),
}
# Raw shards have one array for both offsets.
for _name in ("plain", "positioned", "empty"):
    _table = SHARDS[_name].blocks
    assert _table is not None
    SHARDS[_name] = replace(SHARDS[_name], blocks=replace(_table, raw_offsets=_table.offsets))

each = pytest.mark.parametrize("shard", SHARDS.values(), ids=SHARDS)


HEAD = 16
"""Bytes of a section before its payload."""


@each
def test_there_and_back(shard: ShardInfo) -> None:
    data = encode_table(shard)
    assert len(data) % 8 == 0
    found = decode_table(data, replace(shard, blocks=None))
    assert found == shard.blocks
    assert shard.blocks is not None
    same = shard.blocks.raw_offsets is shard.blocks.offsets
    assert (found.raw_offsets is found.offsets) == same


def test_the_layout_is_that_of_the_documents() -> None:
    payload = struct.pack("<QQQII3q3q5I", 95, 5, 2, 1, 2, 0, 40, 95, 0, 2, 5, 0, 20, 0, 16, 32)
    assert section(b"table", payload) == encode_table(SHARDS["positioned"])


def test_the_columns_of_sums() -> None:
    blocks = table([0, 50, 90], [0, 1, 2])
    raw = replace(blocks, raw_offsets=blocks.offsets, sums=np.array([0, 8, 9], np.uint32))
    shard = ShardInfo("train-0", 90, 2, 3, raw)
    payload = struct.pack("<QQQII3q3q", 90, 2, 2, 3, 4, 0, 50, 90, 0, 1, 2)
    assert section(b"table", payload + struct.pack("<3I", 0, 8, 9)) == encode_table(shard)
    starts, crcs = (np.array(column, np.uint32) for column in ([0, 0], [5, 6]))
    known = replace(shard, blocks=replace(raw, starts=starts, crcs=crcs))
    found = decode_table(encode_table(known), shard)
    assert found.crcs is not None
    assert found.sums is not None
    assert (found.crcs.tolist(), found.sums.tolist()) == ([5, 6], [0, 8, 9])
    whole = struct.pack("<QQQII3q3q7I", 90, 2, 2, 3, 6, 0, 50, 90, 0, 1, 2, 0, 0, 5, 6, 0, 8, 9)
    assert section(b"table", whole) == encode_table(known)
    with pytest.raises(ValueError, match="sums of train-0 do not begin at 0"):
        decode_table(section(b"table", payload + struct.pack("<3I", 1, 8, 9)), shard)


@each
def test_every_flipped_bit_is_noticed(shard: ShardInfo) -> None:
    data = encode_table(shard)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="checksum"):
            decode_table(damaged, shard)


@each
def test_every_cut_is_noticed(shard: ShardInfo) -> None:
    data = encode_table(shard)
    for stop in range(len(data)):
        with pytest.raises(ValueError, match=r"cut off|checksum"):
            decode_table(data[:stop], shard)


@given(st.binary(max_size=200), st.sampled_from(sorted(SHARDS)))
def test_random_bytes_are_no_table(data: bytes, name: str) -> None:
    with pytest.raises(ValueError, match="train"):
        decode_table(sealed(data), SHARDS[name])


@settings(max_examples=300)
@given(st.data(), st.sampled_from(sorted(SHARDS)))
def test_a_lie_under_a_valid_checksum_is_refused_or_makes_a_sound_table(
    data: st.DataObject, name: str
) -> None:
    shard = SHARDS[name]
    body = bytearray(encode_table(shard)[:-4])
    position = 4 * data.draw(st.integers(0, len(body) // 4 - 1))
    struct.pack_into("<I", body, position, data.draw(st.integers(0, 2**32 - 1)))
    try:
        found = decode_table(sealed(bytes(body)), shard)
    except ValueError:
        with pytest.raises(ValueError, match=shard.name):
            decode_table(sealed(bytes(body)), shard)
        return
    for array in (found.offsets, found.raw_offsets, found.records):
        assert (np.diff(array) >= 0).all()
    assert (found.offsets[-1], found.records[-1]) == (shard.nbytes, shard.records)
    if found.starts is not None:
        assert len(found.starts) == shard.records


@pytest.mark.parametrize(
    ("position", "layout", "value", "says"),
    [
        (0, "<Q", 91, "another train-0"),
        (8, "<Q", 3, "another train-0"),
        (16, "<Q", 1 << 60, "not a table of"),
        (16, "<Q", (1 << 64) - 1, "not a table of"),
        (16, "<Q", 1, "not a table of"),
        (24, "<I", 9, "another train-0"),
        (28, "<I", 3, "unknown kind"),
        (28, "<I", 8, "unknown kind"),
        (28, "<I", 1, "not a table of"),
        (28, "<I", 2, "not a table of"),
        (28, "<I", 4, "not a table of"),
        (32, "<q", 1, "begin at 0"),
        (40, "<q", 91, "go down"),
        (56, "<q", 1, "begin at 0"),
        (72, "<q", 3, "not those"),
    ],
)
def test_each_lie_is_named(position: int, layout: str, value: int, says: str) -> None:
    shard = SHARDS["plain"]
    body = bytearray(encode_table(shard)[:-4])
    struct.pack_into(layout, body, HEAD + position, value)
    with pytest.raises(ValueError, match=says):
        decode_table(sealed(bytes(body)), shard)


STARTS = 32 + 8 * 6


@pytest.mark.parametrize(
    ("start", "value", "says"),
    [
        (0, 1, "begin with the block"),
        (2, 1, "begin with the block"),
        (1, 15, "closer"),
        (1, 25, "closer"),
        (1, 0xFFFFFFFF, "closer"),
        (3, 33, "closer"),
        (4, 0, "closer"),
        (4, 40, "closer"),
    ],
)
def test_each_lie_about_a_start_is_named(start: int, value: int, says: str) -> None:
    shard = SHARDS["positioned"]
    body = bytearray(encode_table(shard)[:-4])
    struct.pack_into("<I", body, HEAD + STARTS + 4 * start, value)
    with pytest.raises(ValueError, match=says):
        decode_table(sealed(bytes(body)), shard)


def test_another_section_is_no_table() -> None:
    shard = SHARDS["plain"]
    data = encode_table(shard)
    with pytest.raises(ValueError, match=r"of kind .*page"):
        decode_table(section(b"page", data[HEAD:-4]), shard)
    with pytest.raises(ValueError, match="those of a payload"):
        decode_table(sealed(data[:-4] + bytes(8)), shard)
    with pytest.raises(ValueError, match="those of a payload"):
        decode_table(sealed(data[:-5] + b"x"), shard)


class Held:
    """A folder that counts the bytes of tables which are asked for and not taken yet."""

    def __init__(self, page: bytes, table: bytes) -> None:
        self.page, self.table = page, table
        self.most = self.asked = 0

    def begin_range(self, name: str, start: int, stop: int) -> Future[BytesLike]:
        found: Future[BytesLike] = Future()
        found.set_result(self.page if name == "page" else self.table)
        if name != "page":
            self.asked += stop - start
            self.most = max(self.most, self.asked)
        return found

    def url(self, name: str) -> str:
        return name

    def pages_now(self) -> tuple[PageRef, ...]:
        return ()


@pytest.mark.parametrize(("limit", "tables"), [(16 << 20, 32), (1, 1), (360, 3)])
def test_the_bytes_of_tables_in_flight_are_bounded(
    limit: int, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may say that each of its tables takes gigabytes."""
    monkeypatch.setattr(pages, "_TABLES_TOGETHER", limit)
    monkeypatch.setattr(pages, "_TABLES_KEPT", 0)
    shard = SHARDS["positioned"]
    data = encode_table(shard)
    assert len(data) == 120
    bare = [replace(shard, name=f"t-{i}", blocks=None) for i in range(40)]
    page = encode_page([Listed(one, 2, 0, len(data)) for one in bare])
    index, tables_at = IndexObject("page", 1 << 30), IndexObject("index", 1 << 30)
    totals = decode_page(page).totals
    ref = PageRef(index, 16, len(page), section_crc(page), tables_at, 16, totals)
    held = Held(page, data)
    shards = Pages([ref], held, raw=True)
    for found in shards.tables(range(40)):
        assert found == shard.blocks
        assert held.asked <= tables * len(data)
        held.asked -= len(data)
    assert held.most == tables * len(data)

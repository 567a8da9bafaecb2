"""Tables of the index of version 3: there and back, and every kind of hostile input."""

from __future__ import annotations

import struct
from concurrent.futures import Future
from dataclasses import replace

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset import pages
from tfio_store.dataset.block_tables import (
    INDEX_HEADER_BYTES,
    BlockTable,
    ShardInfo,
    decode_table,
    encode_table,
    index_of,
)
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import (
    Listed,
    PageRef,
    TablePlace,
    decode_page,
    encode_page,
    page_crc,
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


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", google_crc32c.value(body))


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
    data = encode_table(SHARDS["positioned"])
    assert struct.unpack_from("<QQQII3q3q5I", data) == (
        95, 5, 2, 1, 3, 0, 40, 95, 0, 2, 5, 0, 20, 0, 16, 32,
    )  # fmt: skip
    assert data == sealed(data[:-4])
    whole = index_of([data, encode_table(SHARDS["plain"])])
    assert struct.unpack_from("<8sII", whole) == (b"TFIOSIDX", 3, 2)
    assert whole[INDEX_HEADER_BYTES : INDEX_HEADER_BYTES + len(data)] == data


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
        (16, "<Q", 1 << 60, "more than there are bytes"),
        (16, "<Q", (1 << 64) - 1, "more than there are bytes"),
        (16, "<Q", 1, "follow|go down|not those"),
        (24, "<I", 9, "another train-0"),
        (28, "<I", 0, "unknown kind"),
        (28, "<I", 9, "unknown kind"),
        (32, "<q", 1, "begin at 0"),
        (40, "<q", 91, "go down"),
        (56, "<q", 1, "begin at 0"),
        (72, "<q", 3, "not those"),
    ],
)
def test_each_lie_is_named(position: int, layout: str, value: int, says: str) -> None:
    shard = SHARDS["plain"]
    body = bytearray(encode_table(shard)[:-4])
    struct.pack_into(layout, body, position, value)
    with pytest.raises(ValueError, match=says):
        decode_table(sealed(bytes(body)), shard)


@pytest.mark.parametrize("rest", [bytes(8), b"\1\0\0\0"])
def test_bytes_behind_a_table_are_refused(rest: bytes) -> None:
    shard = SHARDS["plain"]
    body = encode_table(shard)[:-4]
    body = body[:-4] + rest if len(rest) == 4 else body + rest
    with pytest.raises(ValueError, match="follow the table of train-0"):
        decode_table(sealed(body), shard)


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


@pytest.mark.parametrize(("limit", "tables"), [(16 << 20, 32), (1, 1), (400, 4)])
def test_the_bytes_of_tables_in_flight_are_bounded(
    limit: int, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list may say that each of its tables takes gigabytes."""
    monkeypatch.setattr(pages, "_TABLES_TOGETHER", limit)
    monkeypatch.setattr(pages, "_TABLES_KEPT", 0)
    shard = SHARDS["positioned"]
    data = encode_table(shard)
    assert 100 <= len(data) < 134
    place = TablePlace("index", INDEX_HEADER_BYTES, len(data))
    bare = [replace(shard, name=f"t-{i}", blocks=None) for i in range(40)]
    page = encode_page([Listed(one, 2, place) for one in bare])
    ref = PageRef("page", 0, len(page), decode_page(page).totals, page_crc(page))
    held = Held(page, data)
    shards = Pages([ref], held, raw=True)
    for found in shards.tables(range(40)):
        assert found == shard.blocks
        assert held.asked <= tables * len(data)
        held.asked -= len(data)
    assert held.most == tables * len(data)

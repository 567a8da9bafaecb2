"""Pages of the list of shards: there and back, and every kind of hostile input."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given, settings, strategies as st

from tests.support.indexes import sealed, section
from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.dataset.container import section_crc
from tfio_store.dataset.shard_page import (
    PAGE_SHARDS,
    Listed,
    ShardPage,
    decode_page,
    encode_page,
)

SHARDS = [
    Listed(ShardInfo("train-0", 90, 2, 0xDEADBEEF), 2, 0, 88),
    Listed(ShardInfo("tráin-1", 1 << 40, 3 << 33, 0), 9, 88, 200),
    Listed(ShardInfo("train-2", 50, 1, 7), 1, 288, 64),
    Listed(ShardInfo("train-3", 0, 0, 0), 0, 352, 56),
    Listed(ShardInfo("train-4", 30, 2, 0), 0, 408, 0),
]
PAGE = encode_page(SHARDS)
HEAD = 16
"""Bytes of a section before its payload."""


def listed(page: ShardPage) -> list[Listed]:
    return [page[i] for i in range(len(page))]


def test_there_and_back() -> None:
    page = decode_page(PAGE)
    assert listed(page) == SHARDS
    assert page.totals == (5, (3 << 33) + 5, (1 << 40) + 170, 12, 408)
    for wrong in (-1, 5):
        with pytest.raises(IndexError):
            page[wrong]


def test_the_layout_is_that_of_the_documents() -> None:
    names = "train-0tráin-1train-2train-3train-4".encode()
    payload = struct.pack(
        "<2I15Q15I", 5, len(names),
        90, 1 << 40, 50, 0, 30,  2, 3 << 33, 1, 0, 2,  2, 9, 1, 0, 0,
        0xDEADBEEF, 0, 7, 0, 0,  88, 200, 64, 56, 0,  7, 15, 22, 29, 36,
    )  # fmt: skip
    assert section(b"page", payload + names) == PAGE
    assert section_crc(PAGE) == google_crc32c.value(PAGE[:-4])


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), min_size=1),
            st.integers(0, 2**63 - 1),
            st.integers(1, 2**63 - 1),
            st.integers(0, 2**32 - 1),
        ),
        min_size=1,
        unique_by=lambda row: row[0],
    )
)
def test_any_shards_there_and_back(rows: list[tuple[str, int, int, int]]) -> None:
    shards = [
        Listed(ShardInfo(name, nbytes, records, crc), 1, 64 * i, 64)
        for i, (name, nbytes, records, crc) in enumerate(rows)
    ]
    assert listed(decode_page(encode_page(shards))) == shards


def test_a_full_page_is_small() -> None:
    name = "_train-{:05d}-of-1000000.tfrecord.0123456789ab-01234567"
    full = [
        Listed(ShardInfo(name.format(i), 1 << 30, 1000, i), 1000, 0, 16040)
        for i in range(PAGE_SHARDS)
    ]
    assert len(encode_page(full)) < 190_000
    with pytest.raises(ValueError, match="2049 shards"):
        decode_page(encode_page([*full, full[0]]))


def test_names_over_the_limit_are_refused_by_the_writer() -> None:
    long = [Listed(ShardInfo(f"{i}" * 10_000, 0, 0, 0), 0, 0, 56) for i in range(PAGE_SHARDS)]
    with pytest.raises(ValueError, match="over the limit"):
        encode_page(long)


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(8 * len(PAGE)):
        damaged = bytearray(PAGE)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ValueError, match="checksum"):
            decode_page(damaged)


def test_every_cut_is_noticed() -> None:
    for stop in range(len(PAGE)):
        with pytest.raises(ValueError, match=r"checksum|cut off"):
            decode_page(PAGE[:stop])


@given(st.binary(max_size=300))
def test_random_bytes_are_no_page(data: bytes) -> None:
    with pytest.raises(ValueError, match="it"):
        decode_page(sealed(data))


@settings(max_examples=300)
@given(st.data())
def test_a_lie_under_a_valid_checksum_is_refused_or_makes_a_sound_page(data: st.DataObject) -> None:
    body = bytearray(PAGE[:-4])
    position = 4 * data.draw(st.integers(0, len(body) // 4 - 1))
    struct.pack_into("<I", body, position, data.draw(st.integers(0, 2**32 - 1)))
    try:
        page = decode_page(sealed(bytes(body)))
    except ValueError:
        return
    assert len(page) == 5
    for one in listed(page):
        assert 0 <= one.shard.nbytes < 1 << 63
        assert one.blocks >= 0
        assert one.start >= 0


@pytest.mark.parametrize(
    ("position", "layout", "value", "says"),
    [
        (0, "<I", 0, "0 shards"),
        (0, "<I", 6, "not those of 6 shards"),
        (0, "<I", 0xFFFFFFFF, "4294967295 shards"),
        (4, "<I", 0xFFFFFFFF, "not those of 5"),
        (8, "<Q", 1 << 63, '"nbytes"'),
        (48, "<Q", 1 << 63, '"records"'),
        (88, "<Q", 1 << 40, "as train-0 has"),
        (88, "<Q", 0, "train-0 has records and no block"),
        (72, "<Q", 1, "train-3 has records and no block"),
        (64, "<Q", 0, "train-2 has blocks and no record"),
        (120, "<Q", 1, "as train-4 has"),
        (148, "<I", 0, "as train-0 has"),
        (148, "<I", (1 << 30) + 1, "as train-0 has"),
        (168, "<I", 0, "ends of its names"),
        (168, "<I", 15, "ends of its names"),
        (184, "<I", 35, "ends of its names"),
        (188 + 14, "<B", 0xFF, "utf-8"),
        (188 + 21, "<B", ord("0"), "same name"),
    ],
)
def test_each_lie_is_named(position: int, layout: str, value: int, says: str) -> None:
    body = bytearray(PAGE[:-4])
    struct.pack_into(layout, body, HEAD + position, value)
    with pytest.raises(ValueError, match=says):
        decode_page(sealed(bytes(body)))

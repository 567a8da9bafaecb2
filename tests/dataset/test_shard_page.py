"""Pages of the list of shards: there and back, and every kind of hostile input."""

from __future__ import annotations

import struct

import google_crc32c
import pytest
from hypothesis import given, settings, strategies as st

from tfio_store.dataset.block_tables import ShardInfo
from tfio_store.dataset.shard_page import (
    LIST_HEADER_BYTES,
    PAGE_SHARDS,
    Listed,
    ShardPage,
    TablePlace,
    decode_page,
    encode_page,
    list_of,
    page_crc,
)

SHARDS = [
    Listed(ShardInfo("train-0", 90, 2, 0xDEADBEEF), 2, TablePlace("_train.index.a", 16, 88)),
    Listed(
        ShardInfo("tráin-1", 1 << 40, 3 << 33, 0), 9, TablePlace("_train.index.b", 1 << 35, 200)
    ),
    Listed(ShardInfo("train-2", 50, 1, 7), 1, TablePlace("_train.index.b", 216, 64)),
    Listed(ShardInfo("train-3", 0, 0, 0), 0, TablePlace("_train.index.a", 104, 56)),
]
PAGE = encode_page(SHARDS)


def sealed(body: bytes) -> bytes:
    return body + struct.pack("<I", google_crc32c.value(body))


def listed(page: ShardPage) -> list[Listed]:
    return [page[i] for i in range(len(page))]


def test_there_and_back() -> None:
    page = decode_page(PAGE)
    assert listed(page) == SHARDS
    assert page.totals == (4, (3 << 33) + 3, (1 << 40) + 140, 12)
    for wrong in (-1, 4):
        with pytest.raises(IndexError):
            page[wrong]


def test_the_layout_is_that_of_the_documents() -> None:
    names, indexes = "train-0tráin-1train-2train-3".encode(), b"_train.index.a_train.index.b"
    body = struct.pack(
        "<4I20Q12I2I", 4, 2, len(names), len(indexes),
        90, 1 << 40, 50, 0,  2, 3 << 33, 1, 0,  2, 9, 1, 0,  16, 1 << 35, 216, 104,
        88, 200, 64, 56,
        0xDEADBEEF, 0, 7, 0,  0, 1, 1, 0,  7, 15, 22, 29,  14, 28,
    )  # fmt: skip
    assert sealed(body + names + indexes) == PAGE
    assert page_crc(PAGE) == google_crc32c.value(PAGE[:-4])
    whole = list_of([PAGE, PAGE])
    assert struct.unpack_from("<8sII", whole) == (b"TFIOSLST", 1, 2)
    assert whole[LIST_HEADER_BYTES:] == PAGE + PAGE


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), min_size=1),
            st.integers(0, 2**63 - 1),
            st.integers(1, 2**63 - 1),
            st.integers(0, 2**32 - 1),
            st.tuples(st.sampled_from("abc"), st.integers(16, 2**62)),
        ),
        min_size=1,
        unique_by=lambda row: row[0],
    )
)
def test_any_shards_there_and_back(rows: list[tuple[str, int, int, int, tuple[str, int]]]) -> None:
    shards = [
        Listed(ShardInfo(name, nbytes, records, crc), 1, TablePlace(*place, 64))
        for name, nbytes, records, crc, place in rows
    ]
    assert listed(decode_page(encode_page(shards))) == shards


def test_a_full_page_is_small() -> None:
    place = TablePlace("_train.index.0123456789ab-01234567", 1 << 30, 16040)
    name = "_train-{:05d}-of-1000000.tfrecord.0123456789ab-01234567"
    full = [
        Listed(ShardInfo(name.format(i), 1 << 30, 1000, i), 1000, place) for i in range(PAGE_SHARDS)
    ]
    assert len(encode_page(full)) < 230_000
    with pytest.raises(ValueError, match="2049 shards"):
        decode_page(encode_page([*full, full[0]]))


def test_names_over_the_limit_are_refused_by_the_writer() -> None:
    long = [
        Listed(ShardInfo(f"{i}" * 10_000, 0, 0, 0), 0, SHARDS[0].place) for i in range(PAGE_SHARDS)
    ]
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
        with pytest.raises(ValueError, match=r"checksum|no page has"):
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
    assert len(page) == 4
    for one in listed(page):
        assert 0 <= one.shard.nbytes < 1 << 63
        assert one.blocks >= 0
        assert one.place.start >= 16


@pytest.mark.parametrize(
    ("position", "layout", "value", "says"),
    [
        (0, "<I", 0, "0 shards"),
        (0, "<I", 5, "not those of 5 shards"),
        (0, "<I", 0xFFFFFFFF, "4294967295 shards"),
        (4, "<I", 5, "5 indexes"),
        (8, "<I", 0xFFFFFFFF, "not those of 4"),
        (16, "<Q", 1 << 63, '"nbytes"'),
        (48, "<Q", 1 << 63, '"records"'),
        (80, "<Q", 1 << 40, "table of train-0"),
        (112, "<Q", 15, "table of train-0"),
        (144, "<Q", 0, "table of train-0"),
        (144, "<Q", (1 << 30) + 1, "table of train-0"),
        (192, "<I", 2, "table of train-0"),
        (208, "<I", 0, "ends of its names"),
        (208, "<I", 15, "ends of its names"),
        (220, "<I", 28, "ends of its names"),
        (224, "<I", 29, "ends of its names"),
        (232 + 14, "<B", 0xFF, "utf-8"),
        (232 + 21, "<B", ord("0"), "same name"),
    ],
)
def test_each_lie_is_named(position: int, layout: str, value: int, says: str) -> None:
    body = bytearray(PAGE[:-4])
    struct.pack_into(layout, body, position, value)
    with pytest.raises(ValueError, match=says):
        decode_page(sealed(bytes(body)))

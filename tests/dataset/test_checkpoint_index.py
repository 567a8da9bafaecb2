"""Indexes of streams that others compressed: what they tell, their size, and hostile ones."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.foreign import KINDS, codec_of, packed, texts
from tests.support.framed import framed
from tests.support.indexes import sealed
from tests.support.long import first
from tfio_store.dataset.container import HEADER_BYTES, check_header, first_section_bytes
from tfio_store.dataset.inflate.build import IndexingInflater
from tfio_store.dataset.inflate.checkpoints import CheckpointError, inflate_from
from tfio_store.dataset.inflate.index import (
    FoundIndex,
    decode_index,
    encoded_index,
)
from tfio_store.errors import CorruptRecordError
from tfio_store.records.compression import StreamError
from tfio_store.records.framing import backend
from tfio_store.storage import Version

pytestmark = pytest.mark.skipif(
    backend().core == "pure", reason="only the compiled core builds indexes"
)

RECORDS = texts(400)
RAW = framed(RECORDS)
assert len(RAW) > 3 << 20

OTHERS: dict[str, Callable[[], list[bytes]]] = {
    "none": list,
    "one byte": lambda: [b"x"],
    "empty ones": lambda: [b""] * 200_000,
    "short ones": lambda: [b"%d" % (i % 70) for i in range(200_000)],
    "long ones": lambda: [*texts(3, 3 << 20), b"x", bytes(5 << 20), *texts(2, 2 << 20)],
    "noise": lambda: [random.Random(i).randbytes(9000) for i in range(400)],
    "zeros": lambda: [bytes(100_000)] * 100,
}


def indexed(codec: str, data: bytes, piece: int = 1 << 20) -> tuple[bytes, bytes]:
    """What a stream inflates to, and its index."""
    inflater = IndexingInflater(codec, url="x", max_record_bytes=1 << 30)
    out = [
        part for at in range(0, len(data), piece) for part in inflater.feed(data[at : at + piece])
    ]
    out += inflater.finish()
    assert inflater.failure is None
    built = inflater.built()
    assert built is not None
    return b"".join(out), b"".join(encoded_index(built, "x", "etag"))


def decoded(index: bytes) -> FoundIndex:
    check_header(index)
    return decode_index(
        index[HEADER_BYTES : table_end(index)],
        nbytes=len(index),
        address="index",
        version=Version(),
    )


def table_end(index: bytes) -> int:
    return HEADER_BYTES + first_section_bytes(index[HEADER_BYTES:])


def block_of(index: bytes, data: bytes, found: FoundIndex, block: int) -> tuple[bytes, str | None]:
    table = found.table
    assert table.checkpoints is not None
    restart = table.checkpoints[block]
    start, stop = int(table.offsets[block]), int(table.stops[block])
    nbytes = int(table.raw_offsets[block + 1] - table.raw_offsets[block])
    seed = index[restart.start : restart.stop]
    raw, why = inflate_from(
        restart.point, seed, data[start:stop], found.codec, start=start, nbytes=nbytes
    )
    return bytes(raw), why


def check_blocks(data: bytes, raw: bytes, index: bytes, records: int) -> int:
    """Each block is what the raw file has there, whole records. How many blocks there are."""
    found = decoded(index)
    table = found.table
    for block in range(len(table)):
        begin, end = table.raw_offsets[block : block + 2].tolist()
        got, why = block_of(index, data, found, block)
        assert why is None
        assert got == raw[begin:end]
    assert (found.nbytes, int(table.records[-1])) == (len(data), records)
    assert int(table.raw_offsets[-1]) == len(raw)
    return len(table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("piece", first(1, [4099, 1 << 20]))
def test_each_block_comes_alone(kind: str, piece: int) -> None:
    data = KINDS[kind](RAW)
    out, index = indexed(codec_of(kind), data, piece)
    assert out == RAW
    assert check_blocks(data, RAW, index, len(RECORDS)) >= 2
    assert len(index) <= 0.03 * len(data)


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("which", OTHERS)
def test_other_records(which: str, codec: str) -> None:
    records = OTHERS[which]()
    raw = framed(records)
    data = packed(raw, 31 if codec == "GZIP" else 15)
    out, index = indexed(codec, data)
    assert out == raw
    check_blocks(data, raw, index, len(records))
    assert len(index) <= 0.03 * len(data) + 300


def test_a_stream_of_no_records_has_no_index() -> None:
    inflater = IndexingInflater("GZIP", url="x", max_record_bytes=1 << 30)
    data = packed(b"no records at all" * 100, 31)
    assert b"".join([*inflater.feed(data), *inflater.finish()]) == b"no records at all" * 100
    assert isinstance(inflater.failure, CorruptRecordError)
    assert inflater.built() is None


@pytest.mark.parametrize("wrong", [-1, -5])
def test_a_wrong_checksum_behind_a_member_is_damage(wrong: int) -> None:
    data = bytearray(packed(RAW[:1000], 31))
    data[wrong] ^= 1
    inflater = IndexingInflater("GZIP", url="x", max_record_bytes=1 << 30)
    with pytest.raises(StreamError, match="does not hold"):
        list(inflater.feed(bytes(data)))


DATA = packed(RAW, 31)


@pytest.fixture(scope="module")
def index() -> bytes:
    return indexed("GZIP", DATA)[1]


def mended(index: bytes) -> bytes:
    """The index with a checksum of its table that holds."""
    stop = table_end(index)
    return index[:HEADER_BYTES] + sealed(index[HEADER_BYTES : stop - 4]) + index[stop:]


def test_every_flipped_byte_of_the_table_is_noticed(index: bytes) -> None:
    for at in range(table_end(index)):
        wrong = bytearray(index)
        wrong[at] ^= 0x10
        with pytest.raises(ValueError, match=r"it has|its |it does|it is|cut off"):
            decoded(bytes(wrong))


def test_hostile_numbers_are_refused_or_give_no_wrong_byte(index: bytes) -> None:
    """With a checksum that holds, whatever stands in the table."""
    begin, end = HEADER_BYTES + 16, table_end(index) - 4
    chosen, sound = random.Random(5), decoded(index)
    for _ in range(400):
        wrong = bytearray(index)
        for _ in range(chosen.randrange(1, 3)):
            at = begin + 4 * chosen.randrange((end - begin) // 4)
            wrong[at : at + 4] = chosen.choice(
                [bytes(4), b"\xff" * 4, b"\x01\0\0\0", chosen.randbytes(4)]
            )
        try:
            found = decoded(mended(bytes(wrong)))
        except ValueError:
            continue
        for block in range(min(len(found.table), 4)):
            try:
                raw, why = block_of(bytes(wrong), DATA, found, block)
            except (StreamError, CheckpointError):
                continue
            begun, ended = found.table.raw_offsets[block : block + 2].tolist()
            same = (begun, ended) == tuple(sound.table.raw_offsets[block : block + 2].tolist())
            assert why is not None or not same or raw == RAW[begun:ended]


@pytest.mark.parametrize(
    "wrong",
    [b"", b"x", zlib.compress(b""), zlib.compress(bytes(2)), zlib.compress(bytes(1 << 20)), None],
    ids=["empty", "no zlib", "nothing", "no header", "too long", "of another place"],
)
def test_a_wrong_seed_gives_no_wrong_byte(index: bytes, wrong: bytes | None) -> None:
    found = decoded(index)
    points: Any = found.table.checkpoints
    seed = index[points[2].start : points[2].stop] if wrong is None else wrong
    start, stop = int(found.table.offsets[1]), int(found.table.stops[1])
    nbytes = int(found.table.raw_offsets[2] - found.table.raw_offsets[1])
    try:
        _, why = inflate_from(
            points[1].point, seed, DATA[start:stop], "GZIP", start=start, nbytes=nbytes
        )
    except CheckpointError:
        return
    assert why is not None


def test_a_block_that_claims_too_much_is_refused(index: bytes) -> None:
    found = decoded(index)
    points: Any = found.table.checkpoints
    with pytest.raises(StreamError, match="cannot inflate"):
        inflate_from(points[0].point, b"", DATA[:1000], "GZIP", start=0, nbytes=1 << 40)

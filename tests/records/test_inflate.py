"""The inflater that goes on anywhere, against zlib."""

from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.cores import both_cores
from tests.support.foreign import KINDS, codec_of, packed, texts
from tfio_store.records.framing import backend

_core = pytest.importorskip("tfio_store.records._core")

pytestmark = pytest.mark.skipif(backend().core == "pure", reason="only the compiled core marks")

RAW = b"".join(texts(12, 30_000)) + random.Random(1).randbytes(5000) + bytes(3000)


def inflated(codec: str, data: bytes, piece: int = 1 << 30, limit: int = 1 << 16) -> bytes:
    """What comes out. ValueError or EOFError for damage."""
    inflater, out, at = _core.Inflater(codec), b"", 0
    while True:
        found = inflater.read(limit)
        out += found
        if found or inflater.status == "member":
            continue
        if inflater.status == "end":
            return out
        if at < len(data):
            inflater.feed(data[at : at + piece])
            at += piece
        else:
            inflater.finish()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("piece", [113, 5000, 1 << 30])
def test_inflates_as_zlib_does(kind: str, piece: int) -> None:
    assert inflated(codec_of(kind), KINDS[kind](RAW), piece) == RAW


@settings(max_examples=200)
@given(
    parts=st.lists(st.tuples(st.binary(max_size=300), st.integers(1, 400)), max_size=12),
    level=st.integers(0, 9),
    strategy=st.integers(0, 4),
    zlibs=st.booleans(),
    piece=st.integers(1, 2000),
    limit=st.integers(1, 3000),
)
def test_any_data(
    parts: list[tuple[bytes, int]],
    level: int,
    strategy: int,
    zlibs: bool,
    piece: int,
    limit: int,
) -> None:
    raw = b"".join(part * times for part, times in parts)
    data = packed(raw, 15 if zlibs else 31, level, strategy)
    assert inflated("ZLIB" if zlibs else "GZIP", data, piece, limit) == raw


def marks(codec: str, data: bytes, step: int) -> list[tuple[int, dict[str, Any], int]]:
    """Checkpoints of a stream: the bytes before each, what `inflate_block` needs, and where in the
    output the next one is."""
    inflater = _core.Inflater(codec)
    inflater.feed(data)
    inflater.finish()
    found: list[tuple[int, dict[str, Any], int]] = []
    at, mark, marked = 0, None, 0
    while inflater.status != "end":
        piece = inflater.read(step, exact=True)
        at += len(piece)
        if inflater.status != "limit":
            continue
        if mark is not None and not inflater.watched:
            at += len(inflater.read(1 << 15))
            continue
        if mark is not None:
            found.append(
                (marked, {**mark, "window": inflater.window() if mark["header_bits"] else b""}, at)
            )
        bit, header, bits = inflater.mark()
        mark, marked = {"bit": bit, "header": header, "header_bits": bits}, at
        at += len(inflater.read(1 << 15))
    return found


@both_cores
@pytest.mark.parametrize("kind", KINDS)
def test_goes_on_at_a_mark(core: Any, kind: str) -> None:
    codec, data = codec_of(kind), KINDS[kind](RAW)
    found = marks(codec, data, 7001)
    assert len(found) > 1
    for at, mark, stop in found:
        for skip in (0, 300):
            nbytes = stop - at - skip
            raw, why = core.inflate_block(data, codec, **mark, skip=skip, nbytes=nbytes)
            assert (bytes(raw), why) == (RAW[at + skip : stop], None)
        rest, why = core.inflate_block(data, codec, **mark, skip=0, nbytes=len(RAW) - at + 1)
        assert why is not None
        assert bytes(rest)[: stop - at] == RAW[at:stop]


@both_cores
def test_what_no_inflater_was_marked_as_is_refused(core: Any) -> None:
    data = KINDS["GZIP level 6"](RAW)
    _, mark, _ = marks("GZIP", data, 7001)[1]
    for wrong in ({"header": b""}, {"header_bits": 3000}, {"bit": 8 * len(data) + 1}):
        with pytest.raises(ValueError, match="marked so"):
            core.inflate_block(data, "GZIP", **{**mark, **wrong}, skip=0, nbytes=10)


@pytest.mark.parametrize("kind", ["GZIP level 6", "ZLIB level 1", "GZIP of fixed codes, one block"])
def test_damage_is_met_where_zlib_meets_it(kind: str) -> None:
    codec, chosen = codec_of(kind), random.Random(7)
    sound = KINDS[kind](RAW[:20_000])
    for _ in range(300):
        data = bytearray(sound)
        for _ in range(chosen.randrange(1, 4)):
            data[chosen.randrange(10, len(data) - 8)] ^= 1 << chosen.randrange(8)
        theirs = zlib.decompressobj(31 if codec == "GZIP" else 15)
        raw = b""
        try:
            for at in range(len(data)):
                raw += theirs.decompress(data[at : at + 1])
            fails = not theirs.eof
        except zlib.error as error:
            fails = "check" not in str(error)  # of checksums an Inflater only tells
        inflater, ours = _core.Inflater(codec), b""
        inflater.feed(bytes(data))
        inflater.finish()
        try:
            while inflater.status not in ("end", "member"):
                ours += inflater.read(1 << 15)
            assert not fails or theirs.eof
        except (ValueError, EOFError):
            assert fails
        assert ours.startswith(raw) or raw.startswith(ours)


def test_an_end_that_is_cut_is_told_from_damage() -> None:
    data = KINDS["GZIP level 6"](RAW)
    for size in (0, 1, 9, 10, 11, 100, len(data) // 2, len(data) - 1):
        with pytest.raises(EOFError):
            inflated("GZIP", data[:size])


@pytest.mark.parametrize("flag", [8, 16])
def test_a_header_without_an_end_is_refused(flag: int) -> None:
    """A file name or a comment. Each piece was put behind all before it, and copied with them."""
    inflater = _core.Inflater("GZIP")
    inflater.feed(bytes([31, 139, 8, flag, 0, 0, 0, 0, 0, 3]))
    with pytest.raises(ValueError, match="a header has more than 131072 bytes"):
        for _ in range(100):
            inflater.feed(b"a" * 5000)
            assert inflater.read(1 << 16) == b""


@pytest.mark.parametrize("piece", [5000, 1 << 30])
def test_the_longest_extra_field_is_read(piece: int) -> None:
    extra = bytes(65535)
    header = bytes([31, 139, 8, 4, 0, 0, 0, 0, 0, 3]) + len(extra).to_bytes(2, "little") + extra
    assert inflated("GZIP", header + packed(RAW, 31)[10:], piece) == RAW


def test_the_checksum_of_a_header_is_compared() -> None:
    """RFC 1952: the lower half of the CRC-32 of all of the header before it."""
    plain = packed(RAW, 31)
    for flags, fields in ((2, b""), (2 | 4 | 8 | 16, b"\x03\0abc" + b"name\0" + b"comment\0")):
        head = plain[:3] + bytes([flags]) + plain[4:10] + fields
        good = head + (zlib.crc32(head) & 0xFFFF).to_bytes(2, "little") + plain[10:]
        assert zlib.decompress(good, 31) == RAW
        for piece in (1, 1 << 20):
            assert inflated("GZIP", good, piece) == RAW
        for at in (4, len(head) - 1, len(head), len(head) + 1):
            wrong = bytearray(good)
            wrong[at] ^= 1
            with pytest.raises(zlib.error, match="header crc mismatch"):
                zlib.decompress(bytes(wrong), 31)
            with pytest.raises(ValueError, match="header crc mismatch"):
                inflated("GZIP", bytes(wrong))

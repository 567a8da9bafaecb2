"""Codecs: pieces that make valid files, decompression that is bounded, magic bytes."""

from __future__ import annotations

import gzip
import os
import struct
import zlib

import pytest
from hypothesis import given, settings, strategies as st

import tfio_store.records.deflate as deflate
from tfio_store.errors import Reason
from tfio_store.records.compression import (
    Compressor,
    Decompressor,
    StreamError,
    codec_name,
    decompress,
    decompress_block,
    detect,
)
from tfio_store.records.framing import masked_crc32c

CODECS = ["GZIP", "ZLIB", "ZSTD"]
BLOCKS = [b"a", b"record " * 5000, os.urandom(70_000), bytes(300_000)]


@pytest.fixture(params=["fast", "zlib only"])
def libraries(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test with the optional libraries, and without them."""
    if request.param == "zlib only":
        monkeypatch.setattr(deflate, "_isal", None)
        monkeypatch.setattr(deflate, "_deflate", None)


def pack(codec: str, blocks: list[bytes], level: int | None = None) -> tuple[bytes, list[int]]:
    """A whole shard, and where its blocks begin and end."""
    compressor = Compressor(codec, level)
    data, checksum, bounds = compressor.header, compressor.EMPTY, [len(compressor.header)]
    for block in blocks:
        data += bytes(compressor.compress(block))
        checksum = compressor.add(checksum, compressor.checksum(block), len(block))
        bounds.append(len(data))
    data += compressor.trailer(checksum, empty=not blocks)
    bounds[-1] = len(data)
    return data, bounds


def by_another_library(codec: str, data: bytes) -> bytes:
    if codec == "GZIP":
        return gzip.decompress(data)
    if codec == "ZLIB":
        stream = zlib.decompressobj()
        raw = stream.decompress(data) + stream.flush()
        assert stream.eof
        assert not stream.unused_data
        return raw
    pyarrow = pytest.importorskip("pyarrow")
    return pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd").read()


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("level", [None, -1, 1, 2, 6, 9])
def test_another_library_reads_a_shard_of_pieces(codec: str, level: int | None) -> None:
    data, _ = pack(codec, BLOCKS, level)
    assert by_another_library(codec, data) == b"".join(BLOCKS)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_a_shard_without_blocks_is_a_valid_file(codec: str) -> None:
    data, _ = pack(codec, [])
    assert data
    assert by_another_library(codec, data) == b""
    assert decompress(data, codec, limit=0) == b""


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_each_block_decompresses_alone(codec: str) -> None:
    data, bounds = pack(codec, BLOCKS)
    for i, block in enumerate(BLOCKS):
        stored = memoryview(data)[bounds[i] : bounds[i + 1]]
        assert bytes(decompress_block(stored, codec, nbytes=len(block))) == block


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("wrong", [-1, 1, 1 << 40])
def test_a_block_of_another_size_is_refused_without_allocating(codec: str, wrong: int) -> None:
    data, bounds = pack(codec, BLOCKS)
    stored = data[bounds[3] : bounds[4]]
    with pytest.raises(StreamError):
        decompress_block(stored, codec, nbytes=len(BLOCKS[3]) + wrong)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_is_refused(codec: str) -> None:
    bomb, _ = pack(codec, [bytes(64 << 20)])
    assert len(bomb) < 100_000
    for call in (decompress_block, decompress):
        limit = {"nbytes": 1000} if call is decompress_block else {"limit": 1000}
        with pytest.raises(StreamError, match="more than 1000 bytes"):
            call(bomb[2:] if codec == "ZLIB" and call is decompress_block else bomb, codec, **limit)


def test_a_gzip_member_that_lies_about_its_size_is_not_believed() -> None:
    member = gzip.compress(b"small")
    liar = member[:-4] + struct.pack("<I", 0xFFFFFFFF)
    with pytest.raises(StreamError):
        decompress_block(liar, "GZIP", nbytes=0xFFFFFFFF)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("step", [1, 7, 4096, 1 << 30])
@pytest.mark.parametrize("limit", [1, 1000, 1 << 20])
def test_a_stream_reads_the_same_however_it_is_cut(codec: str, step: int, limit: int) -> None:
    blocks = [b"x" * 50, b"", bytes(range(256)) * 4]
    data, _ = pack(codec, blocks)
    decoder, out = Decompressor(codec), []
    for start in range(0, len(data), step):
        decoder.feed(data[start : start + step])
        while piece := decoder.read(limit):
            assert len(piece) <= limit
            out.append(piece)
    decoder.finish()
    assert b"".join(out) == b"".join(blocks)


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_noticed(codec: str) -> None:
    data, bounds = pack(codec, [b"one" * 9, b"two" * 9])
    whole = {0} if codec == "ZLIB" else {0, *bounds}
    for cut in range(len(data)):
        decoder = Decompressor(codec)
        decoder.feed(data[:cut])
        while decoder.read(1000):
            pass
        if cut in whole:
            decoder.finish()
        else:
            with pytest.raises(StreamError, match="ends too early") as caught:
                decoder.finish()
            assert caught.value.kind is Reason.SHORT_STREAM


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_noticed_and_stays(codec: str) -> None:
    data = bytearray(pack(codec, [os.urandom(5000) * 2])[0])
    data[2000:2010] = bytes(10)
    decoder = Decompressor(codec)
    decoder.feed(data)
    with pytest.raises(StreamError):
        list(iter(lambda: decoder.read(1 << 20), b""))
    with pytest.raises(StreamError):
        decoder.read(1)
    with pytest.raises(StreamError):
        decoder.finish()


@pytest.mark.usefixtures("libraries")
def test_several_zlib_streams_are_all_read() -> None:
    data = zlib.compress(b"first ") + zlib.compress(b"second")
    assert decompress(data, "ZLIB", limit=100) == b"first second"


@pytest.mark.usefixtures("libraries")
def test_zeros_behind_gzip_are_padding_and_other_bytes_are_not() -> None:
    member = gzip.compress(b"data")
    assert decompress(member + bytes(512), "GZIP", limit=100) == b"data"
    for tail in (b"junk", bytes(512) + b"junk"):
        with pytest.raises(StreamError, match="behind"):
            decompress(member + tail, "GZIP", limit=100)


@given(st.lists(st.binary(max_size=2000), max_size=5), st.sampled_from(CODECS))
@settings(deadline=None, max_examples=60)
def test_round_trip(blocks: list[bytes], codec: str) -> None:
    data, _ = pack(codec, blocks)
    assert decompress(data, codec, limit=10_000) == b"".join(blocks)
    assert by_another_library(codec, data) == b"".join(blocks)


def test_detect_tells_codecs_by_their_first_bytes() -> None:
    for codec in CODECS:
        for level in (1, 6, 9):
            assert detect(pack(codec, [b"some data" * 99], level)[0][:64]) == codec
        assert detect(pack(codec, [])[0]) == codec
    for level in range(10):
        assert detect(zlib.compress(os.urandom(3000), level)[:64]) == "ZLIB"


def test_detect_takes_no_raw_record_for_compressed_data() -> None:
    """Lengths whose first bytes are magic numbers, with a length CRC that holds."""
    for magic in (
        b"\x1f\x8b\x08\x00",
        b"\x28\xb5\x2f\xfd",
        b"\x78\x9c\x00\x00",
        b"\x78\x01\x01\x00",
    ):
        length = magic + bytes(4)
        frame = length + struct.pack("<I", masked_crc32c(length)) + os.urandom(40)
        assert detect(frame) is None


def test_detect_takes_damaged_raw_lengths_that_look_like_zlib_for_raw() -> None:
    for second in (0x01, 0x5E, 0x9C, 0xDA):
        frame = bytes([0x78, second, 0, 0, 0, 0, 0, 0]) + bytes(100)
        assert detect(frame) is None


@pytest.mark.parametrize("first", [b"", b"\x1f", b"x", b"plain text, quite long enough"])
def test_detect_says_none_of_what_it_does_not_know(first: bytes) -> None:
    assert detect(first) is None


def test_names() -> None:
    assert [codec_name(name) for name in (None, "", "GZIP", "ZLIB", "ZSTD")] == [
        None, None, "GZIP", "ZLIB", "ZSTD",
    ]  # fmt: skip
    for name in ("gzip", "SNAPPY", "auto"):
        with pytest.raises(ValueError, match=f'compression must be None, "GZIP".*{name}'):
            codec_name(name)


@pytest.mark.parametrize(
    ("codec", "level"), [(None, 3), ("GZIP", 10), ("GZIP", -2), ("ZSTD", 23), ("ZLIB", "6")]
)
def test_levels_out_of_range_are_refused(codec: str | None, level: int) -> None:
    with pytest.raises(ValueError, match="level"):
        Compressor(codec, level)

"""Decompression past damage: all that inflates, and where it does not."""

from __future__ import annotations

import gzip
import random
import zlib
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tfio_store.records import compression
from tfio_store.records.compression import Compressor
from tfio_store.records.recovery import Gap, RecoveringDecompressor

RECORDS = [b"%05d:" % i + random.Random(i).randbytes(i % 200) * 2 for i in range(826)]
WHOLE = framed(RECORDS)


def recovered(codec: str, data: bytes, piece: int = 1 << 30) -> list[bytes | int]:
    """Runs of bytes, and the sizes of the gaps between them."""
    decoder = RecoveringDecompressor(compression.CODECS[codec])
    events: list[bytes | Gap] = []
    for at in range(0, len(data), piece):
        events += decoder.feed(data[at : at + piece])
    events += decoder.finish()
    joined: list[bytes | int] = []
    for event in events:
        if isinstance(event, Gap):
            joined.append(event.nbytes)
        elif joined and isinstance(joined[-1], bytes):
            joined[-1] += event
        else:
            joined.append(event)
    return joined


def members(codec: str, parts: list[bytes]) -> bytes:
    pack: Any = {"GZIP": lambda p: gzip.compress(p, mtime=0), "ZLIB": zlib.compress}.get(codec)
    pack = pack or Compressor(codec).compress
    return b"".join(bytes(pack(part)) for part in parts)


CODECS = ["GZIP", "ZLIB", "ZSTD"]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("piece", [7, 100, 5000, 1 << 30])
def test_sound_data_come_out_whole(codec: str, piece: int) -> None:
    if codec == "ZSTD":
        pytest.importorskip("zstandard")
    data = members(codec, [WHOLE[:1000], WHOLE[1000:50_000], WHOLE[50_000:]])
    data += bytes(512) if codec == "GZIP" else b""
    assert recovered(codec, data, piece) == [WHOLE]


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("piece", [7, 100, 1 << 30])
def test_a_flip_in_the_trailer_loses_nothing(codec: str, piece: int) -> None:
    data = bytearray(members(codec, [WHOLE]))
    data[-6 if codec == "GZIP" else -1] ^= 1
    out, gap = recovered(codec, bytes(data), piece)
    assert out == WHOLE
    assert isinstance(gap, int)
    assert gap <= 12


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("piece", [7, 977, 1 << 30])
def test_the_members_behind_a_damaged_one_are_found(codec: str, piece: int) -> None:
    if codec == "ZSTD":
        pytest.importorskip("zstandard")
    parts = [WHOLE[:30_000], WHOLE[30_000:60_000], WHOLE[60_000:]]
    first, second = len(members(codec, parts[:1])), len(members(codec, parts[:2]))
    data = bytearray(members(codec, parts))
    data[first + 200 : second - 200] = bytes(second - first - 400)
    found = recovered(codec, bytes(data), piece)
    text = b"".join(event for event in found if isinstance(event, bytes))  # garbage in between
    assert text.startswith(parts[0])
    assert text.endswith(parts[2])
    assert len(text) < len(WHOLE) + 30_000
    assert any(isinstance(event, int) for event in found)


@pytest.mark.parametrize("codec", CODECS)
def test_any_single_flip_is_survived_the_same_however_it_is_fed(codec: str) -> None:
    if codec == "ZSTD":
        pytest.importorskip("zstandard")
    rng = random.Random(7)
    parts = [WHOLE[i : i + 9000] for i in range(0, 45_000, 9000)]
    sound = members(codec, parts)
    for _ in range(150):
        data = bytearray(sound)
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        events = recovered(codec, bytes(data))
        assert recovered(codec, bytes(data), 333) == events
        text = b"".join(event for event in events if isinstance(event, bytes))
        assert sum(part in text for part in parts) >= 3
        assert any(isinstance(event, int) for event in events) or text == b"".join(parts)


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("where", ["trailer", "middle"])
def test_a_foreign_file_with_one_bad_byte(tmp_path: Path, codec: str, where: str) -> None:
    data = bytearray(members(codec, [WHOLE]))
    data[len(data) // 2 if where == "middle" else -1] ^= 1
    (tmp_path / "x").write_bytes(data)
    least = len(RECORDS) if where == "trailer" else len(RECORDS) // 2 - 50
    told: list[tfs.SkippedRegion] = []
    found = list(tfs.RecordReader(tmp_path / "x", on_corrupt=told.append))
    assert len(found) >= least
    assert [record for record in RECORDS if record in set(found)] == found
    assert any(region.length is None for region in told)
    report = tfs.verify(tmp_path / "x")
    assert not report.ok
    assert report.records == len(found)
    copied = tfs.salvage(tmp_path / "x", str(tmp_path / "saved"))
    assert copied.records == len(found)
    assert list(tfs.RecordReader(tmp_path / "saved")) == found


@pytest.mark.parametrize("codec", CODECS)
def test_a_damaged_block_gives_what_it_still_holds(tmp_path: Path, codec: str) -> None:
    if codec == "ZSTD":
        pytest.importorskip("zstandard")
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=1, compression=codec) as writer:
        writer.write_batch(RECORDS)
    (shard,) = tmp_path.glob("t-*")
    data = bytearray(shard.read_bytes())
    data[-1 if codec == "ZSTD" else len(data) // 2] ^= 1
    shard.write_bytes(data)
    told: list[tfs.SkippedRegion] = []
    found = list(tfs.RecordReader(tmp_path / "t", on_corrupt=told.append))
    assert told
    assert [record for record in RECORDS if record in set(found)] == found
    assert len(found) > (len(RECORDS) // 2 - 50 if codec != "ZSTD" else 0)


@pytest.mark.parametrize("codec", [None, *CODECS])
@pytest.mark.parametrize("seed", range(6))
def test_a_reader_comes_back_to_any_place_among_damage(
    tmp_path: Path, codec: str | None, seed: int
) -> None:
    if codec == "ZSTD":
        pytest.importorskip("zstandard")
    rng = random.Random(seed)
    parts = [WHOLE[i : i + 20_000] for i in range(0, len(WHOLE), 20_000)]
    for name in ("a", "b"):
        data = bytearray(WHOLE if codec is None else members(codec, parts))
        for _ in range(rng.randrange(4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (tmp_path / name).write_bytes(data)
    told: list[tfs.SkippedRegion] = []

    def reader() -> tfs.RecordReader:
        found = tfs.RecordReader(
            str(tmp_path / "[ab]"), on_corrupt=told.append, memory_budget=40 << 20
        )
        return found.shuffle(seed) if seed % 2 else found

    whole = list(reader())
    assert set(whole) <= set(RECORDS)
    running = reader()
    each = iter(running)
    for at in range(len(whole)):
        if at % 97 == 0:
            other = reader()
            other.restore(running.state())
            assert list(other) == whole[at:]
        next(each)

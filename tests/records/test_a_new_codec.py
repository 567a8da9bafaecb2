"""What a codec takes: one class, and one line of the table. Every door has it then."""

from __future__ import annotations

import bz2
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typing_extensions import Buffer as BytesLike

import tfio_store as tfs
from tfio_store.records import compression
from tfio_store.records.codec import Codec

RECORDS = [b"%05d " % i * 40 for i in range(3000)]


class _Member:
    """bz2's decoder, with the names that zlib's has."""

    def __init__(self) -> None:
        self._decoder = bz2.BZ2Decompressor()

    def decompress(self, data: BytesLike) -> bytes:
        return self._decoder.decompress(data)

    @property
    def eof(self) -> bool:
        return self._decoder.eof

    @property
    def unused_data(self) -> bytes:
        return self._decoder.unused_data

    @property
    def unconsumed_tail(self) -> bytes:
        return b""


class Bz2(Codec):
    """One bzip2 stream per block."""

    name = "BZ2"
    levels = (1, 9, 9)
    most_ratio = 1 << 16
    step = 4 << 10
    beginning = re.compile(rb"BZh[1-9]1AY&SY")
    bounded = False

    def compress(self, block: BytesLike, level: int) -> bytes:
        return bz2.compress(block, level)

    def member(self, *, copyable: bool = False) -> Any:
        del copyable
        return _Member()

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        return (OSError, ValueError)

    def begins(self, head: bytes) -> bool:
        return head[:3] == b"BZh" and head[4:10] == b"1AY&SY"


@pytest.fixture(autouse=True)
def codec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(compression.CODECS, Bz2.name, Bz2())


@pytest.fixture
def train(tmp_path: Path) -> str:
    url = str(tmp_path / "train")
    with tfs.ShardedWriter(url, num_shards=2, compression="BZ2", block_bytes=32 << 10) as writer:
        writer.write_batch(RECORDS)
    return url


def test_a_dataset(train: str) -> None:
    order = RECORDS[::2] + RECORDS[1::2]
    assert list(tfs.RecordReader(train)) == order
    source = tfs.RecordSource(train)
    assert [bytes(each) for each in source[[5, 2999, 0]]] == [order[5], order[2999], order[0]]
    mixed = [bytes(each) for each in tfs.RecordReader(train).shuffle(seed=1)]
    assert mixed != order
    assert sorted(mixed) == sorted(order)
    assert tfs.info(train).compression == "BZ2"
    assert tfs.verify(train).ok


def test_a_block_is_one_stream_of_the_codec_s_own_library(train: str, tmp_path: Path) -> None:
    shard = tfs.info(train).shards[0]
    framed = bz2.decompress(Path(shard.url).read_bytes())
    raw = tmp_path / "raw"
    raw.write_bytes(framed)
    assert list(tfs.RecordReader(str(raw))) == RECORDS[::2]


def test_a_file_of_another_writer_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "foreign"
    with tfs.TFRecordWriter(str(tmp_path / "raw")) as writer:
        writer.write_batch(RECORDS)
    path.write_bytes(bz2.compress((tmp_path / "raw").read_bytes()))
    assert list(tfs.RecordReader(str(path))) == RECORDS
    assert list(tfs.RecordReader(str(path), compression="BZ2")) == RECORDS
    with pytest.raises(ValueError, match="a BZ2 stream, inside of which no decoder can begin"):
        tfs.build_index(str(path))


def test_a_file_writer(tmp_path: Path) -> None:
    path = str(tmp_path / "one")
    with tfs.TFRecordWriter(path, "BZ2") as writer:
        writer.write_batch(RECORDS)
    assert list(tfs.RecordReader(path)) == RECORDS


def test_damage_loses_its_block(train: str) -> None:
    shard = Path(tfs.info(train).shards[0].url)
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 0x55
    shard.write_bytes(data)
    with pytest.raises(tfs.DataLossError):
        list(tfs.RecordReader(train))
    regions: list[tfs.SkippedRegion] = []
    found = list(tfs.RecordReader(train, on_corrupt=regions.append))
    assert regions
    assert len(RECORDS) > len(found) > len(RECORDS) * 3 // 4
    assert set(found) < set(RECORDS)


def test_damage_of_a_stream_loses_its_member(tmp_path: Path) -> None:
    raw, path = tmp_path / "raw", tmp_path / "foreign"
    with tfs.TFRecordWriter(str(raw)) as writer:
        writer.write_batch(RECORDS)
    framed = raw.read_bytes()
    members = [bz2.compress(framed[at : at + 50_000]) for at in range(0, len(framed), 50_000)]
    members[3] = members[3][:40] + bytes(8) + members[3][48:]
    path.write_bytes(b"".join(members))
    regions: list[tfs.SkippedRegion] = []
    found = list(tfs.RecordReader(str(path), on_corrupt=regions.append))
    assert regions
    assert len(found) > len(RECORDS) * 3 // 4


def test_maintenance(train: str, tmp_path: Path) -> None:
    target = str(tmp_path / "copied")
    tfs.copy(train, target, num_shards=3, target_compression="BZ2")
    assert tfs.diff(train, target, ordered=False).same
    assert tfs.salvage(train, str(tmp_path / "saved")).ok
    assert len(tfs.RecordSource(str(tmp_path / "saved"))) == len(RECORDS)


def test_columns(tmp_path: Path) -> None:
    url = str(tmp_path / "table")
    tfs.write_table({"x": np.arange(500)}, url, compression="BZ2")
    assert tfs.read_table(url)["x"].tolist() == list(range(500))


def test_an_unknown_name_lists_it() -> None:
    with pytest.raises(ValueError, match='None, "GZIP", "ZLIB", "ZSTD" or "BZ2", not'):
        compression.codec_name("LZ4")

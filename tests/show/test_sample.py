"""A sample: every part of a dataset is looked at, records are where it says, memory is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.show import datasets
from tests.support.million import write_many
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.show import strata
from tfio_store.show.sample import Sample, open_source, take_sample
from tfio_store.storage import Storage


def sampled(source: object, **options: object) -> Sample:
    return take_sample(open_source(source, Storage()), **options)  # type: ignore[arg-type]


def numbers(folder: Path, *, compression: str | None = None, count: int = 30_000) -> str:
    """Three shards in blocks."""
    chance = np.random.default_rng(0)
    columns = {"n": np.arange(count), "x": chance.random((count, 30))}
    path = str(folder / "n")
    tfs.write_table(columns, path, num_shards=3, compression=compression)
    return path


def record(sample: Sample, row: int) -> bytes:
    place = sample.places[row]
    return datasets.record_at(sample.dataset.shard(place.shard), place.offset)


def number_of(record: bytes) -> int:
    return int(tfs.decode_examples([record], {"n": "int64"})["n"][0])


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("blocks", [1000, 5])
def test_records_are_where_their_places_say(
    tmp_path: Path, compression: str | None, blocks: int
) -> None:
    source = numbers(tmp_path, compression=compression)
    records = list(tfs.RecordReader(source))
    sample = sampled(source, blocks=blocks)
    assert sample.scope.of_blocks is not None
    assert sample.scope.blocks == min(blocks, sample.scope.of_blocks)
    places = sample.places
    assert len(places) == len(sample)
    for row in range(0, len(sample), 501):
        assert record(sample, row) == records[places[row].number or 0]
    assert [place.at for place in places] == sorted(place.at for place in places)


def test_every_part_of_a_dataset_is_looked_at(tmp_path: Path) -> None:
    sample = sampled(numbers(tmp_path), blocks=6)
    at = np.array([place.at for place in sample.places])
    assert np.histogram(at, 6, (0, 1))[0].all()


def test_the_same_seed_gives_the_same_sample(tmp_path: Path) -> None:
    source = numbers(tmp_path)
    first, again = (list(sampled(source, blocks=3, seed=5).places) for _ in range(2))
    assert first == again
    assert first != list(sampled(source, blocks=3, seed=6).places)


def test_small_files_without_an_index_are_read_whole(tmp_path: Path) -> None:
    sample = sampled(datasets.plain_files(tmp_path))
    assert [place.number for place in sample.places] == list(range(1200))
    assert not sample.scope.spots


def test_large_files_without_an_index_are_read_in_spots(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    records = [tfs.encode_example({"n": i, "x": chance.random(200)}) for i in range(8000)]
    path = datasets.raw(tmp_path / "large.tfrecord", records)
    sample = sampled(path, blocks=4)
    assert sample.scope.spots
    assert not sample.damage
    assert 0 < sample.records < 4000
    first = 0
    for row, place in enumerate(sample.places):
        assert place.number is None
        n = number_of(record(sample, row))
        assert abs(place.at - n / 8000) < 0.01
        assert n >= first
        first = n


@pytest.mark.parametrize("blocks", [4, 16])
def test_spots_find_records_that_are_longer_than_they_are(tmp_path: Path, blocks: int) -> None:
    chance = np.random.default_rng(0)
    records = [chance.bytes(900_000) for _ in range(12)]
    path = datasets.raw(tmp_path / "long.tfrecord", records)
    sample = sampled(path, blocks=blocks)
    assert sample.scope.spots
    assert sample.records >= 2
    found = [records.index(record(sample, row)) for row in range(len(sample))]
    assert found == sorted(set(found))
    assert not sample.damage


def test_damage_at_a_spot_is_told(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    path = tmp_path / "large.tfrecord"
    datasets.raw(path, [chance.bytes(1000) for _ in range(4000)])
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 20_000):
        data[at] ^= 0xFF
    path.write_bytes(data)
    sample = sampled(str(path), blocks=4)
    assert sample.scope.spots
    assert sample.damage
    for region in sample.damage:
        assert region.nbytes is not None
        assert any(region.offset <= at < region.offset + region.nbytes
                   for at in range(0, len(data), 20_000))  # fmt: skip


def test_of_a_long_compressed_stream_the_beginning_is_read(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    records = [chance.bytes(1000) for _ in range(3000)]
    path = datasets.raw(tmp_path / "s.tfrecord.gz", records, compression="GZIP")
    sample = sampled(path, blocks=2)
    assert [record(sample, row) for row in range(len(sample))] == records[: len(sample)]
    assert not sample.damage
    assert any("beginning" in text for text in sample.scope.left_out)


@pytest.mark.parametrize("full", [False, True])
def test_damage_is_told_and_not_raised(tmp_path: Path, full: bool) -> None:
    sample = sampled(datasets.damaged(tmp_path), full=full)
    assert [region.shard for region in sample.damage] == [0, 2]
    assert sample.records == 1998


def test_a_missing_shard_is_told(tmp_path: Path) -> None:
    sample = sampled(datasets.missing_shard(tmp_path))
    assert set(sample.unreadable) == {1, 4}
    assert sample.records == 2000


def test_a_source_of_which_nothing_can_be_read_is_an_error(tmp_path: Path) -> None:
    source = datasets.scalars(tmp_path)
    for file in tmp_path.glob("scalars-*"):
        file.unlink()
    with pytest.raises(FileNotFoundError):
        sampled(source)


def test_no_records(tmp_path: Path) -> None:
    sources: list[Any] = [datasets.no_records(tmp_path), []]
    for source in sources:
        sample = sampled(source)
        assert (len(sample), sample.records, sample.scope.blocks) == (0, 0, 0)


def test_a_hundred_thousand_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Block tables are read of the shards that are looked at, and of no others."""
    source = write_many(tmp_path, 49)
    opened = open_source(source, Storage())
    listed = opened.dataset.shards
    assert isinstance(listed, ListedShards)
    tables: list[int] = []
    real = type(listed.pages)._begin_table
    monkeypatch.setattr(
        type(listed.pages),
        "_begin_table",
        lambda self, place, shard: (tables.append(shard), real(self, place, shard))[1],
    )
    sample = take_sample(opened, blocks=32)
    assert sample.scope.of_blocks == listed.blocks
    assert sample.records == 32
    assert len(set(tables)) <= 32


def test_what_is_too_large_for_a_sample_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strata, "_MOST_BLOCK_BYTES", 1 << 19)
    source = numbers(tmp_path)
    sample = sampled(source)
    assert any("of more than" in text for text in sample.scope.left_out)
    monkeypatch.undo()
    monkeypatch.setattr(strata, "_MOST_BYTES", 4 << 20)
    sample = sampled(source)
    assert any("chosen block" in text for text in sample.scope.left_out)
    assert sample.nbytes <= 5 << 20


def test_blocks_must_be_some(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="blocks= takes 1 or more, not 0"):
        sampled(datasets.few(tmp_path), blocks=0)


def test_a_sample_has_as_many_blocks_as_were_asked_for(tmp_path: Path) -> None:
    source = numbers(tmp_path, count=60_000)
    of_blocks = sampled(source).scope.of_blocks
    assert of_blocks is not None
    for blocks in range(1, of_blocks):
        assert sampled(source, blocks=blocks).scope.blocks == blocks


def test_a_part_of_a_dataset(tmp_path: Path) -> None:
    source = numbers(tmp_path)
    for part in tfs.partitions(source, num_partitions=7):
        records = [each for batch in part.batches() for each in batch]
        sample = sampled(part)
        assert [record(sample, row) for row in range(len(sample))] == records
        assert [place.number for place in sample.places] == list(range(len(records)))


def test_objects_of_a_bucket_and_one_that_is_missing(s3: Place) -> None:
    options = s3.storage_options
    tfs.write_table({"x": np.arange(5000)}, s3.url("ds"), num_shards=4, storage_options=options)
    s3.fs.rm(s3.fs.glob(s3.url("ds-00002*"))[0])
    sample = take_sample(open_source(s3.url("ds"), Storage(options)))
    assert list(sample.unreadable) == [2]
    assert sample.records == 3750

"""The partitions of a long dataset: what they hold, and what is read to make them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
import tfio_store.dataset.pages as pages
import tfio_store.write.parts as parts_of_manifests
from tests.support.indexes import all_long
from tests.support.million import write_many
from tfio_store.dataset.listed_shards import ListedShards
from tfio_store.dataset.shard_page import decode_page
from tfio_store.dataset.source import open_dataset
from tfio_store.storage import Storage

CODECS = [None, "GZIP", "ZSTD"]


def written(url: str, codec: str | None, sizes: list[int]) -> list[bytes]:
    """A dataset of the long form, of shards of so many records."""
    rng, shards = np.random.default_rng(5), iter(np.repeat(range(len(sizes)), sizes).tolist())
    with tfs.ShardedWriter(
        url,
        num_shards=len(sizes),
        compression=codec,
        block_bytes=4096,
        shard_for=lambda _: next(shards),
    ) as writer:
        records = [b"%d:" % i + rng.bytes(int(rng.integers(0, 3000))) for i in range(sum(sizes))]
        writer.write_batch(records)
    return records


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("span", [":", "3:-4", "9:60"])
def test_they_are_what_their_records_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str | None, span: str
) -> None:
    all_long(monkeypatch)
    monkeypatch.setattr(parts_of_manifests, "PAGE_SHARDS", 3)
    written(f"{tmp_path}/train", codec, [0, 5, 40, 0, 0, 1, 17, 0, 9, 30, 0])
    part = tfs.slice(f"{tmp_path}/train", span)
    whole, listed = list(tfs.RecordReader(part)), open_dataset(part, Storage()).shards
    assert isinstance(listed, ListedShards)
    for count in (1, 2, 3, 7, 20, 1000):
        found = tfs.partitions(part, num_partitions=count)
        assert [record for each in found for record in each.reader()] == whole
        assert sum(each.nbytes for each in found) <= listed.nbytes
        for each in found:
            _check_places(listed, each)


def _check_places(listed: Any, part: tfs.Partition) -> None:
    """They are those that are found by the part's records."""
    first, mine = part.first_record, part.dataset.shards
    assert isinstance(mine, ListedShards)
    assert first is not None
    found, wanted = mine.places, listed.part(first, first + mine.records).places
    assert found[:3] == wanted[:3]
    assert abs(found.nbytes - wanted.nbytes) <= 2
    assert found.cut >= wanted.cut
    assert mine.blocks == sum(len(table) for table in mine.tables(range(len(mine))))


def test_each_page_is_decoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, decoded = write_many(tmp_path, 40), []

    def count(data: Any) -> Any:
        decoded.append(len(data))
        return decode_page(data)

    monkeypatch.setattr(pages, "decode_page", count)
    assert len(tfs.partitions(url, num_partitions=500)) == 500
    assert len(decoded) == 40


def test_a_part_is_not_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_long(monkeypatch)
    url = f"{tmp_path}/train"
    written(url, None, [5, 5, 5])
    whole, part = tfs.open(url), tfs.open(tfs.slice(url, "1:"))
    assert part != whole
    assert part == pickle.loads(pickle.dumps(part))
    assert part != tfs.open(tfs.slice(url, "2:"))
    assert whole == pickle.loads(pickle.dumps(whole))

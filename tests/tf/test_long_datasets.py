"""`TFRecordDataset` over datasets whose list of shards lies apart from the manifest."""

from __future__ import annotations

from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.indexes import all_long
from tests.support.sharded import sharded

tf = pytest.importorskip("tensorflow")

RECORDS = [b"%d " % i + bytes(1500) for i in range(60)]


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    all_long(monkeypatch, 3)


def written(place: Place, codec: str | None) -> list[bytes]:
    with sharded(place, num_shards=7, compression=codec, block_bytes=4096) as writer:
        writer.write_batch(RECORDS)
    return list(tfs.RecordReader(place.url("ds/train"), storage_options=place.storage_options))


def dataset(place: Place, **options: Any) -> Any:
    found = tfs.TFRecordDataset(
        place.url("ds/train"), storage_options=place.storage_options, **options
    )
    assert int(found.cardinality()) > 0
    return found


@pytest.mark.parametrize("codec", [None, "GZIP"])
def test_every_way_through(place: Place, codec: str | None) -> None:
    expected = written(place, codec)
    assert [each.numpy() for each in dataset(place)] == expected
    batches = [record for batch in dataset(place, batch_size=16) for record in batch.numpy()]
    assert batches == expected
    shares = [
        each.numpy()
        for index in range(3)
        for each in dataset(place, shuffle=True, seed=1, shard=(3, index))
    ]
    assert sorted(shares) == sorted(expected)
    mixed = [each for batch in dataset(place, shuffle=True, batch_size=8) for each in batch.numpy()]
    assert sorted(mixed) == sorted(expected)


def test_files_by_name_find_their_blocks(place: Place) -> None:
    expected = written(place, "GZIP")
    names = [f"ds/train-{i:05d}-of-00007.tfrecord" for i in (1, 5, 2)]
    found = tfs.TFRecordDataset(
        [place.url(name) for name in names], storage_options=place.storage_options
    )
    assert int(found.cardinality()) < len(expected)
    assert [each.numpy() for each in found] == [
        record
        for name in names
        for record in tfs.RecordReader(place.url(name), storage_options=place.storage_options)
    ]


def test_what_no_graph_can_hold_is_refused(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    written(memory, None)
    monkeypatch.setattr("tfio_store.tf.dataset.source.MOST_BLOCKS", 5)
    with pytest.raises(ValueError, match=r"takes up to 5.*RecordReader"):
        dataset(memory)

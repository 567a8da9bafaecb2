"""What was opened before is reached as it was opened, by the ops too."""

from __future__ import annotations

from typing import Any

import pytest

from tests.servers.place import Place

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402

RECORDS = [b"%d" % number for number in range(3_000)]


@pytest.fixture
def url(s3: Place) -> str:
    url = s3.url("train")
    with tfs.ShardedWriter(url, num_shards=2, storage_options=s3.storage_options) as writer:
        writer.write_batch(RECORDS)
    return url


def whole(url: str, storage: tfs.Storage) -> Any:
    return tfs.open(url, storage=storage)


def part(url: str, storage: tfs.Storage) -> Any:
    (found,) = tfs.partitions(url, num_partitions=1, storage=storage)
    return found


def parts(url: str, storage: tfs.Storage) -> Any:
    return tfs.partitions(url, num_partitions=2, storage=storage)


def cut(url: str, storage: tfs.Storage) -> Any:
    return tfs.slice(tfs.open(url, storage=storage), "0%:100%")


@pytest.mark.parametrize("opened", [whole, part, parts, cut])
@pytest.mark.parametrize("how", [{}, {"batch_size": 100}, {"shuffle": True, "batch_size": 100}])
def test_the_ops_reach_it(s3: Place, url: str, opened: Any, how: dict[str, Any]) -> None:
    dataset = tfs.TFRecordDataset(opened(url, s3.storage()), **how)
    found = (
        [record for each in dataset for record in each.numpy().reshape(-1).tolist()]
        if how
        else [record.numpy() for record in dataset]
    )
    assert sorted(found) == sorted(RECORDS)

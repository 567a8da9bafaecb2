"""The versions of many objects: one listing tells them."""

from __future__ import annotations

import pytest

from tests.servers.place import Place
from tfio_store.dataset.model import Dataset, Shard, Shards, look_at
from tfio_store.storage import ObjectInfo, Storage


def test_a_listing_tells_the_versions_of_many(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = s3.open("many")
    put = [store.put(f"{path}/_x-{i}", b"%d" % i) for i in range(40)]
    s3.fs.rm(s3.url("many/_x-7"))
    shards = Shards(Shard.at(store, info.path, info.size) for info in put)
    dataset = Dataset(shards, Storage(s3.storage_options))
    asked: list[str] = []
    info = type(store).info

    def noted(self: object, path: str) -> ObjectInfo:
        asked.append(path)
        return info(self, path)  # type: ignore[arg-type]

    monkeypatch.setattr(type(store), "info", noted)
    found = look_at(dataset, list(range(40)))
    assert asked == [f"{path}/_x-7"]
    assert sorted(found) == [i for i in range(40) if i != 7]
    etags = [None if i == 7 else info.etag for i, info in enumerate(put)]
    assert [shard.version.etag for shard in shards] == etags

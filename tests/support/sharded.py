"""Sharded datasets at a `Place`: written, read, and records to write."""

from __future__ import annotations

import json
from typing import Any

import tfio_store as tfs
from tests.servers.place import Place


def sharded(place: Place, name: str = "ds/train", **options: Any) -> tfs.ShardedWriter:
    options.setdefault("num_shards", 4)
    options.setdefault("storage", tfs.Storage(place.storage_options))
    return tfs.ShardedWriter(place.url(name), **options)


def read(place: Place, name: str) -> list[bytes]:
    return list(tfs.RecordReader(place.url(name), storage_options=place.storage_options))


def numbered(count: int) -> list[bytes]:
    return [b"%d " % i + bytes(i % 50) for i in range(count)]


def root(place: Place) -> dict[str, Any]:
    """The document of "ds/train"."""
    found: dict[str, Any] = json.loads(place.get("ds/_train.manifest.json"))
    return found

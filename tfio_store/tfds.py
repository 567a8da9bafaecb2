"""Folders that TensorFlow Datasets wrote: ``dataset_info.json`` names splits and shard lengths."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tfio_store.errors import ManifestError
from tfio_store.manifest import check_name
from tfio_store.manifests import read_whole
from tfio_store.storage import Store

__all__ = ["tfds_shards"]

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


def tfds_shards(store: Store, folder: str) -> list[tuple[str, int]] | None:
    """File name and record count of every shard, split after split; None if TFDS wrote no such
    folder.

    ManifestError for a description that is none, or that points out of the folder.
    """
    path = f"{folder}/dataset_info.json"
    data = read_whole(store, path)
    if data is None:
        return None
    try:
        return list(_shards(json.loads(data)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestError(
            f"{store.url(path)}: does not describe TFRecord shards: {error!r}"
        ) from error


def _shards(info: dict[str, Any]) -> Iterator[tuple[str, int]]:
    for split in info["splits"]:
        lengths = [int(n) for n in split["shardLengths"]]
        template = split.get("filepathTemplate") or _TEMPLATE
        fixed = {
            "{DATASET}": info["name"],
            "{SPLIT}": split["name"],
            "{FILEFORMAT}": info.get("fileFormat", "tfrecord"),
        }
        for i, records in enumerate(lengths):
            name = template.replace("{SHARD_X_OF_Y}", f"{i:05d}-of-{len(lengths):05d}")
            # replaced, not formatted: the template comes from a file
            for placeholder, value in fixed.items():
                name = name.replace(placeholder, value)
            yield check_name(name), records

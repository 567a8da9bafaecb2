"""Folders that TensorFlow Datasets wrote: ``dataset_info.json`` names splits and shard lengths.

It reads one split, never all: FOLDER/train, or FOLDER if it has only one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tfio_store.dataset.checks import check_name
from tfio_store.dataset.folder import Folder
from tfio_store.errors import ManifestError
from tfio_store.storage import Store

__all__ = ["tfds_shards"]

_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"


def tfds_shards(store: Store, path: str) -> list[tuple[str, int]] | None:
    """Path and record count of every shard of a split; None if TFDS wrote no such folder.

    ManifestError for a description that is none, or that points out of the folder. ValueError if
    the split is not named, or there is no split of that name.
    """
    folder, _, split = path.rpartition("/")
    for where, wanted in ((path, None), (folder, split)):
        stored = Folder(store, where).read("dataset_info.json") if where else None
        if stored is not None:
            found = _described(store, where, stored[0])
            return [(f"{where}/{name}", n) for name, n in _chosen(found, wanted, store.url(where))]
    return None


def _described(store: Store, folder: str, data: bytes) -> dict[str, list[tuple[str, int]]]:
    try:
        info = json.loads(data)
        return {split["name"]: list(_shards(info, split)) for split in info["splits"]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ManifestError(
            f"{store.url(folder)}/dataset_info.json: does not describe TFRecord shards: {error!r}"
        ) from error


def _chosen(
    splits: dict[str, list[tuple[str, int]]], wanted: str | None, url: str
) -> list[tuple[str, int]]:
    if wanted is None and len(splits) == 1:
        return next(iter(splits.values()))
    if wanted in splits:
        return splits[wanted]
    names = ", ".join(f"{url}/{name}" for name in splits)
    what = "holds several splits" if wanted is None else f"has no split {wanted!r}"
    raise ValueError(f"{url}: {what}; name one of {names}")


def _shards(info: dict[str, Any], split: dict[str, Any]) -> Iterator[tuple[str, int]]:
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

"""What a committed manifest tells of shards, also of those that were named as files beside it."""

from __future__ import annotations

import re

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.dataset.names import manifest_name, split_url
from tfio_store.errors import ManifestError
from tfio_store.records.warning import warn

__all__ = ["committed_shards", "with_known_blocks"]

_SHARD_NAME = re.compile(r"(?P<dataset>.+?)-\d{5,}(?:-of-\d{5,})?\.tfrecord")


def committed_shards(folder: Folder, manifest: DatasetManifest) -> list[Shard]:
    """What a manifest and its block tables tell of each shard."""
    return [
        Shard(
            folder.url(info.name),
            info.nbytes,
            manifest.compression,
            info.records,
            info.blocks,
            info.crc32c,
        )
        for info in manifest.shards
    ]


def with_known_blocks(dataset: Dataset) -> Dataset:
    """The dataset with the blocks of shards that were named as files, where a manifest beside them
    knows.

    ``train-00000-of-00016.tfrecord`` belongs to a dataset ``train``, if there is one: that is one
    question for each dataset, and its answer makes compressed shards seekable and countable. A
    manifest that is not to be trusted is passed by with a warning, since nobody named it.
    """
    known: dict[str, dict[str, Shard]] = {}
    found: dict[int, Shard] = {}
    for i, shard in enumerate(dataset.shards):
        prefix = _dataset_of(shard.url)
        if prefix is None or shard.blocks is not None:
            continue
        if prefix not in known:
            known[prefix] = _shards_of(dataset, prefix)
        committed = known[prefix].get(shard.url)
        if committed is not None and _is_that(shard, committed):
            found[i] = committed.known(version=shard.version)
    return dataset.with_shards(found) if found else dataset


def _dataset_of(url: str) -> str | None:
    name = split_url(url)[1]
    match = _SHARD_NAME.fullmatch(name)
    return url.removesuffix(name) + match["dataset"] if match else None


def _shards_of(dataset: Dataset, prefix: str) -> dict[str, Shard]:
    store, path = dataset.open_url(prefix)
    parent, stem = split_url(path)
    folder = Folder(store, parent)
    try:
        found = folder.manifest(manifest_name(stem))
        shards = committed_shards(folder, found.manifest) if found and found.manifest else []
    except (ManifestError, FileNotFoundError) as error:
        warn(f"read without its manifest: {error}")
        return {}
    return {shard.url: shard for shard in shards}


def _is_that(shard: Shard, committed: Shard) -> bool:
    """Whether a file is what the manifest means, as far as size and compression tell."""
    return shard.nbytes == committed.nbytes and shard.compression in ("auto", committed.compression)

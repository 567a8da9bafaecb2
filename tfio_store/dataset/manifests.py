"""Manifests where they lie: finding them, and the shards and blocks that they tell of."""

from __future__ import annotations

import os
import re

from tfio_store.dataset.folder import Folder
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.model import Dataset, Shard
from tfio_store.dataset.names import MANIFEST_SUFFIX, manifest_name, split_url
from tfio_store.errors import ManifestError
from tfio_store.records.warning import warn
from tfio_store.storage import Access, Store

__all__ = ["committed_shards", "find_manifest", "read_manifest", "read_whole", "with_known_blocks"]

_SHARD_NAME = re.compile(r"(?P<dataset>.+?)-\d{5,}(?:-of-\d{5,})?\.tfrecord")


def read_manifest(source: object, access: Access) -> DatasetManifest | None:
    """The manifest, without its index, of a dataset's prefix or folder; None for any other source.

    ManifestError where it cannot be trusted.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    store, path = access.open(source)
    if any(c in path for c in "*?[") and store.glob(path):
        return None  # a pattern, and not a folder with such a name
    found = find_manifest(store, path.rstrip("/"), index=False)
    return found[1] if found else None


def find_manifest(
    store: Store, path: str, *, index: bool = True
) -> tuple[Folder, DatasetManifest] | None:
    """A dataset named by its prefix, or by a folder that holds just one; None where there is none.

    The manifest has its block tables, unless ``index`` is False.
    """
    parent, stem = split_url(path)
    folder = Folder(store, parent)
    manifest = folder.manifest(manifest_name(stem), index=index) if stem else None
    if manifest is not None and manifest.manifest is not None:
        return folder, manifest.manifest
    folder = Folder(store, path)
    names = sorted(folder.names(f"_*{MANIFEST_SUFFIX}"))
    if len(names) > 1:
        stems = [name.removeprefix("_").removesuffix(MANIFEST_SUFFIX) for name in names]
        raise ValueError(
            f"{store.url(path)}: holds several datasets; name one of "
            + ", ".join(store.url(f"{path}/{stem}") for stem in stems)
        )
    manifest = folder.manifest(names[0], index=index) if names else None
    return (folder, manifest.manifest) if manifest and manifest.manifest else None


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
    folder, name = split_url(url)
    match = _SHARD_NAME.fullmatch(name)
    return join(folder, match["dataset"]) if match else None


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


def join(folder: str, name: str) -> str:
    """A name in a folder; the folder may be the store's root."""
    return f"{folder}/{name}" if folder else name


def read_whole(store: Store, path: str) -> bytes | None:
    """A small object's bytes, or None when there is none."""
    try:
        return store.get(path)[0]
    except (FileNotFoundError, IsADirectoryError):
        return None

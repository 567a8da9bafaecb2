"""What a user names, resolved to a `Dataset`: `open_dataset`.

A source is a URL or path of one file, a glob, a dataset's prefix or folder with a manifest, a
folder that TFDS wrote, or a list of any of these. An existing file is always that
file; only what is no file is looked up as a dataset.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, TypeAlias

from tfio_store.compression import codec_name
from tfio_store.dataset import Dataset, Shard
from tfio_store.errors import ManifestError
from tfio_store.manifest import DatasetManifest, check_name
from tfio_store.sharding import MANIFEST_SUFFIX, manifest_name, split_url
from tfio_store.storage import ObjectInfo, Retry, Store, open_store

__all__ = ["Source", "open_dataset", "read_manifest"]

Source: TypeAlias = "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]"

_LOOKUPS_AT_ONCE = 32


def open_dataset(
    source: Source,
    *,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> Dataset:
    """Find a source's shards, their sizes, and their blocks where a manifest tells them.

    Args:
        source: see the module's text.
        compression: "auto" (by each file's first bytes, never by its name), None or "" for raw,
            "GZIP", "ZLIB" or "ZSTD".
        storage_options: passed to the storage, as everywhere in fsspec.
        retry: how often and how patiently passing faults of the storage are tried again.
        backend: "fsspec" or "obstore".

    Raises:
        FileNotFoundError: no such file, or nothing matches a glob.
        IsADirectoryError: a folder without a manifest.
        ManifestError: a manifest or index that cannot be trusted.
        ValueError, TypeError: an argument is not of the kind described.
    """
    codec = compression if compression == "auto" else codec_name(compression)
    empty = Dataset((), dict(storage_options) if storage_options else None, backend, retry)
    resolver = _Resolver(codec, empty)
    names = [source] if isinstance(source, str | os.PathLike) else _names(source)
    # A list of files is one question to the store for each: ask many at once.
    if len(names) > 1:
        with ThreadPoolExecutor(min(_LOOKUPS_AT_ONCE, len(names))) as pool:
            found = list(pool.map(resolver.resolve, names))
    else:
        found = [resolver.resolve(name) for name in names]
    return replace(empty, shards=tuple(shard for group in found for shard in group))


def read_manifest(
    source: object,
    *,
    storage_options: Mapping[str, Any] | None = None,
    backend: str = "fsspec",
) -> DatasetManifest | None:
    """The manifest, without its index, of a dataset's prefix or folder; None for any other source.

    ManifestError where it cannot be trusted.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    store, path = open_store(os.fspath(source), storage_options, backend=backend)
    if any(c in path for c in "*?["):
        return None
    found = _find_manifest(store, path.rstrip("/"))
    return found[1] if found else None


def _names(source: object) -> list[str | os.PathLike[str]]:
    if isinstance(source, bytes | bytearray) or not isinstance(source, Iterable):
        raise TypeError(
            f"source= takes a path or URL, or a list of those, not {type(source).__name__}"
        )
    names = list(source)
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise TypeError(f"source= holds a {type(name).__name__}; it takes paths and URLs")
    return names


class _Resolver:
    def __init__(self, compression: str | None, dataset: Dataset) -> None:
        self._compression = compression
        self._open = dataset.open_url

    def resolve(self, name: str | os.PathLike[str]) -> list[Shard]:
        url = os.fspath(name)
        if not isinstance(url, str):
            raise TypeError(f"source= takes text paths, not {type(url).__name__}")
        store, path = self._open(url)
        if any(c in path for c in "*?["):
            matches = _visible(store.glob(path), path)
            if matches:
                return [self._shard(store, info) for info in matches]
        try:
            return [self._shard(store, store.info(path))]
        except (FileNotFoundError, IsADirectoryError) as error:
            found = self._dataset(store, path)
            if found is None:
                raise self._explain(error, url) from error
            return found

    def _explain(self, error: OSError, url: str) -> OSError:
        if any(c in url for c in "*?["):
            return FileNotFoundError(f"{url}: no file matches this pattern")
        if isinstance(error, IsADirectoryError):
            return IsADirectoryError(
                f"{url}: is a folder without a manifest; name its files, for example "
                f"{url.rstrip('/')}/*.tfrecord"
            )
        return error

    def _shard(self, store: Store, info: ObjectInfo) -> Shard:
        return Shard(store.url(info.path), info.size, self._compression)

    def _dataset(self, store: Store, path: str) -> list[Shard] | None:
        """The shards of a prefix, or of a folder, that a manifest describes; None without one."""
        found = _find_manifest(store, path.rstrip("/"))
        return self._committed(store, *found) if found else self._tfds(store, path.rstrip("/"))

    def _committed(self, store: Store, folder: str, manifest: DatasetManifest) -> list[Shard]:
        if manifest.index is not None:
            index_path = f"{folder}/{manifest.index}" if folder else manifest.index
            index = _read_whole(store, index_path)
            if index is None:
                raise FileNotFoundError(
                    f"{store.url(index_path)}: the manifest names this index, and it is missing"
                )
            manifest = manifest.with_index(index, path=store.url(index_path))
        return [
            Shard(
                store.url(f"{folder}/{info.name}" if folder else info.name),
                info.nbytes,
                manifest.compression,
                info.records,
                info.blocks,
                info.crc32c,
            )
            for info in manifest.shards
        ]

    def _tfds(self, store: Store, folder: str) -> list[Shard] | None:
        """A folder written by TensorFlow Datasets: dataset_info.json names splits and shard
        lengths."""
        data = _read_whole(store, f"{folder}/dataset_info.json")
        if data is None:
            return None
        try:
            named = list(_tfds_shards(json.loads(data)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ManifestError(
                f"{store.url(folder)}/dataset_info.json: does not describe TFRecord shards: "
                f"{error!r}"
            ) from error
        shards = []
        for name, records in named:
            shard = self._shard(store, store.info(f"{folder}/{name}"))
            shards.append(replace(shard, records=records))
        return shards


def _find_manifest(store: Store, path: str) -> tuple[str, DatasetManifest] | None:
    """(folder, manifest) of a dataset named by its prefix, or by a folder that holds just one."""
    folder, stem = split_url(path)
    manifest = _parse_manifest(store, folder, manifest_name(stem)) if stem else None
    if manifest is not None:
        return folder, manifest
    names = [_name(info.path) for info in store.glob(f"{path}/_*{MANIFEST_SUFFIX}")]
    if len(names) > 1:
        raise ValueError(
            f"{store.url(path)}: holds several datasets; name one of "
            + ", ".join(store.url(f"{path}/{_stem(n)}") for n in sorted(names))
        )
    manifest = _parse_manifest(store, path, names[0]) if names else None
    return None if manifest is None else (path, manifest)


def _parse_manifest(store: Store, folder: str, name: str) -> DatasetManifest | None:
    path = f"{folder}/{name}" if folder else name
    data = _read_whole(store, path)
    return None if data is None else DatasetManifest.from_bytes(data, path=store.url(path))


def _tfds_shards(info: dict[str, Any]) -> Iterable[tuple[str, int]]:
    """File name and record count of every shard, split after split."""
    for split in info["splits"]:
        lengths = [int(n) for n in split["shardLengths"]]
        template = split.get("filepathTemplate") or "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
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


def _visible(found: list[ObjectInfo], pattern: str) -> list[ObjectInfo]:
    """Without the names that begin with "_" or ".", unless the pattern's name does: indexes,
    manifests and the like are no records."""
    if not _name(pattern).startswith(("*", "?", "[")):
        return found
    return [info for info in found if not _name(info.path).startswith(("_", "."))]


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _stem(manifest: str) -> str:
    return manifest.removeprefix("_").removesuffix(MANIFEST_SUFFIX)


def _read_whole(store: Store, path: str) -> bytes | None:
    """A small object's bytes, or None when there is none."""
    try:
        info = store.info(path)
        return bytes(store.read(path, 0, info.size).result())
    except (FileNotFoundError, IsADirectoryError):
        return None

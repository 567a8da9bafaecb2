"""A dataset's folder in its store: small objects by name."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tfio_store.manifest import DatasetManifest
from tfio_store.sharding import DatasetNames, split_url
from tfio_store.storage import Retry, Store, open_store

__all__ = ["Folder", "locate"]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a store. Picklable, as stores are."""

    store: Store
    path: str

    def join(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if self.path else name

    def url(self, name: str) -> str:
        return self.store.url(self.join(name))

    def names(self) -> list[str]:
        """The names of the objects right in this folder."""
        pattern = f"{glob.escape(self.path.rstrip('/'))}/*" if self.path else "*"
        return [info.path.rpartition("/")[2] for info in self.store.glob(pattern)]

    def put(self, name: str, data: bytes, *, if_absent: bool = False) -> None:
        self.store.put(self.join(name), data, if_absent=if_absent)

    def read(self, name: str) -> tuple[bytes, str | None] | None:
        """A small object and its etag (of a moment before), or None when there is none."""
        path = self.join(name)
        try:
            info = self.store.info(path)
            return bytes(self.store.read(path, 0, info.size).result()), info.etag
        except FileNotFoundError:
            return None

    def delete(self, names: Iterable[str]) -> None:
        self.store.delete([self.join(name) for name in names])

    def load_manifest(self, name: str, data: bytes) -> DatasetManifest:
        """The manifest in ``data``, the object ``name``, with its block tables."""
        manifest = DatasetManifest.from_bytes(data, path=self.url(name))
        index = self.read(manifest.index) if manifest.index is not None else None
        if manifest.index is None or index is None:
            return manifest
        return manifest.with_index(index[0], path=self.url(manifest.index))


def locate(
    url: str | os.PathLike[str],
    num_shards: int | None,
    template: str,
    storage_options: Mapping[str, Any] | None,
    backend: str,
    retry: Retry | None,
) -> tuple[Folder, DatasetNames]:
    """A dataset's folder, and the names in it."""
    if not isinstance(url, (str, os.PathLike)):
        raise TypeError(f"url must be a path or URL, not {type(url).__name__}")
    names = DatasetNames(split_url(os.fspath(url))[1], num_shards, template)
    store, path = open_store(url, storage_options, backend=backend, retry=retry)
    return Folder(store, split_url(path)[0]), names

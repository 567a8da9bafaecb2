"""A dataset's folder in its store: small objects by name, and its manifest."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import MANIFEST_SUFFIX, DatasetNames, manifest_name, split_url
from tfio_store.errors import ManifestError
from tfio_store.storage import Access, Store

__all__ = ["Folder", "FoundManifest", "find_manifest", "locate", "read_manifest"]

_READS = 64
"""How often a manifest is read again if its index has gone."""


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest as it was found."""

    manifest: DatasetManifest | None
    """None when it can't be read."""
    etag: str | None
    data: bytes

    def holds(self, generation: str) -> bool:
        """Whether the writer of this generation has committed this manifest or an earlier one."""
        found = self.manifest
        return found is not None and generation in (found.generation, *found.history)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of a store. Picklable, as stores are."""

    store: Store
    path: str

    def join(self, name: str) -> str:
        return f"{self.path.rstrip('/')}/{name}" if self.path else name

    def url(self, name: str) -> str:
        return self.store.url(self.join(name))

    def names(self, pattern: str = "*") -> list[str]:
        """The names of the objects right in this folder."""
        return [info.path.rpartition("/")[2] for info in self.store.glob(self._pattern(pattern))]

    def _pattern(self, pattern: str) -> str:
        return f"{glob.escape(self.path.rstrip('/'))}/{pattern}" if self.path else pattern

    def put(self, name: str, data: bytes, *, if_absent: bool = False) -> None:
        self.store.put(self.join(name), data, if_absent=if_absent)

    def read(self, name: str) -> tuple[bytes, str | None] | None:
        """A small object and its etag, or None when there is none."""
        try:
            data, info = self.store.get(self.join(name))
        except (FileNotFoundError, IsADirectoryError):
            return None
        return data, info.etag

    def delete(self, names: Iterable[str]) -> None:
        self.store.delete([self.join(name) for name in names])

    def delete_version(self, name: str, etag: str | None) -> None:
        """Delete the object if it still has this etag."""
        self.store.delete_version(self.join(name), etag)

    def manifest(
        self, name: str, *, index: bool = True, damaged: bool = False
    ) -> FoundManifest | None:
        """The manifest of that name, with its block tables unless ``index`` is False.

        A commit may replace the manifest, and delete its index, while this reads the one and then
        the other: then the manifest is read again.

        Raises:
            ManifestError: it can't be read, and ``damaged`` is False; or its index can't.
            FileNotFoundError: the index that it names is missing.
        """
        missing = ""
        earlier: FoundManifest | None = None
        for _ in range(_READS):
            found = self._manifest_alone(name, damaged)
            if found is None or found.manifest is None or found.manifest.index is None or not index:
                return found
            tables = self.read(found.manifest.index)
            missing = self.url(found.manifest.index)
            if tables is not None:
                return replace(found, manifest=found.manifest.with_index(tables[0], path=missing))
            if earlier is not None and earlier.data == found.data:
                break
            earlier = found
        raise FileNotFoundError(
            errno.ENOENT, "the manifest names this index, and it is missing", missing
        )

    def _manifest_alone(self, name: str, damaged: bool) -> FoundManifest | None:
        stored = self.read(name)
        if stored is None:
            return None
        data, etag = stored
        try:
            return FoundManifest(DatasetManifest.from_bytes(data, path=self.url(name)), etag, data)
        except ManifestError:
            if not damaged:
                raise
            return FoundManifest(None, etag, data)


def locate(
    url: str | os.PathLike[str],
    num_shards: int | None,
    template: str,
    access: Access,
) -> tuple[Folder, DatasetNames]:
    """A dataset's folder, and the names in it."""
    if not isinstance(url, (str, os.PathLike)):
        raise TypeError(f"url must be a path or URL, not {type(url).__name__}")
    names = DatasetNames(split_url(os.fspath(url))[1], num_shards, template)
    store, path = access.open(url)
    return Folder(store, split_url(path)[0]), names


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
    found = folder.manifest(manifest_name(stem), index=index) if stem else None
    if found is not None and found.manifest is not None:
        return folder, found.manifest
    folder = Folder(store, path)
    names = sorted(folder.names(f"_*{MANIFEST_SUFFIX}"))
    if len(names) > 1:
        stems = [name.removeprefix("_").removesuffix(MANIFEST_SUFFIX) for name in names]
        raise ValueError(
            f"{store.url(path)}: holds several datasets; name one of "
            + ", ".join(store.url(f"{path}/{stem}") for stem in stems)
        )
    found = folder.manifest(names[0], index=index) if names else None
    return (folder, found.manifest) if found and found.manifest else None

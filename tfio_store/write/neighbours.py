"""What manifests name: that of a dataset, and those of its neighbours in the folder.

Nobody knows what a manifest names if a page of its list of shards is damaged or missing. Then
nothing may be deleted that it could name, and that is any object in the folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import MANIFEST_SUFFIX, DatasetNames
from tfio_store.errors import ManifestError

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder

__all__ = ["manifest_and_names", "named_by_neighbours", "parts_of_neighbours"]


def manifest_and_names(folder: Folder, name: str) -> tuple[DatasetManifest, set[str]] | None:
    """A manifest, and what it names. None if there is none.

    A commit may replace the manifest, and delete its list, while this reads the one and then the
    other. Then the manifest is read again.

    Raises:
        ManifestError: the manifest or its list can't be read, or its list is missing.
    """
    before: bytes | None = None
    while True:
        found = folder.manifest(name, index=False)
        if found is None or found.manifest is None:
            return None
        try:
            return found.manifest, found.manifest.names()
        except FileNotFoundError as error:
            if found.data == before:
                missing = f"{folder.url(name)}: an object of its list of shards is missing: {error}"
                raise ManifestError(missing) from error
            before = found.data


def named_by_neighbours(folder: Folder, names: DatasetNames) -> set[str]:
    """What the other manifests in the folder name. ManifestError: nobody knows."""
    named: set[str] = set()
    for name in _neighbours(folder, names):
        try:
            found = manifest_and_names(folder, name)
        except ManifestError as error:
            raise _unknown(folder, name, error) from error
        named |= set() if found is None else found[1]
    return named


def parts_of_neighbours(folder: Folder, names: DatasetNames) -> set[str]:
    """What the other manifests name beside shards. ManifestError: nobody knows."""
    named: set[str] = set()
    for name in _neighbours(folder, names):
        try:
            found = folder.manifest(name, index=False)
        except ManifestError as error:
            raise _unknown(folder, name, error) from error
        if found is not None and found.manifest is not None:
            named |= found.manifest.parts()
    return named


def _neighbours(folder: Folder, names: DatasetNames) -> Iterator[str]:
    """The other manifests in the folder."""
    return (name for name in folder.names(f"_*{MANIFEST_SUFFIX}") if name != names.manifest)


def _unknown(folder: Folder, name: str, error: ManifestError) -> ManifestError:
    return ManifestError(
        f"{folder.url(name)} may name any object beside it, because it cannot be read whole: "
        f"nothing is removed; repair or remove that dataset ({error})"
    )

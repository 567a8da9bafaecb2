"""The folder view of a store, for callers that think in directories.

Object stores have keys and no folders. A folder exists if a key below it exists, or a *marker*: an
empty object whose key ends in "/". Consoles, Hadoop and this module make markers for empty folders.
Elsewhere folders are what the filesystem says.
"""

from __future__ import annotations

import importlib
from typing import Protocol

from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.store import Store
from tfio_store.tf.filesystem.folders.entry import Entry
from tfio_store.tf.filesystem.folders.fsspec_folders import BucketFolders, FsspecFolders

__all__ = ["Folders", "folders_of"]


SPECIAL = {
    "S3Store": ("tfio_store.tf.filesystem.folders.s3_folders", "S3Folders"),
    "AzureStore": ("tfio_store.tf.filesystem.folders.azure_folders", "AzureFolders"),
}
"""Stores whose folders need more than their fsspec class offers."""


class Folders(Protocol):
    """Paths are the store's. Failures are OSErrors that name the URL."""

    def stat(self, path: str) -> Entry:
        """FileNotFoundError when there is neither a file nor a folder. A file comes first."""

    def is_folder(self, path: str) -> bool:
        """Whether the folder, or anything below it, exists."""

    def entries(self, folder: str) -> list[Entry]:
        """The entries directly in ``folder``, sorted by name. FileNotFoundError if there is no
        folder."""

    def make(self, folder: str) -> None:
        """Make ``folder``. Its parent exists."""

    def remove(self, folder: str) -> None:
        """Remove an empty folder."""

    def remove_tree(self, folder: str) -> None:
        """Remove a folder and all that is in it, at any depth."""

    def copy(self, source: str, target: str) -> None:
        """Make ``target`` an equal file, within the store where it can."""

    def move_tree(self, source: str, target: str) -> None:
        """Rename a folder: copy everything, then delete everything."""


def folders_of(store: Store) -> Folders:
    """The folders of a store that `open_store` has opened. ValueError for a plugin's store."""
    if isinstance(store, FsspecStore):
        return FsspecFolders(store._call)
    if isinstance(store, BucketStore):
        special = SPECIAL.get(type(store).__name__)
        if special is None:
            return BucketFolders(store)
        module, name = special  # which imports the client that the store has imported already
        found: Folders = getattr(importlib.import_module(module), name)(store)
        return found
    raise ValueError(f"{store!r} has no folder view; open it with an fsspec scheme")

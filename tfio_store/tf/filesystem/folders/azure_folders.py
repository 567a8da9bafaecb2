"""Folders on Azure: adlfs, shown a marker, lists nothing else of its folder."""

from __future__ import annotations

import errno
import os

from tfio_store.storage.cloud.azure import AzureStore
from tfio_store.storage.cloud.azure_blobs import ONCE
from tfio_store.tf.filesystem.folders.entry import Entry, by_name
from tfio_store.tf.filesystem.folders.fsspec_folders import BucketFolders, mtime_of

__all__ = ["AzureFolders"]


class AzureFolders(BucketFolders):
    """`Folders` over an `AzureStore`; paths are ``container/name``."""

    def __init__(self, store: AzureStore) -> None:
        super().__init__(store)
        self._azure = store

    def entries(self, folder: str) -> list[Entry]:
        found = self._azure._connection.wait(self._azure._ask(folder, lambda: self._level(folder)))
        if not found and "/" in folder and folder not in self._made:
            raise FileNotFoundError(
                errno.ENOENT, os.strerror(errno.ENOENT), self._azure.url(folder)
            )
        return by_name(entry for entry in found if entry.name)  # less the folder's own marker

    async def _level(self, folder: str) -> list[Entry]:
        prefix = f"{folder}/".partition("/")[2]
        entries = []
        async for one in self._azure._container(folder).walk_blobs(prefix, **ONCE):
            name, size = one.name[len(prefix) :], getattr(one, "size", None)
            if size is None:
                entries.append(Entry(name.rstrip("/"), is_folder=True))
            else:
                when = mtime_of({"last_modified": one.last_modified})
                entries.append(Entry(name, size, when))
        return entries

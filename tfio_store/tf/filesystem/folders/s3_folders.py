"""Folders on S3: common prefixes of keys, and markers."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from tfio_store.storage.cloud.bucket_store import DELETES_AT_ONCE, at_once
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.tf.filesystem.folders.entry import Entry, by_name

__all__ = ["S3Folders"]


class S3Folders:
    """`Folders` over an `S3Store`; paths are ``bucket/key``."""

    def __init__(self, store: S3Store) -> None:
        self._store = store

    def stat(self, path: str) -> Entry:
        name = path.rpartition("/")[2]
        if "/" not in path:
            self._run(path, "head_bucket")
            return Entry(name, is_folder=True)
        try:
            found = self._run(path, "head_object", key=True)
        except FileNotFoundError:
            if not self.is_folder(path):
                raise
            return Entry(name, is_folder=True)
        return Entry(name, found["ContentLength"], nanoseconds(found["LastModified"]))

    def is_folder(self, path: str) -> bool:
        return bool(self._page(path, MaxKeys=1).get("KeyCount"))

    def entries(self, folder: str) -> list[Entry]:
        start = len(self._prefix(folder))
        found: list[Entry] = []
        seen = "/" not in folder  # a bucket is there even when it is empty
        for page in self._pages(folder, Delimiter="/"):
            seen = seen or bool(page.get("KeyCount"))
            for below in page.get("CommonPrefixes", ()):
                found.append(Entry(below["Prefix"][start:-1], is_folder=True))
            for item in page.get("Contents", ()):
                when = nanoseconds(item["LastModified"])
                found.append(Entry(item["Key"][start:], item["Size"], when))
        if not seen:
            raise self._missing(folder)
        return by_name(entry for entry in found if entry.name)  # less the folder's own marker

    def make(self, folder: str) -> None:
        if "/" in folder:
            self._run(f"{folder}/", "put_object", key=True, Body=b"")
        else:
            self._run(folder, "create_bucket")

    def remove(self, folder: str) -> None:
        if "/" in folder:
            self._store.delete([f"{folder}/"])
        else:
            self._run(folder, "delete_bucket")

    def remove_tree(self, folder: str) -> None:
        bucket = folder.partition("/")[0]
        # a page at a time: what is listed is deleted before more is listed
        for page in self._pages(folder):
            self._store.delete(f"{bucket}/{item['Key']}" for item in page.get("Contents", ()))

    def copy(self, source: str, target: str) -> None:
        self._store._client.connection.wait(self._store._copy(source, target))

    def move_tree(self, source: str, target: str) -> None:
        bucket = source.partition("/")[0]
        keys = [
            f"{bucket}/{item['Key']}"
            for page in self._pages(source)
            for item in page.get("Contents", ())
        ]
        copies = (self._store._copy(key, target + key[len(source) :]) for key in keys)
        self._store._client.connection.wait(at_once(DELETES_AT_ONCE, copies))
        self._store.delete(keys)

    def _prefix(self, folder: str) -> str:
        key = self._store._client.split(folder)[1]
        return f"{key}/" if key else ""

    def _page(self, folder: str, **params: Any) -> dict[str, Any]:
        return self._run(folder, "list_objects_v2", Prefix=self._prefix(folder), **params)

    def _pages(self, folder: str, **params: Any) -> Iterator[dict[str, Any]]:
        while True:
            page = self._page(folder, **params)
            yield page
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    def _run(self, path: str, method: str, *, key: bool = False, **params: Any) -> dict[str, Any]:
        params["Bucket"], found = self._store._client.split(path)
        if key:
            params["Key"] = found
        return self._store._client.connection.wait(self._store._call(path, method, **params))

    def _missing(self, path: str) -> FileNotFoundError:
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._store.url(path))


def nanoseconds(when: datetime) -> int:
    return int(when.timestamp()) * 1_000_000_000

"""A folder of images, those of each class in a folder of its name."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from tfio_store.dataset.words import counted
from tfio_store.example.feature import Feature
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.warning import warn
from tfio_store.storage import Storage
from tfio_store.storage.store import ObjectInfo, Store

__all__ = ["ImageFolder"]

_SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
_IMAGES, _BYTES = 1024, 16 << 20
"""A table holds so many at most."""


class ImageFolder:
    """The images below a folder, in the order of their paths.

    ``features`` are "image", "path" below the folder, and "label" if there are folders of classes.

    Raises:
        FileNotFoundError: there is no image.
        ValueError: some images are in folders of classes, and others are not.
    """

    def __init__(self, url: str | os.PathLike[str], storage: Storage | None) -> None:
        self._store, folder = (storage or Storage()).open(url)
        self._folder = folder.rstrip("/") + "/"
        listed = [each for each in self._store.list(folder) if not self._is_hidden(each)]
        self._images = [each for each in listed if each.path.lower().endswith(_SUFFIXES)]
        shown = self._store.url(folder)
        if not self._images:
            raise FileNotFoundError(f"{shown}: there is no image ({', '.join(_SUFFIXES)}) in it")
        if len(listed) > len(self._images):
            others = counted(len(listed) - len(self._images), "file")
            warn(f"{shown}: {others} of other kinds than images left out")
        found = {self._class_of(each) for each in self._images}
        if "" in found and len(found) > 1:
            raise ValueError(f"{shown}: some images are in folders of classes, and others are not")
        self._classes = {name: number for number, name in enumerate(sorted(found - {""}))}
        self.features = {"image": Feature.image(), "path": Feature("str", ())}
        if self._classes:
            self.features["label"] = Feature.class_label(list(self._classes))

    def tables(self) -> Iterator[dict[str, Any]]:
        """Columns of some images at a time."""
        waiting: deque[tuple[ObjectInfo, Future[Any]]] = deque()
        table: dict[str, list[Any]] = {name: [] for name in self.features}
        nbytes = 0
        for each in self._images:
            waiting.append((each, _begun(self._store, each)))
            if len(waiting) >= self._store.in_flight:
                nbytes += self._take(waiting, table)
            if nbytes >= _BYTES or len(table["path"]) >= _IMAGES:
                yield table
                table, nbytes = {name: [] for name in self.features}, 0
        while waiting:
            self._take(waiting, table)
        if table["path"]:
            yield table

    def _take(
        self, waiting: deque[tuple[ObjectInfo, Future[Any]]], table: dict[str, list[Any]]
    ) -> int:
        each, reading = waiting.popleft()
        data = bytes(reading.result())
        table["image"].append(data)
        table["path"].append(each.path[len(self._folder) :])
        if self._classes:
            table["label"].append(self._classes[self._class_of(each)])
        return len(data)

    def _class_of(self, image: ObjectInfo) -> str:
        return image.path[len(self._folder) :].rpartition("/")[0].partition("/")[0]

    def _is_hidden(self, each: ObjectInfo) -> bool:
        parts = each.path[len(self._folder) :].split("/")
        return any(part.startswith((".", "_")) for part in parts)


def _begun(store: Store, image: ObjectInfo) -> Future[Any]:
    if image.size > DEFAULT_MAX_RECORD_BYTES:
        raise ValueError(f"{store.url(image.path)}: {image.size} bytes are too many for a record")
    return store.read(image.path, 0, image.size, etag=image.etag)

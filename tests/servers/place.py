"""Somewhere to keep objects for one test."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tfio_store.storage import Store, open_store


class PlainFileSystem(LocalFileSystem):
    """Local files as a filesystem of which the library knows no more than that it is fsspec's."""

    protocol = "plain"

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        stripped: str = super()._strip_protocol(path.removeprefix("plain://"))
        return stripped

    def unstrip_protocol(self, name: str) -> str:
        return f"plain://{self._strip_protocol(name)}"


fsspec.register_implementation("plain", PlainFileSystem, clobber=True)


@dataclass
class Place:
    """A fresh, empty folder or bucket: ``url("a/b")`` names an object in it."""

    root: str
    storage_options: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    backend: str = "fsspec"

    def url(self, name: str = "") -> str:
        return f"{self.root}/{name}" if name else self.root

    def open(self, name: str = "", **options: Any) -> tuple[Store, str]:
        """The library's own store for this place, and the path of ``name`` in it."""
        return open_store(self.url(name), self.storage_options, backend=self.backend, **options)

    @cached_property
    def fs(self) -> Any:
        """An fsspec filesystem of its own, for looking behind the library's back."""
        scheme = self.root.split("://")[0] if "://" in self.root else "file"
        return fsspec.filesystem(
            scheme, **self.storage_options, skip_instance_cache=True, use_listings_cache=False
        )

    def names(self, folder: str = "") -> list[str]:
        """Every object below ``folder``, relative to the place, sorted."""
        base = self.fs._strip_protocol(self.root).rstrip("/") + "/"
        return sorted(path[len(base) :] for path in self.fs.find(base + folder))

    def put(self, name: str, data: bytes) -> str:
        """Write behind the library's back; returns the URL."""
        fs, url = self.fs, self.url(name)
        path = fs._strip_protocol(url)
        if isinstance(fs, LocalFileSystem):
            fs.makedirs(fs._parent(path), exist_ok=True)
        fs.pipe_file(path, data)
        return url

    def get(self, name: str) -> bytes:
        data: bytes = self.fs.cat_file(self.fs._strip_protocol(self.url(name)))
        return data

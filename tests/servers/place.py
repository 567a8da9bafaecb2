"""Somewhere to keep objects for one test."""

from __future__ import annotations

import functools
import json
import os
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from tests.servers.gcs import PAGE_OBJECTS
from tests.servers.moto import KEY, SECRET
from tfio_store.storage import Storage, Store, open_store

LOST_BY_FSSPEC = {("az", "what?"), ("gs", "semi;colon,comma=equals")}


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


@functools.cache
def apart(scheme: str, storage_options: str, process: int) -> Any:
    """One for all tests of this process: a client of S3 takes a quarter of a second to make."""
    options = json.loads(storage_options)
    return fsspec.filesystem(scheme, **options, skip_instance_cache=True, use_listings_cache=False)


@dataclass
class Place:
    """A fresh, empty folder or bucket: ``url("a/b")`` names an object in it."""

    root: str
    storage_options: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    backend: str = "auto"

    def url(self, name: str = "") -> str:
        return f"{self.root}/{name}" if name else self.root

    def through(self, endpoint: str, backend: str | None = None) -> Place:
        """The same, asked by way of a proxy before its server."""
        options = {
            name: value.replace(self.endpoint, endpoint)
            for name, value in self.storage_options.items()
        }
        return replace(self, storage_options=options, backend=backend or self.backend)

    def storage(self, **more: Any) -> Storage:
        """How it is reached, as public functions take it."""
        return Storage(self.storage_options, **{"backend": self.backend, **more})

    def open(self, name: str = "", **options: Any) -> tuple[Store, str]:
        """The library's own store for this place, and the path of ``name`` in it."""
        return self.open_url(self.url(name), **options)

    def open_url(self, url: str, **options: Any) -> tuple[Store, str]:
        return open_store(url, self.storage_options, backend=self.backend, **options)

    @property
    def one_process(self) -> bool:
        """Whether other processes see nothing of it."""
        return self.root.startswith("memory:")

    @property
    def page_objects(self) -> int:
        """How many objects a page of a listing holds."""
        return PAGE_OBJECTS if self.root.startswith("gs:") else 1000

    def is_seen(self, name: str) -> bool:
        """Whether `get` finds such a name: adlfs (a query) and gcsfs (at the emulator) do not
        find each, although we do."""
        return (self.root.partition(":")[0], name) not in LOST_BY_FSSPEC

    @property
    def fs(self) -> Any:
        """An fsspec filesystem apart from the library's, for looking behind its back."""
        scheme = self.root.split("://")[0] if "://" in self.root else "file"
        return apart(scheme, json.dumps(self.storage_options, sort_keys=True), os.getpid())

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


def fresh(scheme: str, address: str) -> Place:
    """A new bucket on the server at ``address``: an endpoint, or Azure's connection string."""
    bucket, endpoint = f"test-{uuid.uuid4().hex[:16]}", address
    options = {"endpoint_url": address}
    if scheme == "s3":
        options |= {"key": KEY, "secret": SECRET}
    elif scheme == "gs":
        options |= {"token": "anon", "project": "test"}
    else:
        endpoint = address.partition("BlobEndpoint=")[2].rpartition("/")[0]
        options = {"connection_string": address}
    place = Place(f"{scheme}://{bucket}", options, endpoint)
    place.fs.mkdir(bucket)
    return place

"""Roots and sections of indexes that tests make, change and seal by hand."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c
import pytest

import tfio_store.dataset.pages as pages
import tfio_store.write.parts as parts
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import DatasetNames
from tfio_store.storage import Storage

__all__ = [
    "all_long",
    "changed_root",
    "container",
    "put_dataset",
    "root_bytes",
    "sealed",
    "section",
]

HEADER = struct.pack("<8sII", b"TFIOSIDX", 1, 0)


def all_long(monkeypatch: pytest.MonkeyPatch, page_shards: int | None = None) -> None:
    """No index is small enough to be read whole, and pages have at most so many shards."""
    monkeypatch.setattr(pages, "WHOLE_BYTES", -1)
    if page_shards is not None:
        monkeypatch.setattr(parts, "PAGE_SHARDS", page_shards)


def root_bytes(document: Mapping[str, Any]) -> bytes:
    """A root, with the CRC32C that it ends with."""
    body = json.dumps({key: value for key, value in document.items() if key != "crc32c"})
    data = body[:-1].encode()
    return data + b', "crc32c": "%08x"}' % google_crc32c.value(data)


def changed_root(data: bytes, **changes: Any) -> bytes:
    """A root with other values of some keys."""
    return root_bytes({**json.loads(data), **changes})


def sealed(body: bytes) -> bytes:
    """A section without its CRC, and the CRC."""
    return body + struct.pack("<I", google_crc32c.value(body))


def section(kind: bytes, payload: bytes) -> bytes:
    """A section, by nothing but what docs/format.md tells."""
    body = struct.pack("<8sQ", kind, len(payload)) + payload
    return sealed(body + bytes(-(len(body) + 4) % 8))


def container(*sections: bytes) -> bytes:
    return HEADER + b"".join(sections)


def put_dataset(
    url: str | Path, manifest: DatasetManifest, storage_options: Mapping[str, Any] | None = None
) -> DatasetManifest:
    """Put the index and the root of a manifest whose shards tests have made, in the place of those
    that are there."""
    store, path = Storage(storage_options).open(url)
    parent, _, name = path.rpartition("/")
    folder, names = Folder(store, parent), DatasetNames(name)
    folder.delete([names.index(None)])
    found = parts.put_parts(
        parts.Place(folder, names, "0123456789ab"), manifest, None, plain=True
    ).manifest
    folder.put(names.manifest, found.to_bytes())
    return found

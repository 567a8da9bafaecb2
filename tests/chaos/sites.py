"""Where a crowd can meet: each kind of store, reached directly and over a bad line."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
import uuid
from collections.abc import Iterator
from typing import Any

from tests.conftest import fresh_bucket, s3_options
from tests.servers import azurite, ceph
from tests.servers.gcs import gcs
from tests.servers.moto import moto
from tests.servers.place import Place
from tests.servers.shaping_proxy import shaped

SITES = ("local", "moto", "ceph", "gcs", "azure")


@contextlib.contextmanager
def site(name: str) -> Iterator[Place]:
    """A fresh place on a server of its own."""
    with contextlib.ExitStack() as stack:
        if name == "local":
            yield Place(stack.enter_context(tempfile.TemporaryDirectory()))
        elif name in ("moto", "ceph"):
            server = moto if name == "moto" else ceph.ceph
            yield fresh_bucket(stack.enter_context(server()))
        elif name == "gcs":
            endpoint = stack.enter_context(gcs())
            yield made(f"gs://{bucket()}", {"token": "anon", "project": "test"}, endpoint)
        else:
            text = stack.enter_context(azurite.azurite())
            endpoint = text.partition("BlobEndpoint=")[2].rpartition("/")[0]
            yield made(f"az://{bucket()}", {"connection_string": text}, endpoint)


def bucket() -> str:
    return f"test-{uuid.uuid4().hex[:16]}"


def made(root: str, options: dict[str, Any], endpoint: str) -> Place:
    if root.startswith("gs:"):
        options |= {"endpoint_url": endpoint}
    place = Place(root, options, endpoint)
    place.fs.mkdir(root.partition("://")[2])
    return place


def installed(name: str) -> bool:
    if name == "ceph":
        return ceph.installed()
    return name != "azure" or azurite.program() is not None


@contextlib.contextmanager
def bad_line(place: Place, **shape: Any) -> Iterator[Place]:
    """The same place through a proxy that has faults."""
    with shaped(place.endpoint, **shape) as line:
        if place.root.startswith("s3:"):
            options = s3_options(line.endpoint)
        elif place.root.startswith("gs:"):
            options = place.storage_options | {"endpoint_url": line.endpoint}
        else:
            port = int(line.endpoint.rpartition(":")[2])
            options = {"connection_string": azurite.connection_string(port)}
        yield dataclasses.replace(place, storage_options=options, endpoint=line.endpoint)

"""Where a crowd can meet: each kind of store, reached directly and over a bad line."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from tests.servers import azurite, ceph
from tests.servers.gcs import gcs
from tests.servers.moto import moto
from tests.servers.place import Place, fresh
from tests.servers.shaping_proxy import shaped

SERVERS: dict[str, tuple[str, Callable[[], AbstractContextManager[str]]]] = {
    "moto": ("s3", moto),
    "ceph": ("s3", ceph.ceph),
    "gcs": ("gs", gcs),
    "azure": ("az", azurite.azurite),
}
SITES = ("local", *SERVERS)


@contextlib.contextmanager
def site(name: str) -> Iterator[Place]:
    """A fresh place on a server of its own."""
    with contextlib.ExitStack() as stack:
        if name == "local":
            yield Place(stack.enter_context(tempfile.TemporaryDirectory()))
        else:
            scheme, server = SERVERS[name]
            yield fresh(scheme, stack.enter_context(server()))


def installed(name: str) -> bool:
    if name == "ceph":
        return ceph.installed()
    return name != "azure" or azurite.program() is not None


@contextlib.contextmanager
def bad_line(place: Place, **shape: Any) -> Iterator[Place]:
    """The same place through a proxy that has faults."""
    with shaped(place.endpoint, **shape) as line:
        yield place.through(line.endpoint)

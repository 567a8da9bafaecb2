"""Every store that the library has, each on every server that it can be tested on."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import ceph
from tests.servers.faulty import Faulty, faulty
from tests.servers.place import Place
from tests.support.long import long

# "plain" is what an fsspec filesystem gets of which the library knows nothing more
# and obstore is not tested on GCS: it reads by the XML interface, which the emulator does not have
SITES = [
    "local", "memory", "plain", "s3", "ceph", "gcs", "azure",
    long("s3+obstore") if ceph.installed() else "s3+obstore",  # the same client and protocol
    "ceph+obstore", "azure+obstore",
]  # fmt: skip


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    server, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    if server == "local":
        found = Place(str(tmp_path))
    elif server == "plain":
        found = Place(f"plain://{tmp_path}")
    else:
        found = request.getfixturevalue(server)
    return dataclasses.replace(found, backend=backend or "fsspec")


@pytest.fixture(params=["s3", "s3+obstore", "gcs", "azure", "azure+obstore"])
def behind(request: pytest.FixtureRequest) -> Iterator[tuple[str, Place, Faulty]]:
    """A cloud, and a place seen through a proxy that does as it is told."""
    cloud, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    place: Place = request.getfixturevalue(cloud)
    with faulty(place.endpoint) as proxy:
        yield cloud, place.through(proxy.endpoint, backend or "fsspec"), proxy

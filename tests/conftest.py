"""Servers and places shared by the tests."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.servers import azurite, ceph as ceph_server
from tests.servers.gcs import gcs as gcs_emulator
from tests.servers.moto import KEY, SECRET, moto
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped, shaped as shaping_proxy
from tests.servers.trap import Trap, trap

# How long an example takes says nothing here: the first one imports, traces, or waits for others.
hypothesis.settings.register_profile("tests", deadline=None)
hypothesis.settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def outside() -> Iterator[Trap]:
    """Blocks every address but this machine's own, and knows who tried."""
    with trap() as noted:
        yield noted


@pytest.fixture(autouse=True)
def loopback_only(outside: Trap) -> Iterator[None]:
    """Fails a test that reached for another address, even where the error was swallowed."""
    yield
    assert outside.attempts() == []


def s3_options(endpoint: str) -> dict[str, Any]:
    return {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}


def fresh_bucket(endpoint: str) -> Place:
    bucket = f"test-{uuid.uuid4().hex[:16]}"
    place = Place(f"s3://{bucket}", s3_options(endpoint), endpoint)
    place.fs.mkdir(bucket)
    return place


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The endpoint URL of an S3 server for the whole run (moto)."""
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with moto() as endpoint:
        yield endpoint


@pytest.fixture
def s3(s3_server: str) -> Place:
    """A fresh bucket."""
    return fresh_bucket(s3_server)


@pytest.fixture(scope="session")
def ceph_endpoint() -> Iterator[str]:
    """The endpoint URL of a real S3 gateway for the whole run; `make servers` installs it."""
    pytest.importorskip("s3fs")
    if not ceph_server.installed():
        pytest.skip("Ceph is not installed, or needs root: make servers")
    with ceph_server.ceph() as endpoint:
        yield endpoint


@pytest.fixture
def ceph(ceph_endpoint: str) -> Place:
    """A fresh bucket on Ceph."""
    return fresh_bucket(ceph_endpoint)


@pytest.fixture(scope="session")
def gcs_server() -> Iterator[str]:
    """The endpoint URL of a Google Cloud Storage emulator for the whole run."""
    pytest.importorskip("gcsfs")
    pytest.importorskip("gcp_storage_emulator")
    with gcs_emulator() as endpoint:
        yield endpoint


@pytest.fixture
def gcs(gcs_server: str) -> Place:
    """A fresh bucket on Google Cloud Storage."""
    bucket = f"test-{uuid.uuid4().hex[:16]}"
    options = {"endpoint_url": gcs_server, "token": "anon", "project": "test"}
    place = Place(f"gs://{bucket}", options, gcs_server)
    place.fs.mkdir(bucket)
    return place


@pytest.fixture(scope="session")
def azure_server() -> Iterator[str]:
    """The connection string of an Azure Blob server for the whole run."""
    pytest.importorskip("adlfs")
    if azurite.program() is None:
        pytest.skip("Azurite is not installed: make servers")
    with azurite.azurite() as connection_string:
        yield connection_string


@pytest.fixture
def azure(azure_server: str) -> Place:
    """A fresh container on Azure Blob Storage."""
    container = f"test-{uuid.uuid4().hex[:16]}"
    endpoint = azure_server.partition("BlobEndpoint=")[2].rpartition("/")[0]
    place = Place(f"az://{container}", {"connection_string": azure_server}, endpoint)
    place.fs.mkdir(container)
    return place


@pytest.fixture
def shaped() -> Iterator[Callable[..., Shaped]]:
    """``shaped(endpoint, ttfb_ms=30, p_503=0.05, ...)``: a proxy with latency, caps and faults."""
    with contextlib.ExitStack() as stack:
        yield lambda endpoint, **shape: stack.enter_context(shaping_proxy(endpoint, **shape))


@pytest.fixture
def memory() -> Place:
    """A fresh folder of fsspec's in-memory filesystem."""
    return Place(f"memory://test-{uuid.uuid4().hex[:16]}")


@pytest.fixture(params=["local", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """The same test on local files, in memory and on S3."""
    if request.param == "local":
        return Place(str(tmp_path))
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["fsspec", "obstore"])
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "obstore":
        pytest.importorskip("obstore")  # which Python 3.10 has no wheel of
    return str(request.param)

"""Servers and places shared by the tests."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.moto import KEY, SECRET, moto
from tests.servers.place import Place


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

"""Clusters, each started once for all tests of its engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.ray_nodes import cluster
from tests.engines.spark_session import CLUSTER, THREADS, spark_session


@pytest.fixture(scope="session")
def spark(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """A session with two worker processes. Where the slow tests, which kill some, are left out, it
    is on two threads, and starts in less time."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    are_slow = any(item.get_closest_marker("slow") for item in request.session.items)
    master = CLUSTER if are_slow else THREADS
    with spark_session(tmp_path_factory.mktemp("spark"), master) as session:
        yield session


@pytest.fixture(scope="session")
def ray_cluster(outside: object) -> Iterator[Any]:
    """Ray on a node of this machine."""
    pytest.importorskip("ray", reason="Ray is not installed")
    with cluster() as nodes:
        yield nodes

"""Clusters, each started once for all tests of its engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.ray_nodes import cluster
from tests.engines.spark_session import spark_session


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two worker processes."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def ray_cluster(outside: object) -> Iterator[Any]:
    """Ray on a node of this machine."""
    pytest.importorskip("ray", reason="Ray is not installed")
    with cluster() as nodes:
        yield nodes

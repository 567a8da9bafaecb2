"""Spark on this machine: a session on two worker processes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent

CLUSTER = "local-cluster[2,1,1024]"


@contextlib.contextmanager
def spark_session(folder: Path, master: str = CLUSTER, **conf: str) -> Iterator[Any]:
    """A session. The Python of this process runs in the tasks too, and finds these tests."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)  # of the processes on the driver's side, which inherit it
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.local.dir": str(folder),
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.task.maxFailures": "4",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **conf,
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        stop_jvm()


def stop_jvm() -> None:
    """Spark leaves it running, for the next session."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(30)
    SparkContext._gateway = SparkContext._jvm = None

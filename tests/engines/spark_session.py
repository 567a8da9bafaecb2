"""Spark on this machine: a session on two worker processes, and a cluster of several hosts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers.process import free_port, running

ROOT = Path(__file__).parent.parent.parent

CLUSTER = "local-cluster[2,1,1024]"
THREADS = "local[2,4]"
"""Two threads. A task that fails is tried four times, as on a cluster."""

SOON_READY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Of a JVM that lives for minutes: it compiles once, in a fraction of the time."""

FASTER_COPIES = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "4s",  # only of tasks that a test has wait
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
}


@contextlib.contextmanager
def spark_session(folder: Path, master: str = CLUSTER, **conf: str) -> Iterator[Any]:
    """A session. The Python of this process runs in the tasks too, and finds these tests."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(ROOT)  # of the processes on the driver's side, which inherit it
    builder = SparkSession.builder.master(master).appName("tests")
    for name, value in {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": SOON_READY,
        "spark.executor.extraJavaOptions": SOON_READY,
        "spark.driver.host": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.local.dir": str(folder),
        "spark.sql.codegen.wholeStage": "false",  # compiles long programs for few rows
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


@contextlib.contextmanager
def spark_hosts(*hosts: str) -> Iterator[str]:
    """The URL of a master with a worker of one core on each of these addresses of this machine."""
    import pyspark

    run = [str(Path(pyspark.__file__).parent / "bin" / "spark-class")]
    deploy = "org.apache.spark.deploy"
    port = free_port()
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    at = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(running([*run, f"{deploy}.master.Master", *at], port=port, env=env))
        master = f"spark://127.0.0.1:{port}"
        for host in hosts:
            own = ["--host", host, "--webui-port", "0", "--cores", "1", "--memory", "1g"]
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            worker = [*run, f"{deploy}.worker.Worker", *own, "--work-dir", folder, master]
            stack.enter_context(started(worker, {**env, "SPARK_LOCAL_IP": host}))
        yield master


@contextlib.contextmanager
def started(argv: list[str], env: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)

"""A cluster of Ray on this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from tests.servers.trap import environment

NOBODY = 9
"""A port that nobody listens on. Ray reports that it must report nothing, and asks the clouds'
metadata services where it runs. It reaches none of them, and the tests are not about that."""

ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    "RAY_worker_niceness": "0",  # else its workers wait for all others on a busy machine
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # with it, all addresses are 127.0.0.1
}
os.environ.update(ENVIRONMENT)  # before anybody imports Ray

NODE = {"num_cpus": 2, "object_store_memory": 200 << 20, "include_dashboard": False}


@contextlib.contextmanager
def cluster() -> Iterator[Any]:
    """One node, to which this process is connected. Tests may add another one."""
    import ray
    from ray.cluster_utils import Cluster

    folder = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # a Unix socket's path must be short
    os.mkdir(os.path.join(folder, "ray"))
    own = dict(os.environ)
    os.environ.update(environment(NOBODY), RAY_TMPDIR=folder)
    nodes = Cluster(initialize_head=True, head_node_args=NODE)
    try:
        ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR")
        os.environ.update(own)
        ray.data.DataContext.get_current().enable_progress_bars = False
        yield nodes
    finally:
        os.environ.update(own)
        ray.shutdown()
        nodes.shutdown()
        shutil.rmtree(folder, ignore_errors=True)

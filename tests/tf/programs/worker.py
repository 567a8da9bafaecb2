"""A tf.data service worker in a process of its own. Arguments: the dispatcher's address.

Prints "ready", then how many records its ops read when standard input closes.
"""

from __future__ import annotations

import sys

import tensorflow as tf

import tfio_store.tf.dataset.ops as ops


def main() -> None:
    assert ops.bridge() == "native"
    config = tf.data.experimental.service.WorkerConfig(sys.argv[1], heartbeat_interval_ms=100)
    server = tf.data.experimental.service.WorkerServer(config)
    print("ready", flush=True)
    sys.stdin.read()
    server._stop()


main()

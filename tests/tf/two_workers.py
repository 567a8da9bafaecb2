"""tf.data service with two workers, in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection

import tensorflow as tf

from tests.tf.run_program import FORKED
from tfio_store.tf.dataset import ops

__all__ = ["two_workers"]


def serve(address: str, ready: Connection) -> None:
    """What a worker does until it is killed."""
    assert ops.bridge() == "native"
    config = tf.data.experimental.service.WorkerConfig(address, heartbeat_interval_ms=100)
    server = tf.data.experimental.service.WorkerServer(config)
    ready.send("ready")
    server.join()


@contextmanager
def _worker(address: str) -> Iterator[None]:
    here, there = FORKED.Pipe()
    process = FORKED.Process(target=serve, args=(address, there), daemon=True)
    process.start()
    there.close()
    try:
        assert here.recv() == "ready"
        yield
    finally:
        process.kill()
        process.join()
        here.close()


@contextmanager
def two_workers() -> Iterator[str]:
    """The address of their dispatcher."""
    config = tf.data.experimental.service.DispatcherConfig(port=0)
    dispatcher = tf.data.experimental.service.DispatchServer(config)
    address = dispatcher.target.split("://")[1]
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(_worker(address))
        yield dispatcher.target

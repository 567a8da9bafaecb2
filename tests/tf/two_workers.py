"""tf.data service with two workers, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import tensorflow as tf

__all__ = ["two_workers"]


@contextmanager
def _worker(address: str) -> Iterator[None]:
    command = [sys.executable, "-m", "tests.tf.programs.worker", address]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


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

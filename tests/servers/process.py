"""Starting and stopping one server process."""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(endpoint: str, method: str, path: str) -> None:
    """Make a request that no client of a store makes: the server's own orders."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    with contextlib.closing(connection):
        connection.request(method, path)
        connection.getresponse().read()


@contextlib.contextmanager
def running(
    argv: Sequence[str], *, port: int, env: Mapping[str, str] | None = None, seconds: float = 60
) -> Iterator[None]:
    """Run ``argv`` while the block runs; enter it when ``port`` accepts connections.

    The server's stdin is a pipe that closes when this process dies, for servers that watch it.
    """
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=env
        )
        try:
            deadline = time.monotonic() + seconds
            while not listens(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise RuntimeError(f"{argv[0]} did not start: {log.read().decode()[-2000:]}")
                time.sleep(0.05)
            yield
        finally:
            process.terminate()
            try:
                process.communicate(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()

"""The servers of one test run: each starts when a test first asks for it, and serves all workers.

The process that the run began in starts this module as a program, the supervisor, and holds the
other end of its standard input. Workers find the supervisor by a socket whose path the environment
names. When the run is over or killed, the supervisor's input ends, and the servers end with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers import azurite, ceph as ceph_server
from tests.servers.gcs import gcs
from tests.servers.moto import moto

SOCKET = "TFIO_STORE_TEST_SERVERS"
"""The environment variable that holds the path of the supervisor's socket."""

SERVERS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "s3": moto,
    "ceph": ceph_server.ceph,
    "gcs": gcs,
    "azure": azurite.azurite,
}
"""By name: what starts the server and gives the address that its clients need."""


def address(name: str) -> str:
    """The endpoint URL or connection string of the run's server of that name."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[SOCKET])
        with connection.makefile("rw") as lines:
            lines.write(f"{name}\n")
            lines.flush()
            answer = json.loads(lines.readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return str(answer["address"])


@contextlib.contextmanager
def supervised() -> Iterator[None]:
    """Workers and children that are started inside of the block share their servers."""
    with tempfile.TemporaryDirectory(prefix="servers-") as folder:
        path = str(Path(folder, "socket"))
        argv = [sys.executable, "-m", "tests.servers.shared", path]
        supervisor = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdout.readline()  # it listens
        os.environ[SOCKET] = path
        try:
            yield
        finally:
            del os.environ[SOCKET]
            supervisor.stdin.close()
            supervisor.wait(timeout=60)


class Running:
    """The servers that were asked for. Two who ask for one at once wait for the same start."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self._turns = {name: threading.Lock() for name in SERVERS}
        self._addresses: dict[str, str] = {}

    def answer(self, name: str) -> dict[str, str]:
        try:
            with self._turns[name]:
                if name not in self._addresses:
                    self._addresses[name] = self._stack.enter_context(SERVERS[name]())
                return {"address": self._addresses[name]}
        except Exception as error:
            return {"error": f"{name} did not start: {type(error).__name__}: {error}"}


def serve(path: str) -> None:
    with contextlib.ExitStack() as stack:
        running = Running(stack)

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                name = self.rfile.readline().decode().strip()
                self.wfile.write(json.dumps(running.answer(name)).encode() + b"\n")

        server = stack.enter_context(socketserver.ThreadingUnixStreamServer(path, Handler))
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print("listening", flush=True)
        sys.stdin.read()  # returns when the run is over
        server.shutdown()


if __name__ == "__main__":
    serve(sys.argv[1])

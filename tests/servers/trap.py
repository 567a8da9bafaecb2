"""What the tests must not do: talk to an address that is not this machine's own.

Three nets, since no single one holds everything:

- An audit hook stops Python's sockets, here and in Python children (`tests/loopback`).
- The proxy environment names the trap, a listener on loopback that answers nothing but 403. Clients
  below Python that heed it (obstore's, among others) walk into it and look nothing up themselves.
- The variables that stop the clouds' libraries from asking the machine's metadata service are set.

The trap notes each attempt, so that one whose error is swallowed fails its test all the same.
"""

from __future__ import annotations

import contextlib
import os
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.loopback import sitecustomize

LOOPBACK = "127.0.0.1,localhost,::1"
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
FOLDER = Path(sitecustomize.__file__).parent


class Trap:
    """Who wanted where since the last look."""

    def __init__(self) -> None:
        self._attempts: list[str] = []

    def note(self, attempt: str) -> None:
        self._attempts.append(attempt)

    def attempts(self) -> list[str]:
        found, self._attempts = self._attempts, []
        return found


@contextlib.contextmanager
def trap() -> Iterator[Trap]:
    """Block this process and its children for good; note their attempts while the block runs."""
    noted = Trap()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            noted.note(self.rfile.readline(4096).decode(errors="replace").strip())
            while self.rfile.readline(65536).strip():
                pass
            self.wfile.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ.update(environment(server.server_address[1]))
        sitecustomize.block()
        try:
            yield noted
        finally:
            server.shutdown()


def environment(port: int) -> dict[str, str]:
    """What blocks a process that has no hook yet."""
    found = {"NO_PROXY": LOOPBACK, "no_proxy": LOOPBACK, sitecustomize.TRAP: str(port)}
    for name in PROXIES:
        found[name] = found[name.lower()] = f"http://127.0.0.1:{port}"
    found["AWS_EC2_METADATA_DISABLED"] = "true"
    found["NO_GCE_CHECK"] = "true"
    kept = os.environ.get("PYTHONPATH")
    found["PYTHONPATH"] = os.pathsep.join([str(FOLDER), *([kept] if kept else [])])
    return found

"""S3 by moto: quick to start and good for small objects.

It is a Python process that rereads the whole object for each range, and it does
not check the checksums it is sent: what depends on those belongs on Ceph.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from tests.servers.process import free_port, running

KEY, SECRET = "testkey", "testsecret"


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """A server's endpoint URL, while the block runs."""
    port = free_port()
    with running([sys.executable, "-m", "tests.servers.moto", str(port)], port=port):
        yield f"http://127.0.0.1:{port}"


def serve(port: int) -> None:
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    server.start()
    sys.stdin.read()  # returns when the parent is gone
    server.stop()


if __name__ == "__main__":
    serve(int(sys.argv[1]))

"""S3 by moto: quick to start and good for small objects.

It is a Python process that rereads the whole object for each range, and it does
not check the checksums it is sent: what depends on those belongs on Ceph.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator
from typing import Any

from tests.servers.process import ask, free_port, running

KEY, SECRET = "testkey", "testsecret"


@contextlib.contextmanager
def moto() -> Iterator[str]:
    """A server's endpoint URL, while the block runs."""
    port = free_port()
    # each of its threads would keep memory of its own for what it has freed
    env = {**os.environ, "MALLOC_ARENA_MAX": "1"}
    with running([sys.executable, "-m", "tests.servers.moto", str(port)], port=port, env=env):
        yield f"http://127.0.0.1:{port}"


def forget(endpoint: str, bucket: str) -> None:
    """A test's bucket with all that is in it. Else moto keeps each object until the run ends."""
    ask(endpoint, "PURGE", f"/{bucket}")


def purge(bucket: str) -> None:
    """What `forget` asks the server for."""
    from moto.s3.models import s3_backends

    for account in s3_backends.values():
        for region in account.values():
            region.buckets.pop(bucket, None)
    s3_backends.bucket_accounts.pop(bucket, None)


class Untracked(list[Any]):
    """moto appends each object to a list, and so keeps what was overwritten or deleted."""

    def append(self, _: Any) -> None:
        """Nothing: it goes when its bucket lets go of it."""


def serve(port: int) -> None:
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from moto.s3.models import FakeKey, FakeMultipart
    from werkzeug.serving import make_server

    kinds: list[Any] = [FakeKey, FakeMultipart]
    for kind in kinds:
        kind.instances_tracked = Untracked()
    anything, s3 = DomainDispatcherApplication(create_backend_app), create_backend_app("s3")
    turn = threading.Lock()

    def one_at_a_time(environ: Any, start_response: Any) -> list[bytes]:
        """moto looks at a condition and then writes, and in between others could write."""
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = environ["wsgi.input"].read(length) if length else b""
        if len(body) < length:
            raise ConnectionError("the request was cut off")
        if environ["REQUEST_METHOD"] == "PURGE":
            with turn:
                purge(environ["PATH_INFO"].strip("/"))
            start_response("204 No Content", [])
            return []
        if length:
            environ["wsgi.input"] = io.BytesIO(body)
        # to find whom a request is for takes the dispatcher as long as to answer it
        signed_for_s3 = "/s3/aws4_request" in environ.get("HTTP_AUTHORIZATION", "")
        with turn:
            return list((s3 if signed_for_s3 else anything)(environ, start_response))

    server = make_server(
        "127.0.0.1", port, one_at_a_time, threaded=True, request_handler=MotoRequestHandler
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # returns when the parent is gone
    server.shutdown()


if __name__ == "__main__":
    serve(int(sys.argv[1]))

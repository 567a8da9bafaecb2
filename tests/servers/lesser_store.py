"""A loopback proxy that makes of a good S3 server a lesser one: it lacks what was taken from it.

``ignore``: request headers that never reach the server, as with stores that do not know them.
``refuse``: request headers that are answered 501 NotImplemented.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
from collections.abc import Iterator, Sequence

REFUSAL = b"<Error><Code>NotImplemented</Code><Message>unknown header</Message></Error>"


@contextlib.contextmanager
def lesser_store(
    endpoint: str, *, ignore: Sequence[str] = (), refuse: Sequence[str] = ()
) -> Iterator[str]:
    """The endpoint URL of the proxy, while the block runs."""
    target = endpoint.rpartition("/")[2]

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if any(name in self.headers for name in refuse):
                self.answer(501, [], REFUSAL)
                return
            kept = {name: value for name, value in self.headers.items() if name not in ignore}
            connection = http.client.HTTPConnection(target)
            connection.request(self.command, self.path, body, kept)
            answer = connection.getresponse()
            self.answer(answer.status, answer.getheaders(), answer.read())
            connection.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815

        def answer(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
            self.send_response_only(status)
            length = str(len(body))
            for name, value in headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

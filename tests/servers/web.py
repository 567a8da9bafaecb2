"""A web server with ranges and ETags, whose files are a dict."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = ["Handler", "Web", "served", "web_server"]


@dataclass
class Web:
    """``files`` by path, each beginning with a slash."""

    endpoint: str = ""
    files: dict[str, bytes] = field(default_factory=dict)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    web: Web

    def do_HEAD(self) -> None:
        self.answer(head=True)

    def do_GET(self) -> None:
        self.answer(head=False)

    def answer(self, *, head: bool) -> None:
        data = self.web.files.get(self.path)
        if data is None:
            self.send(404, b"", {}, head=head)
            return
        etag = f'"{hashlib.md5(data).hexdigest()}"'
        headers = {"ETag": etag}
        if self.headers.get("If-Match", etag) != etag:
            self.send(412, b"", headers, head=head)
            return
        wanted = self.headers.get("Range")
        if wanted is None:
            self.send(200, data, headers, head=head)
            return
        first, last = (int(number) for number in wanted.removeprefix("bytes=").split("-"))
        body = data[first : last + 1]
        if not body:
            headers["Content-Range"] = f"bytes */{len(data)}"
            self.send(416, b"", headers, head=head)
            return
        headers["Content-Range"] = f"bytes {first}-{first + len(body) - 1}/{len(data)}"
        self.send(206, body, headers, head=head)

    def send(self, status: int, body: bytes, headers: dict[str, str], *, head: bool) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if not head:
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def web_server(kind: type[Handler] = Handler) -> Iterator[Web]:
    """The server, while the block runs."""
    web = Web()
    with served(type("Bound", (kind,), {"web": web})) as web.endpoint:
        yield web


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Clients hang up when they have read enough."""


@contextlib.contextmanager
def served(handler: type[http.server.BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """The endpoint of a server in this process, while the block runs."""
    server = Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""A loopback proxy that makes of a good server a lesser one, or one that answers otherwise."""

from __future__ import annotations

import contextlib
import http.client
import http.server
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tests.servers.web import served

REFUSAL = b"<Error><Code>NotImplemented</Code><Message>unknown header</Message></Error>"


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    announced: int | None = None
    """So many bytes are announced, and the connection ends behind the body."""

    def header(self, name: str, value: str) -> Answer:
        """With that header, instead of any of its name."""
        kept = [pair for pair in self.headers if pair[0].lower() != name.lower()]
        return replace(self, headers=[*kept, (name, value)])


Forward = Callable[[Request], Answer]
Rewrite = Callable[[Request, Forward], Answer]
"""Answers a request, with the server's help or without."""


@contextlib.contextmanager
def rewriting_store(endpoint: str, rewrite: Rewrite, port: int = 0) -> Iterator[str]:
    """The URL of a proxy before ``endpoint`` whose answers are what ``rewrite`` makes of them."""
    target, _, path = endpoint.partition("://")[2].partition("/")

    def forward(request: Request) -> Answer:
        connection = http.client.HTTPConnection(target)
        connection.request(request.method, request.path, request.body, request.headers)
        answer = connection.getresponse()
        found = Answer(answer.status, answer.getheaders(), answer.read())
        connection.close()
        return found

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def relay(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            request = Request(self.command, self.path, dict(self.headers.items()), body)
            self.answer(rewrite(request, forward))

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815

        def answer(self, answer: Answer) -> None:
            self.send_response_only(answer.status)
            length = str(len(answer.body) if answer.announced is None else answer.announced)
            self.close_connection |= answer.announced is not None
            for name, value in answer.headers:
                if name.lower() == "content-length" and self.command == "HEAD":
                    length = value
                elif name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length)
            self.end_headers()
            self.wfile.write(answer.body)

        def log_message(self, *args: object) -> None:
            pass

    with served(Handler, port) as proxy:
        yield proxy + (f"/{path}" if path else "")


def lesser_store(
    endpoint: str, *, ignore: Sequence[str] = (), refuse: Sequence[str] = ()
) -> contextlib.AbstractContextManager[str]:
    """A store that lacks something: ``ignore`` names request headers that never reach the server,
    as with stores that do not know them; ``refuse`` those that are answered 501."""

    def rewrite(request: Request, forward: Forward) -> Answer:
        if any(name in request.headers for name in refuse):
            return Answer(501, body=REFUSAL)
        for name in ignore:
            request.headers.pop(name, None)
        return forward(request)

    return rewriting_store(endpoint, rewrite)

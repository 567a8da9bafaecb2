"""A proxy before a store that refuses in its cloud's own words, hangs or hangs up, as told."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store

How = Callable[[Request], Answer | None]
"""What a request is answered; None: what the store answers."""


def s3(status: int, code: str, message: str, more: str = "", **headers: str) -> Answer:
    """As https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html has it."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>{message}'
        f"</Message>{more}<RequestId>656c76696e672</RequestId><HostId>Uuag1LuByRx9e</HostId></Error>"
    )
    own = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return Answer(status, [("Content-Type", "application/xml"), *own], body.encode())


def gcs(status: int, reason: str, message: str) -> Answer:
    """As https://cloud.google.com/storage/docs/json_api/v1/status-codes has it."""
    error = {"message": message, "domain": "global", "reason": reason}
    body = {"error": {"code": status, "message": message, "errors": [error]}}
    return Answer(
        status, [("Content-Type", "application/json; charset=UTF-8")], json.dumps(body).encode()
    )


def azure(status: int, code: str, message: str, detail: str = "") -> Answer:
    """As https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2 has it. A
    HEAD has the code in its header."""
    more = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>" if detail else ""
    body = (
        f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{message}\n'
        f"RequestId:1\nTime:2026-11-28T00:00:00.0000000Z</Message>{more}</Error>"
    )
    headers = [("Content-Type", "application/xml"), ("x-ms-error-code", code)]
    return Answer(status, headers, body.encode())


@dataclass
class Faulty:
    """``how`` may be set at any time. ``held``: requests wait while it is not set."""

    endpoint: str = ""
    how: How = lambda _: None
    held: threading.Event = field(default_factory=threading.Event)
    refused: int = 0
    """Requests that were not the store's to answer."""

    def rewrite(self, request: Request, forward: Forward) -> Answer:
        answer = self.how(request)
        if answer is None:
            return forward(request)
        self.refused += 1
        bare = request.method == "HEAD"
        return Answer(answer.status, answer.headers, b"" if bare else answer.body)

    def hang(self, _: Request) -> None:
        self.held.wait(60)

    def hang_up(self, _: Request) -> None:
        """The proxy's thread ends, and the connection with it."""
        self.refused += 1
        raise ConnectionAbortedError


@contextlib.contextmanager
def faulty(endpoint: str, port: int = 0) -> Iterator[Faulty]:
    """While the block runs. When it ends, what hangs is answered."""
    proxy = Faulty()
    with rewriting_store(endpoint, proxy.rewrite, port) as proxy.endpoint:
        try:
            yield proxy
        finally:
            proxy.held.set()

"""A loopback proxy that answers ranged GETs of another store wrongly, in one way at a time.

    short        fewer bytes than announced, then the connection is closed
    capped       a shorter range than was asked for, correctly labelled
    lone-416     "Range Not Satisfiable", without a word on the size
    unlabelled   206 without a Content-Range
    shifted      another range than was asked for, correctly labelled
    empty        206 with no bytes at all
    flipped      one bit of the body is wrong
    503          turned away
    reset        the connection ends without an answer
    late         the right answer, after a while

Anything else that clients ask is passed on as it is.
"""

from __future__ import annotations

import contextlib
import http.client
import http.server
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator

from tests.servers.web import served

__all__ = ["LIES", "Liar", "lying_proxy"]

LIES = ("short", "capped", "lone-416", "unlabelled", "shifted", "empty", "503")
"""What a store can tell to be wrong. A flipped bit only the records' checksums tell."""

LATE_SECONDS = 0.05
HOP = {"connection", "transfer-encoding", "content-length", "content-range", "keep-alive"}


class Liar:
    """The proxy: ``lie`` is asked for a fault before each ranged GET."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.endpoint = ""
        self.lie: Callable[[], str | None] = lambda: None
        self.told: Counter[str] = Counter()
        self.ranged = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    liar: Liar

    def relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        ranged = self.headers.get("Range") or self.headers.get("x-ms-range")
        lie = None
        if ranged and self.command == "GET":
            self.liar.ranged += 1
            lie = self.liar.lie()
        if lie == "503":
            self.answer(503, "Slow Down", [], b"", lie)
            return
        if lie == "reset":
            self.liar.told[lie] += 1
            self.close_connection = True
            return
        if lie == "late":
            time.sleep(LATE_SECONDS)
        store = http.client.HTTPConnection("127.0.0.1", self.liar.target, timeout=30)
        headers = {name: value for name, value in self.headers.items() if name != "Connection"}
        store.request(self.command, self.path, body or None, headers)
        found = store.getresponse()
        data = found.read()
        store.close()
        kept = [(name, value) for name, value in found.getheaders() if name.lower() not in HOP]
        label = found.getheader("Content-Range")
        if lie is not None and found.status == 206 and label:
            self.mislead(lie, kept, label, data)
            return
        if label:
            kept.append(("Content-Range", label))
        length = found.getheader("Content-Length") if self.command == "HEAD" else None
        self.answer(found.status, found.reason, kept, data, None, length=length)

    def mislead(self, lie: str, kept: list[tuple[str, str]], label: str, data: bytes) -> None:
        part = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", label)
        assert part is not None
        first, size = int(part[1]), int(part[3])
        dice = random.Random(hash((lie, first, len(data))))
        if lie == "lone-416":
            self.answer(416, "Range Not Satisfiable", [], b"", lie)
            return
        shorter = data[: dice.randrange(max(len(data), 1))]
        if lie == "short":
            kept.append(("Content-Range", label))
            self.answer(206, "Partial Content", kept, shorter, lie, length=str(len(data)))
            self.close_connection = True
            return
        if lie == "capped" and shorter:
            label, data = f"bytes {first}-{first + len(shorter) - 1}/{size}", shorter
        if lie == "empty":
            data = b""
        if lie == "shifted":
            label = f"bytes {first + 1}-{first + len(data)}/{size + 1}"
        if lie == "flipped" and data:
            at = dice.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
        if lie != "unlabelled":
            kept.append(("Content-Range", label))
        self.answer(206, "Partial Content", kept, data, lie)

    def answer(
        self,
        status: int,
        reason: str,
        headers: list[tuple[str, str]],
        data: bytes,
        lie: str | None,
        *,
        length: str | None = None,
    ) -> None:
        if lie is not None:
            self.liar.told[lie] += 1
        self.send_response_only(status, reason)
        for name, value in headers:
            self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", length or str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815

    def log_message(self, *args: object) -> None:
        pass


@contextlib.contextmanager
def lying_proxy(endpoint: str) -> Iterator[Liar]:
    """A proxy in front of ``http://127.0.0.1:PORT``, in this process, while the block runs."""
    liar = Liar(int(re.sub(r".*://[^:/]+:(\d+).*", r"\1", endpoint)))
    with served(type("Bound", (Handler,), {"liar": liar})) as liar.endpoint:
        yield liar

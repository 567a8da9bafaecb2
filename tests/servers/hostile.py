"""Web servers that answer what no honest one would."""

from __future__ import annotations

import re
from typing import ClassVar

from tests.servers.web import Handler

__all__ = ["Echoing", "Endless", "Moved", "Telling", "Vast"]


class Vast(Handler):
    """Refuses HEAD, and answers any range as one of an object of ``size`` bytes."""

    size: ClassVar[str] = ""

    def answer(self, *, head: bool) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if head or found is None:
            self.send(405, b"", {}, head=head)
            return
        first, last = int(found[1]), int(found[2])
        body = b"A" * min(last - first + 1, 1 << 20)
        span = f"bytes {first}-{first + len(body) - 1}/{self.size}"
        self.send(206, body, {"Content-Range": span}, head=head)


class Endless(Handler):
    """Answers with this status and bytes until the client hangs up, or has had far too many."""

    status: ClassVar[int] = 200
    span: ClassVar[str] = ""
    sent: ClassVar[list[int]] = []

    def answer(self, *, head: bool) -> None:
        self.close_connection = True
        self.send_response_only(self.status)
        if self.span:
            self.send_header("Content-Range", self.span)
        self.send_header("Content-Length" if head else "Connection", "1000" if head else "close")
        self.end_headers()
        piece = bytes(1 << 16)
        try:
            while not head and sum(self.sent) < 128 << 20:
                self.wfile.write(piece)
                self.sent.append(len(piece))
        except OSError:
            return


class Echoing(Handler):
    """Answers with this status and what the client has told in its headers."""

    status: ClassVar[int] = 400

    def answer(self, *, head: bool) -> None:
        said = "; ".join(f"{name}: {value}" for name, value in self.headers.items())
        self.send(405 if head else self.status, said.encode(), {}, head=head)


class Moved(Handler):
    """Redirects to ``place``, from a path of /here at first to another of its own."""

    place: ClassVar[str] = ""
    told: ClassVar[list[dict[str, str]]] = []

    def answer(self, *, head: bool) -> None:
        self.told.append(dict(self.headers))
        place = "/there" if self.path.startswith("/here") else self.place
        self.send(302, b"", {"Location": place}, head=head)


class Telling(Handler):
    """An honest server that keeps what it is told."""

    told: ClassVar[list[dict[str, str]]] = []

    def answer(self, *, head: bool) -> None:
        self.told.append(dict(self.headers))
        super().answer(head=head)

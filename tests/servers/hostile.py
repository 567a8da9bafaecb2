"""Web servers that answer what no honest one would."""

from __future__ import annotations

import re
from typing import ClassVar

from tests.servers.web import Handler

__all__ = ["Vast"]


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

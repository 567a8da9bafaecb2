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
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store

__all__ = ["LIES", "Liar", "lying_proxy"]

LIES = ("short", "capped", "lone-416", "unlabelled", "shifted", "empty", "503")
"""What a store can tell to be wrong. A flipped bit only the records' checksums tell."""

LATE_SECONDS = 0.05


class Liar:
    """The proxy: ``lie`` is asked for a fault before each ranged GET."""

    def __init__(self) -> None:
        self.endpoint = ""
        self.lie: Callable[[], str | None] = lambda: None
        self.told: Counter[str] = Counter()
        self.ranged = 0

    def rewrite(self, request: Request, forward: Forward) -> Answer:
        headers, lie = {name.lower() for name in request.headers}, None
        if request.method == "GET" and not headers.isdisjoint(("range", "x-ms-range")):
            self.ranged += 1
            lie = self.lie()
        if lie in ("503", "reset"):
            self.told[lie] += 1
            if lie == "503":
                return Answer(503)
            raise ConnectionAbortedError  # the proxy's thread ends, and the connection with it
        if lie == "late":
            time.sleep(LATE_SECONDS)
        answer = forward(request)
        labels = [text for name, text in answer.headers if name.lower() == "content-range"]
        if lie is None or answer.status != 206 or not labels:
            return answer
        self.told[lie] += 1
        return misleading(lie, answer, labels[0])


def misleading(lie: str, answer: Answer, label: str) -> Answer:
    """The answer with this lie. ``label``: its Content-Range."""
    part, data = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", label), answer.body
    assert part is not None
    first, size = int(part[1]), int(part[3])
    dice = random.Random(hash((lie, first, len(data))))
    shorter = data[: dice.randrange(max(len(data), 1))]
    if lie == "lone-416":
        return Answer(416)
    if lie == "short":
        return replace(answer, body=shorter, announced=len(data))
    if lie == "unlabelled":
        kept = [pair for pair in answer.headers if pair[0].lower() != "content-range"]
        return replace(answer, headers=kept)
    if lie == "capped" and shorter:
        label, data = f"bytes {first}-{first + len(shorter) - 1}/{size}", shorter
    elif lie == "empty":
        data = b""
    elif lie == "shifted":
        label = f"bytes {first + 1}-{first + len(data)}/{size + 1}"
    elif lie == "flipped" and data:
        at = dice.randrange(len(data))
        data = data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]
    return replace(answer.header("Content-Range", label), body=data)


@contextlib.contextmanager
def lying_proxy(endpoint: str) -> Iterator[Liar]:
    """A proxy in front of an endpoint, in this process, while the block runs."""
    liar = Liar()
    with rewriting_store(endpoint, liar.rewrite) as liar.endpoint:
        yield liar

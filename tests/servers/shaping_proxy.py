"""A loopback proxy that gives a local store the latency, bandwidth and faults of a distant one.

    python -m tests.servers.shaping_proxy LISTEN TARGET --ttfb-ms 30 --bandwidth 80e6 --p-503 0.05

Each request is given at most one fault, drawn from a seeded generator:

    503       answered "SlowDown" without asking the store, then the connection is closed
    reset     carried out by the store, but the connection is reset instead of an answer
    truncate  the connection is closed in the middle of the answer
    stall     the answer waits for ``stall_s`` seconds
    flip      one bit of the request's body is wrong on arrival
    deny      answered 403 without asking the store
    forge     carried out by the store, but answered 403
    late      the connection is reset at once, and the store gets the request ``late_s`` seconds on,
              or as soon as the file ``late_until`` exists
    overtaken  like late, and the same request is answered 403 if it comes again before that: HTTP
              clients repeat one by themselves whose kept connection is reset

With ``only``, faults befall those requests alone whose first line matches this regular expression.

It looks at no more of HTTP than it has to: what a client sends after an answer began is a new
request (so no pipelining), and an interim "100 Continue" is no answer.

It notes the first requests, and when each began and was answered: `Shaped.timeline`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.servers.process import free_port, running

CHUNK = 1 << 18
SOCKET_BUFFER = 1 << 19
"""Small, so that the cap and not the kernel's buffering decides what the client sees."""

NOTED = 200
"""Requests in the timeline."""

FAULTS = ("503", "reset", "truncate", "stall", "flip", "deny", "forge", "late", "overtaken")
HELD = ("late", "overtaken")


def refusal(status: bytes, code: bytes, message: bytes) -> bytes:
    body = (
        b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>'
    )
    body %= code, message
    head = b"HTTP/1.1 %s\r\nContent-Type: application/xml\r\nConnection: close\r\n" % status
    return head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


SLOW_DOWN = refusal(b"503 Slow Down", b"SlowDown", b"Please reduce your request rate.")
DENIED = refusal(b"403 Forbidden", b"AccessDenied", b"Access Denied")


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a request meets on its way."""

    ttfb_ms: float = 0.0
    """Median wait before the first byte of an answer; log-normal, as stores have it."""
    jitter: float = 0.25
    """Sigma of that distribution."""
    bandwidth: float = 0.0
    """Bytes per second, for each connection and direction; 0 for as much as there is."""
    p_503: float = 0.0
    p_reset: float = 0.0
    p_truncate: float = 0.0
    p_stall: float = 0.0
    p_flip: float = 0.0
    p_deny: float = 0.0
    p_forge: float = 0.0
    p_late: float = 0.0
    p_overtaken: float = 0.0
    only: str = ""
    stall_s: float = 20.0
    late_s: float = 2.0
    late_until: str = ""
    seed: int = 1

    def draw(self, dice: random.Random) -> str | None:
        """The fault of one request, or None."""
        left = dice.random()
        for fault in FAULTS:
            left -= getattr(self, f"p_{fault}")
            if left < 0:
                return fault
        return None


class Pace:
    """Waits as long as ``bandwidth`` asks for; a few ms of burst even out the timer."""

    def __init__(self, bandwidth: float) -> None:
        self._bandwidth = bandwidth
        self._busy_until = 0.0

    async def take(self, nbytes: int) -> None:
        if not self._bandwidth:
            return
        now = time.monotonic()
        self._busy_until = max(self._busy_until, now - 0.004) + nbytes / self._bandwidth
        if self._busy_until > now + 0.001:
            await asyncio.sleep(self._busy_until - now)


@dataclasses.dataclass
class Request:
    """A request of the timeline: seconds at which it came, and at which its answer began."""

    line: str
    """Method and target, and the range if one is asked for."""
    begin: float
    answered: float | None = None


def line_of(head: bytes) -> str:
    method, target, _ = head.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
    found = re.search(rb"\nrange: *([^\r]+)", head, re.IGNORECASE)
    return f"{method} {target}" + (f" {found[1].decode()}" if found else "")


def kind_of(head: bytes) -> str:
    copies = re.search(rb"\nx-amz-copy-source:", head, re.IGNORECASE)
    return "COPY" if copies else head.partition(b" ")[0].decode("latin-1")


class Proxy:
    """Accepts connections and relays each to the target."""

    def __init__(self, target: int, shape: Shape) -> None:
        self.target = target
        self.shape = shape
        self.dice = random.Random(shape.seed)
        self.counts = dict.fromkeys(("connections", "requests", "bytes", *FAULTS), 0)
        self.kinds: Counter[str] = Counter()
        self.timeline: list[Request] = []
        self.overtaken: Counter[bytes] = Counter()
        """The first lines of requests that are held, while another one is turned away."""

    def fault_of(self, head: bytes) -> str | None:
        line = head.partition(b"\r\n")[0]
        if self.overtaken[line]:
            return "deny"
        if not re.search(self.shape.only, line.decode("latin-1")):
            return None
        return self.shape.draw(self.dice)

    async def serve(self, port: int) -> None:
        listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        listener.setblocking(False)
        relays = set()
        while True:
            client, _ = await asyncio.get_running_loop().sock_accept(listener)
            relay = asyncio.create_task(Relay(self, client).run())
            relays.add(relay)
            relay.add_done_callback(relays.discard)


class Relay:
    """One connection of a client, and the one to the store that belongs to it."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.store = socket.socket()
        self.asking = False
        self.fault: str | None = None
        self.noted: Request | None = None
        proxy.counts["connections"] += 1

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for end in (self.client, self.store):
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self.client.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER)
        with self.client, self.store, contextlib.suppress(OSError):
            await loop.sock_connect(self.store, ("127.0.0.1", self.proxy.target))
            answers = asyncio.create_task(self.carry_answers())
            requests = asyncio.create_task(self.carry_requests())
            try:
                # a client that half-closes still waits for its answer
                await asyncio.wait({answers, requests}, return_when=asyncio.FIRST_COMPLETED)
                if not answers.done() and self.fault not in ("503", "deny", *HELD):
                    await asyncio.wait({answers}, timeout=60)
            finally:
                answers.cancel()
                requests.cancel()
                await asyncio.gather(answers, requests, return_exceptions=True)

    async def carry_requests(self) -> None:
        loop, buffer = asyncio.get_running_loop(), bytearray(CHUNK)
        view, pace = memoryview(buffer), Pace(self.proxy.shape.bandwidth)
        while count := await loop.sock_recv_into(self.client, buffer):
            if not self.asking:
                self.begin_request(bytes(view[:count]))
            elif self.fault == "flip":  # past the headers, so in the body
                buffer[count // 2] ^= 1
                self.fault = None
            if self.fault in ("503", "deny"):
                await self.turn_away(SLOW_DOWN if self.fault == "503" else DENIED)
                return
            if self.fault in HELD:
                await self.deliver_late(bytes(view[:count]))
                return
            await pace.take(count)
            await loop.sock_sendall(self.store, view[:count])
        with contextlib.suppress(OSError):
            self.store.shutdown(socket.SHUT_WR)

    async def carry_answers(self) -> None:
        loop, buffer = asyncio.get_running_loop(), bytearray(CHUNK)
        view, pace = memoryview(buffer), Pace(self.proxy.shape.bandwidth)
        while count := await loop.sock_recv_into(self.store, buffer):
            if self.asking and not buffer.startswith(b"HTTP/1.1 100"):
                self.asking = False
                await self.wait_for_first_byte()
                if self.noted is not None:
                    self.noted.answered = time.monotonic()
                if self.fault == "reset":
                    reset(self.client)
                    return
                if self.fault == "forge":
                    await self.turn_away(DENIED)
                    return
                if self.fault == "truncate":
                    await loop.sock_sendall(self.client, view[: max(count // 2, 1)])
                    return
            self.proxy.counts["bytes"] += count
            await pace.take(count)
            await loop.sock_sendall(self.client, view[:count])

    def begin_request(self, head: bytes) -> None:
        self.asking = True
        self.noted = None
        if len(self.proxy.timeline) < NOTED:
            self.noted = Request(line_of(head), time.monotonic())
            self.proxy.timeline.append(self.noted)
        self.fault = self.proxy.fault_of(head)
        self.proxy.counts["requests"] += 1
        self.proxy.kinds[kind_of(head)] += 1
        if self.fault:
            self.proxy.counts[self.fault] += 1

    async def wait_for_first_byte(self) -> None:
        shape = self.proxy.shape
        if shape.ttfb_ms:
            median = shape.ttfb_ms / 1000
            await asyncio.sleep(median * self.proxy.dice.lognormvariate(0, shape.jitter))
        if self.fault == "stall":
            await asyncio.sleep(shape.stall_s)

    async def deliver_late(self, request: bytes) -> None:
        """Take the whole request, leave the client alone with it, and then pass it on."""
        loop = asyncio.get_running_loop()
        head, _, body = request.partition(b"\r\n\r\n")
        if b"\nexpect: 100-continue" in head.lower():
            await loop.sock_sendall(self.client, b"HTTP/1.1 100 Continue\r\n\r\n")
        found = re.search(rb"\ncontent-length: *([0-9]+)", head.lower())
        left = (int(found[1]) if found else 0) - len(body)
        while left > 0 and (more := await loop.sock_recv(self.client, CHUNK)):
            request += more
            left -= len(more)
        line = head.partition(b"\r\n")[0]
        overtaken = left <= 0 and self.fault == "overtaken"
        self.proxy.overtaken[line] += overtaken
        reset(self.client)
        if left <= 0:
            await self.hold()
            self.proxy.overtaken[line] -= overtaken
            await loop.sock_sendall(self.store, request)
            await asyncio.sleep(self.proxy.shape.late_s)  # while the store answers nobody

    async def hold(self) -> None:
        until = self.proxy.shape.late_until
        if not until:
            await asyncio.sleep(self.proxy.shape.late_s)
        while until and not os.path.exists(until):
            await asyncio.sleep(0.01)

    async def turn_away(self, answer: bytes) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self.proxy.shape.ttfb_ms / 1000)
        await loop.sock_sendall(self.client, answer)
        self.client.shutdown(socket.SHUT_WR)
        with contextlib.suppress(asyncio.TimeoutError):  # let it read that before the close
            await asyncio.wait_for(self.drain(), 0.5)

    async def drain(self) -> None:
        while await asyncio.get_running_loop().sock_recv(self.client, CHUNK):
            pass


def reset(end: socket.socket) -> None:
    """Close with RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.close()


class Shaped:
    """A running proxy: `endpoint` in place of the store's, and what has happened so far."""

    def __init__(self, port: int, counts: Path) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self._counts = counts

    def counts(self) -> dict[str, int]:
        """Connections, requests and faults until now."""
        found: dict[str, int] = self._told()["counts"]
        return found

    def kinds(self) -> dict[str, int]:
        """How many requests there were of each kind, such as "PUT", and "COPY" by S3's header."""
        found: dict[str, int] = self._told()["kinds"]
        return found

    def timeline(self) -> list[Request]:
        """The first requests that were answered, in the order in which they came."""
        noted = [Request(**each) for each in self._told()["timeline"]]
        return [each for each in noted if each.answered is not None]

    def _told(self) -> dict[str, Any]:
        now = time.time_ns()
        while self._counts.stat().st_mtime_ns <= now:
            time.sleep(0.02)
        found: dict[str, Any] = json.loads(self._counts.read_text())
        return found


@contextlib.contextmanager
def shaped(endpoint: str, **shape: Any) -> Iterator[Shaped]:
    """A proxy in front of ``http://127.0.0.1:PORT``, in its own process, while the block runs."""
    target, port = int(endpoint.rstrip("/").rpartition(":")[2]), free_port()
    with tempfile.TemporaryDirectory() as folder:
        counts = Path(folder) / "counts.json"
        argv = [sys.executable, "-m", "tests.servers.shaping_proxy", str(port), str(target)]
        for name, value in dataclasses.asdict(Shape(**shape)).items():
            argv += [f"--{name.replace('_', '-')}", str(value)]
        with running([*argv, "--counts", str(counts)], port=port):
            while not counts.exists():
                time.sleep(0.02)
            yield Shaped(port, counts)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("listen", type=int)
    parser.add_argument("target", type=int)
    parser.add_argument("--counts", type=Path, help="a file to keep counts in, as JSON")
    for field in dataclasses.fields(Shape):
        kind = type(field.default)
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
    return parser.parse_args()


async def keep_counts(proxy: Proxy, path: Path) -> None:
    while True:
        fresh = path.with_suffix(".new")
        noted = [dataclasses.asdict(each) for each in proxy.timeline]
        told = {"counts": proxy.counts, "kinds": proxy.kinds, "timeline": noted}
        fresh.write_text(json.dumps(told))
        fresh.replace(path)
        await asyncio.sleep(0.1)


async def main() -> None:
    given = vars(arguments())
    listen, target, counts = (given.pop(name) for name in ("listen", "target", "counts"))
    proxy = Proxy(target, Shape(**given))
    work = [proxy.serve(listen)] + ([keep_counts(proxy, counts)] if counts else [])
    serving = asyncio.gather(*work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await serving


if __name__ == "__main__":
    asyncio.run(main())

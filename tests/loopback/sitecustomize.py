"""No Python process of the tests talks to any address but this machine's own.

`block` adds an audit hook, which hears of each connection and look-up that Python's sockets make
and which nothing can remove. Python imports a module of this name when it starts: with this folder
on PYTHONPATH the children of the tests, and theirs, are blocked too.

What does not go through Python's sockets (obstore, gRPC) is led into the trap by the proxy
environment: see `tests/servers/trap.py`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

TRAP = "TFIO_STORE_TESTS_TRAP"
"""The environment variable with the trap's port on 127.0.0.1."""

LOOPBACK_NAMES = frozenset({"", "localhost", "0.0.0.0", "::", "::1"})
CONNECTS = frozenset({"socket.connect", "socket.sendto", "socket.sendmsg"})
LOOKS_UP = frozenset({"socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"})


def is_loopback(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode(errors="replace")
    return host is None or (
        isinstance(host, str)
        and (host in LOOPBACK_NAMES or host.startswith(("127.", "::ffff:127.")))
    )


def is_address(host: object) -> bool:
    """Whether nobody is asked for what ``host`` means. Names in ``.invalid`` are reserved to mean
    nothing."""
    return isinstance(host, str) and (host.replace(".", "").isdigit() or host.endswith(".invalid"))


def hook(event: str, args: tuple[Any, ...]) -> None:
    if event in CONNECTS:
        address = args[1]
        if isinstance(address, tuple) and not is_loopback(address[0]):
            refuse(f"{event} {address[0]}:{address[1]}")
    elif event in LOOKS_UP and not is_loopback(args[0]) and not is_address(args[0]):
        refuse(f"{event} {args[0]}")


def refuse(attempt: str) -> None:
    """Tell the trap, which tells the test that is running: who made the attempt may swallow this
    error, and may be another process."""
    import socket

    port = os.environ.get(TRAP)
    if port:
        with socket.create_connection(("127.0.0.1", int(port)), timeout=10) as trap:
            trap.sendall(f"BLOCKED {attempt}\r\n\r\n".encode())
            trap.recv(1)
    raise PermissionError(f"the tests talk to loopback addresses only: {attempt}")


def block() -> None:
    sys.addaudithook(hook)


if TRAP in os.environ:
    block()

"""Runs the server on this machine's own address, until it is told to end."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import uvicorn

from tfio_store.show.server.answers import Answers
from tfio_store.show.server.app import app_of
from tfio_store.show.server.connections import Connection
from tfio_store.show.server.gate import Gate

__all__ = ["Running", "serving"]

_ADDRESS = "127.0.0.1"
_CONNECTIONS = 64
_LONGEST_HEAD = 16 << 10
_PATIENCE = 0.3
"""Seconds that answers under way have at the end."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server at work. ``url`` has the token in it."""

    port: int
    url: str
    gate: Gate
    thread: threading.Thread

    def url_for_once(self) -> str:
        """An address that works once."""
        return _url(self.port, self.gate.once())

    def wait(self) -> None:
        """Until the server ends, or a signal does."""
        while self.thread.is_alive():
            self.thread.join(1)


@contextlib.contextmanager
def serving(answers: Answers, *, port: int = 0) -> Iterator[Running]:
    """Serve while the block runs. ``port`` 0: any that is free.

    OSError if the port is taken, or may not be used.
    """
    with _listening(port) as listener:
        port, token = listener.getsockname()[1], secrets.token_urlsafe(32)
        gate = Gate(app_of(answers), port=port, token=token)
        server = uvicorn.Server(_config(gate))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        answers.begin()
        try:
            yield Running(port, _url(port, token), gate, thread)
        finally:
            server.should_exit = server.force_exit = True
            thread.join(_PATIENCE)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_ADDRESS, port))
    except OSError as error:
        reason = f"port {port} cannot be used: {error.strerror}; choose another, or 0 for any"
        raise OSError(error.errno, reason) from error


def _url(port: int, token: str) -> str:
    return f"http://{_ADDRESS}:{port}/?token={token}"


def _config(gate: Gate) -> uvicorn.Config:
    return uvicorn.Config(
        gate,
        access_log=False,  # its lines would show the token
        log_config=None,
        log_level="critical",
        lifespan="off",
        http=Connection,
        ws="none",
        proxy_headers=False,  # nobody but this machine asks
        server_header=False,
        limit_concurrency=_CONNECTIONS,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_graceful_shutdown=1,
    )

"""Tests that reach for any address but loopback fail, whatever makes the connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.trap import Trap

REPOSITORY = Path(__file__).parents[1]
CHILD = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=1)"


def test_a_connection_elsewhere_is_refused_and_noted(outside: Trap) -> None:
    with pytest.raises(PermissionError, match="loopback addresses only"):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
    assert outside.attempts() == ["BLOCKED socket.connect 192.0.2.1:80"]


def test_a_look_up_is_refused_and_noted(outside: Trap) -> None:
    with pytest.raises(PermissionError, match="loopback addresses only"):
        socket.getaddrinfo("bucket.s3.example.com", 443)
    assert outside.attempts() == ["BLOCKED socket.getaddrinfo bucket.s3.example.com"]


def test_asyncio_is_refused_too(outside: Trap) -> None:
    with pytest.raises(PermissionError):
        asyncio.run(asyncio.wait_for(asyncio.open_connection("192.0.2.1", 443), 5))
    assert outside.attempts() == ["BLOCKED socket.connect 192.0.2.1:443"]


@pytest.mark.parametrize("grandchild", [False, True])
def test_children_are_blocked(outside: Trap, grandchild: bool) -> None:
    nested = f"import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-c', {CHILD!r}]))"
    code = nested if grandchild else CHILD
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == 1
    assert b"loopback addresses only" in done.stderr
    assert outside.attempts() == ["BLOCKED socket.connect 192.0.2.1:80"]


def test_obstore_walks_into_the_trap(outside: Trap) -> None:
    obstore = pytest.importorskip("obstore")
    from obstore.store import S3Store

    store = S3Store("bucket", config={"region": "eu-west-1", "skip_signature": True},
                    retry_config={"max_retries": 0})  # fmt: skip
    with pytest.raises(Exception, match="HTTP error"):
        obstore.get(store, "x")
    assert outside.attempts() == ["CONNECT s3.eu-west-1.amazonaws.com:443 HTTP/1.1"]


SWALLOWS = """
import contextlib, socket

def test_it():
    with contextlib.suppress(OSError):
        socket.create_connection(("192.0.2.1", 80), timeout=1)
"""


def test_a_swallowed_attempt_fails_the_test(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import loopback_only, outside\n")
    (tmp_path / "test_it.py").write_text(SWALLOWS)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    # The options of the suite's own run, such as a second chance, would change what is printed.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        argv, capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment
    )
    assert "1 passed, 1 error" in done.stdout
    assert "BLOCKED socket.connect 192.0.2.1:80" in done.stdout


def test_this_machine_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        for host in ("127.0.0.1", "localhost"):
            stack.enter_context(socket.create_connection((host, server.getsockname()[1])))

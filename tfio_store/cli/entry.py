"""Where the command `tfio-store` begins, and how it ends. It imports click when it is there."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType
from typing import NoReturn

from tfio_store.cli.exits import INTERRUPTED, USAGE

__all__ = ["main", "script"]

_PATIENCE = 0.8
"""Seconds that an interrupted command has to take back what it began."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The answer is its exit code; ``arguments`` default to the process's."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        needed = " and ".join(missing)
        print(f"tfio-store: needs {needed}: pip install 'tfio-store[cli]'", file=sys.stderr)
        return USAGE
    from tfio_store.cli.program import run

    return run(sys.argv[1:] if arguments is None else arguments)


def script() -> NoReturn:
    """The process's entry point. Control-C ends it within a second, whatever waits."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    _speak_utf8()
    code = main()
    if code == INTERRUPTED:
        _leave()
    sys.exit(code)


def _speak_utf8() -> None:
    """JSON in a pipe is UTF-8, whatever the locale; names of files may hold other bytes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="surrogateescape")


def _interrupt(number: int, frame: FrameType | None) -> None:
    watchdog = threading.Timer(_PATIENCE, _leave)
    watchdog.daemon = True
    watchdog.start()
    raise KeyboardInterrupt


def _leave() -> NoReturn:
    """End without waiting for threads that wait for a store."""
    sys.stderr.flush()
    os._exit(INTERRUPTED)

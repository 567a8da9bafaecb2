"""Where the command `tfio-store` begins, and how it ends. It imports click when it is there."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType
from typing import Any, NoReturn

from tfio_store.cli import USAGE, Signalled, of_signal

_PATIENCE = 0.8
"""Seconds that a command has to take back what it began, once it must end."""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. The answer is its exit code; ``arguments`` default to the process's."""
    missing = [name for name in ("click", "rich") if find_spec(name) is None]
    if missing:
        needed = " and ".join(missing)
        print(f"tfio-store: needs {needed}: pip install 'tfio_store[cli]'", file=sys.stderr)
        return USAGE
    from tfio_store.cli.program import run

    return run(sys.argv[1:] if arguments is None else arguments)


def script() -> NoReturn:
    """The process's entry point. Control-C or kill ends it within a second, whatever waits."""
    for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, _end)
    _have_streams()
    try:
        code = main()
    except Signalled as ended:  # while modules are imported, or once more
        code = of_signal(ended.number)
    if code > of_signal(0):
        _leave(code)
    sys.exit(code)


def _have_streams() -> None:
    """JSON in a pipe is UTF-8, whatever the locale; names of files may hold other bytes.

    Of streams that the shell closed, each gets its number again, in this order, so that no file
    that is written gets it, and with it what somebody prints. As for any program, what is printed
    to a closed output is an error.
    """
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115
    sys.stdout = sys.stdout or open(os.open(os.devnull, os.O_RDONLY), "w")  # noqa: SIM115
    errors = _Lossy(2 if sys.stderr else os.open(os.devnull, os.O_WRONLY), "w", closefd=False)
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(errors), line_buffering=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="backslashreplace")
            else:
                stream.reconfigure(encoding="utf-8", errors="surrogateescape")


class _Lossy(io.FileIO):
    """Standard error. What it can't take is not said: a command does its work, and ends with the
    code that says so, where the disk behind its messages is full or their reader is gone."""

    def write(self, data: Any) -> int:
        with contextlib.suppress(OSError):
            return super().write(data)
        return len(data)


def _end(number: int, frame: FrameType | None) -> None:
    watchdog = threading.Timer(_PATIENCE, _leave, [of_signal(number)])
    watchdog.daemon = True
    watchdog.start()
    raise Signalled(number)


def _leave(code: int) -> NoReturn:
    """End without waiting for threads that wait for a store."""
    sys.stderr.flush()
    os._exit(code)

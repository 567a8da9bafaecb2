"""Shows on stderr how far a command is."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tfio_store.cli.failures import FORMAT, VERSION

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID

    from tfio_store.cli.options import Session
    from tfio_store.write.progress import Progress

__all__ = ["progress"]

_FIRST = 1.0
"""Seconds after which a bar appears."""

_EVERY = 0.5
"""Seconds between two JSON lines."""


@contextlib.contextmanager
def progress(session: Session) -> Iterator[Callable[[Progress], object] | None]:
    """The value for ``on_progress=`` of a function of the library; None if nothing is to be
    shown."""
    if session.quiet or session.progress == "none":
        yield None
    elif session.progress == "json":
        lines = _Lines(session.command)
        yield lines
        lines.end()
    elif sys.stderr.isatty():
        bar = _Bar(session.command)
        try:
            yield bar
        finally:
            bar.end()
    else:
        yield None


class _Lines:
    """JSON lines, the last of them at the end."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._begun = self._told = time.monotonic()
        self._last: Progress | None = None

    def __call__(self, now: Progress) -> None:
        self._last = now
        if time.monotonic() - self._told >= _EVERY:
            self.end()

    def end(self) -> None:
        if self._last is None:
            return
        self._told = time.monotonic()
        document = {
            "format": FORMAT,
            "version": VERSION,
            "command": self._command,
            "progress": {
                "records": self._last.records,
                "nbytes": self._last.nbytes,
                "whole": self._last.whole,
                "shards": self._last.shards,
                "whole_shards": self._last.whole_shards,
                "seconds": round(self._told - self._begun, 3),
            },
        }
        print(json.dumps(document), file=sys.stderr, flush=True)
        self._last = None


class _Bar:
    """A bar that appears once the command takes longer than a moment."""

    def __init__(self, command: str) -> None:
        self._command = command
        self._begun = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None

    def __call__(self, now: Progress) -> None:
        seconds = time.monotonic() - self._begun
        if seconds < _FIRST:
            return
        if self._bar is None:
            self._bar = _made()
            self._task = self._bar.add_task(self._command, total=None, speed="")
            self._bar.start()
        speed = f"{now.nbytes / seconds / 1e6:,.0f} MB/s, {now.records / seconds:,.0f} records/s"
        assert self._task is not None
        done, whole = now.records, now.whole
        if whole is None and now.whole_shards is not None:
            done, whole = now.shards, now.whole_shards
        self._bar.update(self._task, completed=done, total=whole, speed=speed)

    def end(self) -> None:
        if self._bar is not None:
            self._bar.stop()


def _made() -> Bar:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )

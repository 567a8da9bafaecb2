"""Prints: lines, JSON documents, tables, and bytes."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfio_store.cli.failures import OutputClosedError, document_of, for_stream, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bar, TaskID

    from tfio_store.cli.options import Session
    from tfio_store.write.progress import Progress


_WIDE = 1 << 14
"""Columns of what is no terminal, so that nothing is cut."""


_GAP = "  "
"""Between columns of a table."""


def is_terminal() -> bool:
    return sys.stdout.isatty()


@contextlib.contextmanager
def without_reader() -> Iterator[None]:
    """A pipe that is no longer read is distinguished from a connection that breaks, and a full disk
    behind the output from one behind a target."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # or the interpreter complains at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise OutputClosedError from None
        raise OSError(error.errno, error.strerror, "standard output") from error


def line(text: str) -> None:
    lines(text + "\n")


def lines(text: str) -> None:
    with without_reader():
        sys.stdout.write(for_stream(text, sys.stdout))


def message(text: str) -> None:
    """A line on stderr, for a command whose output is what it makes."""
    print(for_stream(text, sys.stderr), file=sys.stderr)


def raw(data: bytes) -> None:
    with without_reader():
        sys.stdout.buffer.write(data)


def document(command: str, content: Mapping[str, Any]) -> None:
    """Print the one JSON document of a command."""
    line(json.dumps(document_of(command, content), default=_json, ensure_ascii=False))


def _json(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if hasattr(value, "to_json"):
        return value.to_json()
    return list(value)


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print aligned columns; those of ``right`` hold numbers. A terminal cuts what is too long."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    most = _column_width(header, rows, Console().width) if is_terminal() else None
    made = Table(box=None, pad_edge=False, header_style="bold")
    for i, name in enumerate(header):
        side: Any = "right" if i in right else "left"
        made.add_column(Text(printable(name)), justify=side, no_wrap=True, max_width=most)
    for row in rows:
        made.add_row(*(Text(printable(cell), no_wrap=True) for cell in row))
    if is_terminal():
        with without_reader():
            Console(soft_wrap=False).print(made)
        return
    text = io.StringIO()
    Console(file=text, width=_WIDE, color_system=None).print(made)
    for each in text.getvalue().splitlines():
        line(each.rstrip())


def _column_width(header: Sequence[str], rows: Sequence[Sequence[str]], room: int) -> int:
    """The width that a column may take of a terminal, so that only the longest columns are cut."""
    from rich.cells import cell_len

    widths = sorted(max(map(cell_len, column)) for column in zip(header, *rows, strict=True))
    room -= len(_GAP) * (len(widths) - 1)
    for left, width in zip(range(len(widths), 0, -1), widths, strict=True):
        if width * left > room:
            return max(1, room // left)
        room -= width
    return max(widths, default=1)


def human_bytes(nbytes: int) -> str:
    """As 1.4 GiB."""
    if nbytes < 1024:
        return f"{nbytes} B"
    value, units = nbytes / 1024, ("KiB", "MiB", "GiB", "TiB")
    for unit in units:
        if value < 1024 or unit == units[-1]:
            break
        value /= 1024
    return f"{value:.1f} {unit}"


# How far a command is, on stderr.


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
        found = {
            "records": self._last.records,
            "nbytes": self._last.nbytes,
            "whole": self._last.whole,
            "shards": self._last.shards,
            "whole_shards": self._last.whole_shards,
            "seconds": round(self._told - self._begun, 3),
        }
        told = document_of(self._command, {"progress": found})
        print(json.dumps(told), file=sys.stderr, flush=True)
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

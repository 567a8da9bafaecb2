"""What ``-`` means: standard input in the place of a source, and standard output in that of a file
that is written.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, BinaryIO

import click

from tfio_store.cli import output
from tfio_store.cli.options import STREAM, Source


class Printed(io.RawIOBase):
    """Standard output as a file that is written. A terminal gets text that it does not act on."""

    name = "standard output"

    def __init__(self) -> None:
        super().__init__()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        kept = bytes(data)  # which the caller may change
        if output.is_terminal():
            output.lines(self._text.decode(kept))
        else:
            output.raw(kept)
        return len(kept)


def opened_target(target: str, form: str | None, *, as_json: bool) -> Any:
    """The target, or standard output if that is named."""
    if target != STREAM:
        return target
    if as_json:
        raise click.UsageError("--json prints the facts: it does not go with - as TARGET")
    if form is None:
        raise click.UsageError("say what to print, such as --to csv")
    return Printed()


def opened_source(source: Source) -> Source | BinaryIO:
    """The source, or standard input if that is named."""
    if source == STREAM:
        return sys.stdin.buffer
    if not isinstance(source, str) and STREAM in source:
        raise click.UsageError("- is read by itself: name no other source beside it")
    return source


@contextlib.contextmanager
def kept_input(sources: Source, form: str | None) -> Iterator[Source]:
    """The sources, of which standard input is kept in a file for as long as it is needed: tables
    are read twice."""
    names = [sources] if isinstance(sources, str) else list(sources)
    if STREAM not in names:
        yield sources
        return
    if form is None:
        raise click.UsageError("say what standard input is, such as --from csv")
    if names.count(STREAM) > 1:
        raise click.UsageError("standard input can be read once: leave one - out")
    with tempfile.TemporaryDirectory(prefix="tfio-store-") as folder:
        path = os.path.join(folder, "stdin")
        with open(path, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        named = tuple(path if name == STREAM else name for name in names)
        yield named[0] if len(named) == 1 else named

"""What a command says and answers when it fails."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

import click

from tfio_store.cli.exits import DAMAGED, INTERNAL, NO_DATASET, NOT_THERE, STORE_FAILED, USAGE
from tfio_store.cli.terminal import for_stream
from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    ManifestError,
    NoRecordsError,
    RecordTooLargeError,
    SchemaError,
)
from tfio_store.storage.redaction import redacted

__all__ = ["FORMAT", "VERSION", "OutputClosedError", "exit_code", "tell"]

FORMAT, VERSION = "tfio_store.cli", 1
"""Of every JSON document that a command prints."""


_OF_THE_USER = re.compile(r"feature '|feature names|column|\w=|schema|argument|storage_options|URL")
"""What a TypeError speaks of that data or options cause. Others are ours."""


class OutputClosedError(Exception):
    """Nobody reads what is printed any more."""


def exit_code(error: BaseException) -> int:
    """The exit code that an error means."""
    if isinstance(error, DataLossError):
        return NO_DATASET if _is_something_else(error) else DAMAGED
    if isinstance(error, ManifestError | SchemaError | NoRecordsError | RecordTooLargeError):
        return NO_DATASET
    if isinstance(error, FileExistsError | click.UsageError):
        return USAGE
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
        return NOT_THERE
    if isinstance(error, NotADirectoryError):
        return NOT_THERE
    if isinstance(error, OSError):
        return STORE_FAILED
    if isinstance(error, ValueError | LookupError | ImportError):
        return USAGE
    if isinstance(error, TypeError) and _OF_THE_USER.search(str(error)):
        return USAGE
    return INTERNAL


def _is_something_else(error: DataLossError) -> bool:
    """Whether the file holds no TFRecords, or the record is no Example, rather than damage."""
    if not isinstance(error, CorruptRecordError):
        return "looks like" in error.reason
    no_example = "neither a tf.train.Example" in error.reason
    return no_example or "not a tf.train.Example" in error.reason or _no_frame(error)


def _no_frame(error: CorruptRecordError) -> bool:
    return error.offset == 0 and "checksum of a record's length" in error.reason


def tell(error: BaseException, command: str, *, as_json: bool, speak: Callable[[str], str]) -> None:
    """Say on stderr, in one line, what happened, where, and what to do. ``speak`` puts the words of
    the library into those of the command."""
    text = speak(redacted(_text(error)))
    if not as_json:
        said = f"tfio-store{f' {command}' if command else ''}: {text}"
        print(for_stream(said, sys.stderr), file=sys.stderr)
        return
    offset = getattr(error, "offset", None)
    path = getattr(error, "path", None) or getattr(error, "filename", None)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "command": command,
        "error": {
            "kind": type(error).__name__,
            "message": text,
            "path": path if path is None else redacted(str(path)),
            "offset": None if offset == -1 else offset,
            "exit_code": exit_code(error),
        },
    }
    print(json.dumps(document, default=str), file=sys.stderr)


def _text(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}"
    else:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    if exit_code(error) == INTERNAL:
        return f"{type(error).__name__}: {text} (a fault of this program; --debug shows where)"
    return text

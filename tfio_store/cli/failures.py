"""The errors of commands, in the words of the shell."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click

from tfio_store.cli import DAMAGED, INTERNAL, NO_DATASET, NOT_THERE, STORE_FAILED, USAGE
from tfio_store.errors import (
    DataLossError,
    ManifestError,
    NoRecordsError,
    Reason,
    RecordTooLargeError,
    SchemaError,
    printable as without_orders,
)
from tfio_store.storage.redaction import redacted

# Text that a terminal may be sent: no character of a dataset moves its cursor or renames its
# window.


def printable(text: str) -> str:
    """``text`` with a sign in place of each character that a terminal would act on."""
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in text)


def for_stream(text: str, stream: Any) -> str:
    """Lines as ``stream`` may have them: made `printable` if it is a terminal. Tabs, which part
    what a line holds, stay. What the stream cannot encode is escaped, as in JSON."""
    shown = without_orders(text) if stream.isatty() else text
    if stream.errors != "strict":
        return shown
    encoding = stream.encoding or "utf-8"
    return shown.encode(encoding, "backslashreplace").decode(encoding)


# Errors of the library in the words of the shell: options, not arguments of Python.


_OTHER_NAMES = {
    "target_compression": "compression",
    "sample_bytes": "sample",
    "dry_run": "yes",
}
"""Arguments of the library, and the parameters of commands that set them."""

_COMMANDS = {
    "RecordReader": "cat --raw",
    "ShardedWriter": "copy",
    "build_index": "index",
    "infer_schema": "schema",
    **{name: name for name in ("clean", "convert", "copy", "count", "salvage", "verify")},
}
"""Functions of the library, and the commands that do the same."""

_ASSIGNED = re.compile(r"""(?<![^\s(;,])([a-z_]+)=(\{[^{}]*\}|"[^"]*"|'[^']*'|[\w.-]*)""")
_NAMED = re.compile(r"(?<![^\s(;,])([a-z]+_[a-z_]+)(?=[\s,;:)]|$)")
_CALLED = re.compile(
    r"(?<![^\s(;,])(?:tfio_store\.)?(?:([a-z_]+)\(\)|(RecordReader|ShardedWriter|build_index))"
    r"(?=[\s,;:.)]|$)"
)


def in_the_shell(text: str, command: click.Command | None) -> str:
    """``text`` with what one types for each argument and function that it names."""
    typed = _typed(command.params if command is not None else ())

    def assigned(found: re.Match[str]) -> str:
        name, value = found[1], found[2].strip("\"'")
        if name not in typed:
            return found[0]
        if value.startswith("{"):
            try:
                value = json.dumps(ast.literal_eval(value), default=lambda _: "...")
            except SyntaxError:
                return found[0]
        return typed[name] if value in ("", "True") else f"{typed[name]} {shlex.quote(value)}"

    def named(found: re.Match[str]) -> str:
        return typed.get(found[1], found[0])

    def called(found: re.Match[str]) -> str:
        does = _COMMANDS.get(found[1] or found[2])
        return found[0] if does is None else f"tfio-store {does}"

    return _CALLED.sub(called, _NAMED.sub(named, _ASSIGNED.sub(assigned, text)))


def _typed(params: Iterable[click.Parameter]) -> Mapping[str, str]:
    """The option that one types for each argument of the library's function."""
    by_name = {
        str(param.name): max(param.opts, key=len)
        if isinstance(param, click.Option)
        else param.make_metavar(click.Context(click.Command("")))
        for param in params
    }
    for plural, one in (("sources", "source"), ("urls", "source"), ("url", "source")):
        if plural in by_name:
            by_name[one] = by_name[plural]
    for argument, name in _OTHER_NAMES.items():
        if name in by_name:
            by_name[argument] = by_name[name]
    return by_name


# The error line and the exit code of a command that fails.


def document_of(command: str, content: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON document that a command prints: each has the format and its version."""
    return {"format": "tfio_store.cli", "version": 1, "command": command, **content}


_OF_THE_USER = re.compile(r"feature '|feature names|column|\w=|schema|argument|storage_options|URL")
"""Words of a TypeError that data or options cause. Others are ours."""


class OutputClosedError(Exception):
    """Nobody reads what is printed any more."""


def exit_code(error: BaseException) -> int:
    """The exit code that an error means."""
    if isinstance(error, DataLossError):
        return NO_DATASET if _is_something_else(error) else DAMAGED
    if isinstance(error, ManifestError | SchemaError | NoRecordsError | RecordTooLargeError):
        return NO_DATASET
    if isinstance(error, FileExistsError | click.UsageError) or _is_special(error):
        return USAGE
    if isinstance(
        error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError
    ):
        return NOT_THERE
    if isinstance(error, OSError):
        return STORE_FAILED
    if isinstance(error, ValueError | LookupError | ImportError):
        return USAGE
    if isinstance(error, TypeError) and _OF_THE_USER.search(str(error)):
        return USAGE
    return INTERNAL


def _is_special(error: BaseException) -> bool:
    """Whether a pipe or a device stands where a file should."""
    if not isinstance(error, OSError) or not error.strerror:
        return False
    from tfio_store.storage.local import NOT_REGULAR  # which imports numpy

    return error.strerror.startswith(NOT_REGULAR)


def _is_something_else(error: DataLossError) -> bool:
    """Whether the file holds no TFRecords, or the record is no Example, rather than damage."""
    no_frame = error.offset == 0 and error.kind is Reason.LENGTH_CRC
    return no_frame or error.kind in (Reason.OTHER_FORMAT, Reason.NOT_EXAMPLE)


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
    found = {
        "kind": type(error).__name__,
        "message": text,
        "path": path if path is None else redacted(str(path)),
        "offset": None if offset == -1 else offset,
        "exit_code": exit_code(error),
    }
    print(json.dumps(document_of(command, {"error": found}), default=str), file=sys.stderr)


def _text(error: BaseException) -> str:
    if isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror}"
        if _is_special(error):
            text += (
                "; - is standard input to head, tail, sample, cat and convert, and standard output "
                "to convert"
            )
    else:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    text = " ".join(text.split()) or type(error).__name__
    if exit_code(error) == INTERNAL:
        return f"{type(error).__name__}: {text} (a fault of this program; --debug shows where)"
    return text

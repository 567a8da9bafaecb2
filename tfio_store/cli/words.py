"""Errors of the library in the words of the shell: options, not arguments of Python."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import click

__all__ = ["in_the_shell"]

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

_ASSIGNED = re.compile(r"""(?<![^\s(;,])([a-z_]+)=("[^"]*"|'[^']*'|[\w.-]*)""")
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
        return typed[name] if value in ("", "True") else f"{typed[name]} {value}"

    def named(found: re.Match[str]) -> str:
        return typed.get(found[1], found[0])

    def called(found: re.Match[str]) -> str:
        does = _COMMANDS.get(found[1] or found[2])
        return found[0] if does is None else f"tfio-store {does}"

    return _CALLED.sub(called, _NAMED.sub(named, _ASSIGNED.sub(assigned, text)))


def _typed(params: Iterable[click.Parameter]) -> Mapping[str, str]:
    """What one types for each argument of the library's function."""
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

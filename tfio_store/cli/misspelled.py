"""Guesses at a command, an option or a value that does not exist."""

from __future__ import annotations

import re

import click

from tfio_store.cli.options import COMMON
from tfio_store.records.texts import alike

__all__ = ["in_our_words", "meant_command"]

_COMMANDS = {"ls": "info", "show": "head", "merge": "copy", "reshard": "copy", "repair": "salvage"}
"""Names of commands that other tools have."""

_OPTIONS = {
    "--feature": "--columns",
    "--features": "--columns",
    "--fields": "--columns",
    "--select": "--columns",
    "--limit": "-n",
    "--lines": "-n",
    "--number": "-n",
    "--shards": "--num-shards",
    "--force": "--if-exists overwrite",
    "--overwrite": "--if-exists overwrite",
    "--append": "--if-exists append",
    "--format": "--to",
    "--schema-file": "--schema",
}
"""Names of options that other tools have."""

_NOT_ONE_OF = re.compile(r"'([^']*)' is not one of ")


def meant_command(typed: str, commands: list[str]) -> str:
    """``; did you mean 'verify'?``, or nothing."""
    if typed in _COMMANDS:
        return f"; did you mean {_COMMANDS[typed]!r}?"
    return alike(typed, commands)


def in_our_words(error: click.UsageError) -> str:
    """The text of an error of click, and a guess at what was meant."""
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error)
    text = error.format_message().rstrip(".")
    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    typed = _NOT_ONE_OF.search(text)
    if typed is not None and isinstance(kind, click.Choice):
        return text + alike(typed[1], kind.choices).rstrip("?")
    return text


def _no_such_option(error: click.NoSuchOption) -> str:
    name = error.option_name
    if name[1:2].isdecimal():
        return f"{name} looks like an option; put -- before it"
    there = _options(error.ctx)
    if error.ctx is not None and error.ctx.parent is None and name in _common():
        return f"{name} stands after the command: tfio-store COMMAND {name}"
    said = f"No such option '{name}'"
    usual = _OPTIONS.get(name, "")
    if usual.partition(" ")[0] in there:
        return f"{said}; did you mean {usual}?"
    return said + alike(name, there)


def _options(context: click.Context | None) -> list[str]:
    params = context.command.params if context is not None else []
    return [name for one in params if isinstance(one, click.Option) for name in one.opts]


def _common() -> set[str]:
    made = click.command()(lambda: None)
    for option in COMMON:
        option(made)
    return {name for one in made.params for name in one.opts}

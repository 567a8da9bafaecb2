"""The program: its commands, and what happens around each of them."""

from __future__ import annotations

import logging
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from tfio_store import __version__
from tfio_store.cli import INTERRUPTED, Signalled, failures, of_signal
from tfio_store.cli.failures import for_stream, in_the_shell
from tfio_store.cli.options import COMMON, Session
from tfio_store.cli.output import without_reader
from tfio_store.records.texts import alike

COMMANDS = {
    "info": ("about", "A source's records, bytes, files and schema."),
    "count": ("about", "The number of records."),
    "schema": ("about", "The features, and how many records have them."),
    "stats": ("about", "Each feature's range, quantiles, and what it looks like."),
    "report": ("about", "One page that shows a dataset and its oddities."),
    "head": ("records", "The first records."),
    "tail": ("records", "The last records."),
    "sample": ("records", "Some random records."),
    "cat": ("records", "Every record, as JSON lines."),
    "get": ("records", "The records of numbers such as 0,2:5,-1."),
    "verify": ("health", "Check every checksum, and list each damaged region."),
    "salvage": ("health", "Copy every sound record to a new dataset."),
    "index": ("health", "Index files that other programs wrote."),
    "clean": ("health", "Find and remove leftovers of dead writers."),
    "copy": ("datasets", "Copy: merge, reshard, recompress, shuffle."),
    "diff": ("datasets", "Compare features, counts and records."),
    "convert": ("datasets", "From and to Parquet, CSV, JSON, Arrow, WebDataset."),
    "doctor": ("machine", "Versions, codecs, backends; abilities of a store."),
    "completion": ("machine", "Make a shell complete commands and options."),
}
"""Each command, the module that holds it, and what it does, so that the help imports no module."""


_ALIASES = {"inspect": "info"}
"""Other names that work."""


class _BrokenStoreError(Exception):
    """Its cause says what broke."""


class Program(click.Group):
    """Imports a command when it is asked for. Click takes each broken pipe for that of the output,
    and ends without a word; a store may have broken it."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            if error.filename is None:  # a store's has the URL
                with without_reader():
                    raise
            raise _BrokenStoreError from error

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        args = [_ALIASES.get(args[0], args[0]), *args[1:]]
        meant = "" if args[0] in COMMANDS else meant_command(args[0], [*COMMANDS, *_ALIASES])
        if meant:
            ctx.fail(f"No such command '{args[0]}'{meant}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tfio_store.cli.commands.{COMMANDS[cmd_name][0]}")
        found: click.Command = getattr(module, cmd_name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, does) for name, (_, does) in COMMANDS.items()])


EPILOG = (
    "Exit codes: 0 yes; 1 no: there is damage, or a difference; 2 wrong usage; 3 not found or "
    "forbidden; 4 the store failed after its retries; 5 not TFRecords, Examples or a manifest; "
    "128 and more: ended by a signal, 130 by Control-C."
)


@click.group(
    cls=Program,
    invoke_without_command=True,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, message="%(version)s")
@click.pass_context
def program(ctx: click.Context) -> None:
    """TFRecord datasets on any storage, from a shell.

    A URL is a path or URL of a file, a dataset's prefix or folder, or a name such as train@16,
    'train-*.gz', a,b or '{train,valid}@8'.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command; the answer is its exit code."""
    state: dict[str, Any] = {"session": None}
    # whose clients log at length what the error says in one line
    logging.getLogger("azure").addHandler(logging.NullHandler())
    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = _shown(state)
        try:
            answer = program.main(
                list(arguments), prog_name="tfio-store", standalone_mode=False, obj=state
            )
            with without_reader():
                sys.stdout.flush()
            return answer if isinstance(answer, int) else 0
        except (failures.OutputClosedError, SystemExit):  # by click: the help was not read
            return 0
        except Signalled as signal:
            code = of_signal(signal.number)
            end = "interrupted" if code == INTERRUPTED else "terminated"
            print(f"tfio-store: {end}", file=sys.stderr)
            return code
        except (KeyboardInterrupt, click.Abort):
            print("tfio-store: interrupted", file=sys.stderr)
            return INTERRUPTED
        except Exception as error:
            broken = error.__cause__ if isinstance(error, _BrokenStoreError) else None
            cause = broken if isinstance(broken, Exception) else error
            return _failed(cause, state["session"], arguments)


def _failed(error: Exception, session: Session | None, arguments: Sequence[str]) -> int:
    if "--debug" in arguments:
        sys.stderr.write(for_stream(traceback.format_exc(), sys.stderr))
    command = next((each for each in arguments if each in COMMANDS), "")
    if isinstance(error, click.UsageError):
        name = f"{command} --help" if command else "--help"
        error = click.UsageError(f"{in_our_words(error)} (see tfio-store {name})")
    as_json = session.json if session is not None else "--json" in arguments
    found = program.get_command(click.Context(program), command)
    failures.tell(error, command, as_json=as_json, speak=lambda text: in_the_shell(text, found))
    return failures.exit_code(error)


def _shown(state: dict[str, Any]) -> Any:
    """Make the function that Python calls with a warning: ours become a line on stderr."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        session = state["session"]
        if issubclass(category, RuntimeWarning) and not (session and session.quiet):
            command = session.command if session else ""
            text = in_the_shell(str(message), program.get_command(click.Context(program), command))
            said = f"tfio-store: warning: {text}"
            print(for_stream(said, sys.stderr), file=sys.stderr)

    return show


# Guesses at a command, an option or a value that does not exist.


_MEANT_COMMANDS = {
    "ls": "info",
    "show": "head",
    "merge": "copy",
    "reshard": "copy",
    "repair": "salvage",
}
"""Names of commands that other tools have."""

_MEANT_OPTIONS = {
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
    if typed in _MEANT_COMMANDS:
        return f"; did you mean {_MEANT_COMMANDS[typed]!r}?"
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
    usual = _MEANT_OPTIONS.get(name, "")
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

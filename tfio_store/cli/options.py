"""The options that all commands take."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from tfio_store.storage import Storage

Command = Callable[..., Any]


@dataclass(frozen=True)
class Session:
    """One run of a command: how it reaches storage, and how it prints."""

    command: str
    storage: Storage
    json: bool
    quiet: bool
    progress: str

    def storage_of(self, options: dict[str, Any] | None) -> Storage | None:
        """The storage of other options, where some are typed."""
        return None if options is None else replace(self.storage, options=options)


def common(function: Command) -> Command:
    """Gives a command the common options, and hands it a `Session` as its first argument."""
    return _with_session(function, COMMON)


def common_with_output(function: Command) -> Command:
    """The same for a command whose ``-o`` is its output: storage options have their long name."""
    return _with_session(function, (_storage_options("--storage-options"), *COMMON[1:]))


def _with_session(function: Command, given: Sequence[Command]) -> Command:

    @functools.wraps(function)
    def with_session(
        *arguments: Any,
        storage_options: dict[str, Any] | None,
        backend: str,
        as_json: bool,
        quiet: bool,
        progress: str,
        **options: Any,
    ) -> Any:
        name = click.get_current_context().info_name or ""
        named = _flat(options.get(each) for each in _NAMES if (name, each) not in _PRINTED)
        if name not in _OF_STREAMS and STREAM in named:
            raise click.UsageError(
                "- is standard input to convert, head, tail, sample and cat alone; write a file "
                "and name it, or type ./- for a file of that name"
            )
        storage = Storage(storage_options, backend=backend)
        session = Session(name, storage, as_json, quiet, progress)
        click.get_current_context().find_root().obj["session"] = session
        return function(session, *arguments, **options)

    for option in reversed(given):
        with_session = option(with_session)
    return with_session


STREAM = "-"
"""Standard input or output, in the place of a name."""

_OF_STREAMS = ("convert", "head", "tail", "sample", "cat")
"""Commands that take standard input for a source."""

_NAMES = ("url", "urls", "sources", "source", "other", "target")
"""Parameters that name a place."""

_PRINTED = [("report", "target")]
"""Commands that take standard output for what they write, and the parameters that say so."""


def _flat(values: Iterable[Any]) -> list[Any]:
    return [one for each in values for one in (each if isinstance(each, tuple) else (each,))]


Source = str | tuple[str, ...]


def _one_or_all(context: object, argument: object, typed: tuple[str, ...]) -> Source:
    """What the library's functions take: a name by itself, or several."""
    return typed[0] if len(typed) == 1 else typed


urls = click.argument("urls", nargs=-1, required=True, metavar="URL...", callback=_one_or_all)
sources = click.argument(
    "sources", nargs=-1, required=True, metavar="SOURCE...", callback=_one_or_all
)


def examples(*lines: str) -> str:
    """The end of a command's help: what one may type."""
    return "\n".join(["\b", "Examples:", *(f"  tfio-store {line}" for line in lines)])


def _storage_options(
    *names: str,
    text: str = "Options of the storage's fsspec class, such as endpoint_url=http://host:9000. May "
    "be given more than once.",
) -> Command:
    return click.option(
        *names,
        multiple=True,
        callback=lambda context, option, texts: parse_options(texts, names[-1]),
        metavar="KEY=VALUE|JSON|@FILE",
        help=text,
    )


def options_of_another(name: str, whose: str, otherwise: str = "the source") -> Command:
    """The option of a second storage of a command."""
    text = f"Like --storage-options, for {whose}. Default: those of {otherwise}."
    return _storage_options(name, text=text)


COMMON = (
    _storage_options("-o", "--storage-options"),
    click.option(
        "--backend",
        type=click.Choice(["auto", "obstore", "fsspec"]),
        default="auto",
        show_default=True,
        help="The client that reads S3, GCS and Azure.",
    ),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    click.option("-q", "--quiet", is_flag=True, help="Print neither progress nor warnings."),
    click.option(
        "--progress",
        type=click.Choice(["auto", "json", "none"]),
        default="auto",
        show_default=True,
        help="Progress on stderr: a bar on a terminal, or JSON lines.",
    ),
    # looked for where an error ends the command, perhaps before its options are known
    click.option(
        "--debug", is_flag=True, expose_value=False, help="Show the traceback of an error."
    ),
)


class _Compression(click.Choice[str]):
    """The name of a codec, none or same. The table of codecs imports numpy, so it is read late."""

    def __init__(self) -> None:
        super().__init__((), case_sensitive=False)

    @property
    def choices(self) -> tuple[str, ...]:
        from tfio_store.records.compression import CODECS

        return ("same", "none", *CODECS)

    @choices.setter
    def choices(self, given: Sequence[str]) -> None:
        """click sets what it was given."""


_TARGET = (
    click.option(
        "--compression",
        type=_Compression(),
        default="same",
        show_default=True,
        help="The target's compression. same means that of the source, and none for a table.",
    ),
    click.option(
        "--if-exists",
        type=click.Choice(["error", "overwrite", "append"]),
        default="error",
        show_default=True,
        help="What to do if the target exists.",
    ),
    options_of_another("--target-options", "the target"),
)


def into_target(function: Command) -> Command:
    """Gives a command that writes a dataset the options of its target, as arguments of the
    library's functions."""

    @functools.wraps(function)
    def with_target(
        *arguments: Any,
        compression: str,
        if_exists: str,
        target_options: dict[str, Any] | None,
        **options: Any,
    ) -> Any:
        return function(
            *arguments,
            target_compression=None if compression == "none" else compression,
            if_exists=if_exists,
            target_storage=None
            if target_options is None
            else Storage(target_options, backend=options["backend"]),
            **options,
        )

    for option in reversed(_TARGET):
        with_target = option(with_target)
    return with_target


def parse_options(
    texts: tuple[str, ...], option: str = "--storage-options"
) -> dict[str, Any] | None:
    """The storage options that were typed. UsageError for what is none; it does not show values."""
    found: dict[str, Any] = {}
    for text in texts:
        if text.startswith("@"):
            text = _file(text[1:], option)
        if text.lstrip().startswith("{"):
            found |= _json(text, option)
            continue
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} takes KEY=VALUE, a JSON object, or @FILE")
        found[key] = _value(value)
    return found or None


def features(context: object, option: object, text: str | None) -> dict[str, Any] | None:
    """A schema that is typed as JSON, or lies in a file; also the document of `schema --json`."""
    if text is None:
        return None
    found = _json(_file(text[1:], "--schema") if text.startswith("@") else text, "--schema")
    inner = found.get("schema")
    if isinstance(inner, dict) and "format" in found:
        return inner
    return {
        name: (feature[0], tuple(feature[1])) if isinstance(feature, list) else feature
        for name, feature in found.items()
    }


def _file(path: str, option: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option}: {path} cannot be read: {error}") from error


def _json(text: str, option: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise click.UsageError(f"{option}: this is no JSON object") from None
    return found


def _value(text: str) -> Any:
    """Text, but for true, false, null, and what is written as a JSON object or list."""
    if text in ("true", "false", "null") or text[:1] in ("{", "["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text


def character(context: object, option: object, text: str | None) -> str | None:
    """What was typed; a tab for what stands for one."""
    return "\t" if text == "\\t" else text


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


max_record_bytes = click.option(
    "--max-record-bytes",
    callback=lambda context, option, text: size(context, option, text),
    default="1GiB",
    show_default=True,
    metavar="SIZE",
    help="A longer record counts as damage. Sizes: 1000, 64MB, 256MiB.",
)
"""For commands that read records."""


def duration(context: object, option: object, text: str) -> float:
    """Seconds of ``90``, ``90s``, ``15m``, ``2h`` or ``1d``."""
    number, unit = (text[:-1], text[-1]) if text[-1:] in _SECONDS else (text, "s")
    try:
        return float(number) * _SECONDS[unit]
    except ValueError:
        raise click.BadParameter(f"{text!r} is no time such as 30s, 15m, 2h or 1d") from None


def size(context: object, option: object, text: str | None) -> int | None:
    """Bytes of ``1000``, ``64MB``, ``256MiB`` or ``1GiB``."""
    if text is None:
        return None
    lower = text.strip().lower().removesuffix("b")
    number = lower.rstrip("kmgi")
    try:
        return int(float(number) * _BYTES[lower[len(number) :]])
    except (ValueError, KeyError):
        raise click.BadParameter(f"{text!r} is no size such as 64MB or 256MiB") from None

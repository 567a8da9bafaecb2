"""docs/cli.md, made by running every command.

``python -m tests.support.cli_page`` prints it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import click

import tfio_store as tfs
from tfio_store.cli.entry import main
from tfio_store.cli.options import COMMON
from tfio_store.cli.program import COMMANDS, program

HEAD = """\
# The command line

The extra `cli` brings the command `tfio-store`, which is also `python -m tfio_store`.

A *URL* is a path or URL of a file, a dataset's prefix or folder, or another name of a *source* (see
[the guide](guide.md)). Each command calls a function of the library and prints its result. The
commands themselves printed this page. `tfio-store -h` lists the commands, and
`tfio-store COMMAND -h` explains one.

For `head`, `tail`, `sample`, `cat` and `convert` the source `-` is standard input. For `convert`
the target `-` is standard output: `zcat old.gz | tfio-store head -`,
`tfio-store convert train - --to csv | gzip > rows.csv.gz`. A file of that name is `./-`.

| exit code | meaning |
| --: | --- |
| 0 | yes |
| 1 | no: there is damage, or a difference |
| 2 | wrong usage |
| 3 | not found, or forbidden |
| 4 | the store failed after its retries |
| 5 | not TFRecords, Examples or a manifest |
| 70 | an error of the program |
| 129, 130, 143 | a signal: hang-up, Control-C, kill |

An error is one line on stderr. It says what is wrong, where, and what to do. With `--json` it is a
JSON document. [cli.schema.json](cli.schema.json) describes all documents. If the reader of the
output ends early, as in `| head`, the command ends with 0.

All commands except `completion` take these options:

"""

SHOWN: dict[str, list[str]] = {
    "info": ["info train", "info --json train"],
    "count": [
        "count train",
        "count --per-shard train",
        "count 'old/*.tfrecord'",
        "count photo.png",
    ],
    "schema": ["schema train", "schema --format tf train"],
    "stats": ["stats train"],
    "report": ["report train", "report old/damaged.tfrecord -o damaged.html --fail-on error"],
    "head": [
        "head -n 3 train",
        "head -n 3 train | cat",
        "head -n 1 --bytes size old/a.tfrecord | cat",
    ],
    "tail": ["tail -n 2 -c id,name train | cat"],
    "sample": ["sample -n 2 --seed 1 -c id train | cat"],
    "cat": ["cat -c id train | tail -n 2"],
    "get": ["get train 0,2:4,-1 -c id | cat"],
    "verify": ["verify train", "verify old/damaged.tfrecord", "verify --quick train"],
    "salvage": ["salvage old/damaged.tfrecord good/train"],
    "index": ["index old/a.tfrecord --as old/train", "index --idx old/a.tfrecord"],
    "clean": ["clean train"],
    "copy": ["copy train copied/train --num-shards 3"],
    "diff": ["diff train copied/train", "diff train good/train"],
    "convert": ["convert train rows.jsonl", "convert train rows.parquet -c id,name"],
    "doctor": [],
    "completion": [],
}
"""What is run for each command, in this order."""


def make_sources() -> None:
    """In the current folder."""
    names = ["ada", "bob", "cleo", "dan", "eve", "finn"]
    schema = tfs.Schema({"id": "int64", "name": "str", "scores": ("float32", (2,))})
    with tfs.ShardedWriter("train", num_shards=2, schema=schema) as writer:
        for i, name in enumerate(names):
            writer.write({"id": i, "name": name, "scores": [i / 2, i / 4]})
    os.mkdir("old")
    for file in ("a", "damaged"):
        with tfs.TFRecordWriter(f"old/{file}.tfrecord") as one:
            for i in range(4):
                one.write(tfs.encode_example({"image": b"\xff\xd8" + bytes(i), "label": i % 2}))
    data = bytearray(Path("old/damaged.tfrecord").read_bytes())
    data[20] ^= 1
    Path("old/damaged.tfrecord").write_bytes(data)
    Path("photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))


def printed(line: str) -> str:
    """What a command line prints, on a terminal unless it ends in a pipe."""
    typed, _, pipe = line.partition(" | ")
    arguments = [part.strip("'") for part in typed.split()]
    out = io.StringIO()
    on_terminal = mock.patch("tfio_store.cli.output.is_terminal", return_value=not pipe)
    with on_terminal, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main(arguments)
    lines = [each.rstrip() for each in out.getvalue().splitlines()]
    if pipe.startswith("tail -n"):
        lines = lines[-int(pipe.split()[-1]) :]
    text = "\n".join(lines).replace(os.getcwd(), "/data")
    return re.sub(r"\b[0-9a-f]{12}\b", "3f9a1c8e0b52", text)


def option_rows(options: list[click.Option]) -> Iterator[str]:
    yield "| option | default | |"
    yield "| --- | --- | --- |"
    for option in options:
        names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
        choices = option.type.choices if isinstance(option.type, click.Choice) else ()
        takes = option.metavar or "|".join(map(str, choices))
        shown = f" `{takes}`".replace("|", "\\|") if takes else ""
        default = f"`{option.default}`" if option.show_default else ""
        yield f"| {names}{shown} | {default} | {option.help or ''} |"


def common_options() -> list[click.Option]:
    made = click.command()(lambda: None)
    for option in COMMON:
        option(made)
    return [one for one in made.params if isinstance(one, click.Option)]


def section(name: str, common: set[str]) -> Iterator[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    arguments = " ".join(
        one.make_metavar(click.Context(command))
        for one in command.params
        if isinstance(one, click.Argument)
    )
    yield f"## `tfio-store {name} {arguments}`"
    yield ""
    text = " ".join((command.help or "").split())
    yield textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)
    yield ""
    own = [o for o in command.params if isinstance(o, click.Option) and o.name not in common]
    if own:
        yield from option_rows(own)
        yield ""
    if SHOWN[name]:
        yield "```console"
        for line in SHOWN[name]:
            yield f"$ tfio-store {line}"
            yield printed(line)
        yield "```"
        yield ""


def page() -> str:
    """The whole page."""
    common = common_options()
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, COLUMNS="100"):
        os.chdir(os.path.realpath(folder))
        try:
            make_sources()
            names = {str(option.name) for option in common}
            lines = [*option_rows(common), ""]
            for name in COMMANDS:
                lines += section(name, names)
        finally:
            os.chdir(before)
    return HEAD + "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    print(page(), end="")

"""Records on a screen or in a pipe: `head`, `tail`, `sample`, `cat` and `get`."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from tfio_store.cli import output
from tfio_store.cli.failures import printable
from tfio_store.cli.options import Session, Source, common, examples, max_record_bytes, urls
from tfio_store.cli.streams import opened_source
from tfio_store.tables.media_types import image_size, is_image, media_type

if TYPE_CHECKING:
    from tfio_store.records.framing import RecordBatch
    from tfio_store.tables.rows import Selection


def shown(function: Callable[..., Any], how: str = "short") -> Callable[..., Any]:
    """Gives a command the options that say how records are shown, byte strings ``how``."""
    options = (
        click.option("-c", "--columns", help="Features to show, separated by commas."),
        click.option("--raw", is_flag=True, help="Print the records' bytes, without separators."),
        click.option(
            "--bytes",
            "how",
            type=click.Choice(["short", "utf8", "base64", "size"]),
            default=how,
            show_default=True,
            help="How JSON shows byte strings. short and utf8 show UTF-8 as text. Other bytes are "
            'shown by short as {"bytes": 1740}, and by utf8 as {"base64": "..."}. base64 encodes '
            "all, size counts all. A terminal shows at most 200 characters, and an image as "
            "<JPEG 96x96, 1.7 KiB>.",
        ),
        max_record_bytes,
        common,
    )
    for option in reversed(options):
        function = option(function)
    return function


def whole(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a command whose output another program reads: byte strings lose nothing."""
    return shown(function, "utf8")


number = click.option(
    "-n",
    "count",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many records.",
)
url = click.argument("url")


@click.command(epilog=examples("head -n 3 s3://bucket/train", "head -c id,name train"))
@url
@number
@shown
def head(session: Session, url: str, count: int, **how: Any) -> None:
    """Print the first records: a table on a terminal, JSON lines in a pipe.

    The URL - is standard input, also for tail, sample and cat.
    """
    _print(session, url, lambda source: source.first(count), **how)


@click.command(epilog=examples("tail -n 2 s3://bucket/train", "tail --raw -n 1 train"))
@url
@number
@shown
def tail(session: Session, url: str, count: int, **how: Any) -> None:
    """Print the last records."""
    _print(session, url, lambda source: source.last(count), **how)


@click.command(epilog=examples("sample -n 5 --seed 1 train", "sample -c name s3://bucket/train"))
@url
@number
@click.option(
    "--seed", type=int, help="The same seed gives the same records. Default: new ones each time."
)
@shown
def sample(session: Session, url: str, count: int, seed: int | None, **how: Any) -> None:
    """Print some random records."""
    _print(session, url, lambda source: source.sample(count, seed), **how)


@click.command(epilog=examples("cat s3://bucket/train", "cat -c label old/a.tfrecord"))
@urls
@whole
def cat(session: Session, urls: Source, **how: Any) -> None:
    """Print every record whole, as JSON lines. convert reads them."""
    _print(session, urls, lambda source: source.all(), lines=True, **how)


@click.command(epilog=examples("get train 0,2:5", "get train -- -1"))
@url
@click.argument("numbers")
@shown
def get(session: Session, url: str, numbers: str, **how: Any) -> None:
    """Print the records of NUMBERS, such as 0,2:5,-1.

    Put -- before numbers that begin with a minus sign.
    """
    _print(session, url, lambda source: source.numbered(numbers), **how)


def _print(
    session: Session,
    source: Source,
    pick: Callable[[Selection], Iterator[RecordBatch]],
    *,
    columns: str | None,
    raw: bool,
    how: str,
    max_record_bytes: int,
    lines: bool = False,
) -> None:
    from tfio_store.tables.rows import Selection
    from tfio_store.tables.texts import as_json_line, as_json_value

    if raw and (columns is not None or session.json):
        raise click.UsageError("--raw prints whole records: it goes with neither -c nor --json")
    selection = Selection(
        opened_source(source), max_record_bytes=max_record_bytes, storage=session.storage
    )
    batches = pick(selection)
    if raw:
        for batch in batches:
            for record in batch:
                output.raw(record)
        return
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    rows = selection.rows(batches, wanted)
    if session.json:
        found = [{name: as_json_value(row[name], how) for name in row} for row in rows]
        output.document(session.command, {"records": found})
    elif output.is_terminal() and not lines:
        _table(rows, how)
    else:
        for row in rows:
            output.line(as_json_line(row, how))


def _table(rows: Iterable[dict[str, Any]], how: str) -> None:
    found = list(rows)
    names = list(dict.fromkeys(name for row in found for name in row))
    numbers = [
        i
        for i, name in enumerate(names)
        if all(isinstance(row.get(name), int | float) for row in found)
    ]
    cells = [[as_cell(row.get(name), how) for name in names] for row in found]
    output.table(names, cells, right=numbers)


# Values of records as cells of a table.


_LONGEST = 200
_MOST_ITEMS = 8


def as_cell(value: Any, how: str) -> str:
    """A short text. What a record lacks is null, and a feature without values []."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return _bytes_cell(value, how)
    if isinstance(value, str):
        return _shortened(value)
    if isinstance(value, float):
        return f"{value:.7g}"
    if isinstance(value, list):
        items = ", ".join(as_cell(item, how) for item in value[:_MOST_ITEMS])
        more = f", … {len(value)} in all" if len(value) > _MOST_ITEMS else ""
        return _shortened(f"[{items}{more}]")
    return str(value)


def _bytes_cell(value: bytes, how: str) -> str:
    if how == "base64":
        return _shortened(base64.b64encode(value).decode())
    found = media_type(value)
    if found is not None and is_image(found):
        kind, size = found.removeprefix("image/").upper(), image_size(value)
        pixels = "" if size is None else f" {size[0]}x{size[1]}"
        return f"<{kind}{pixels}, {output.human_bytes(len(value))}>"
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = "\0"
    if how == "size" or not text.isprintable():
        return f"<{output.human_bytes(len(value))}>"
    return _shortened(text)


def _shortened(text: str) -> str:
    shown = printable(text)
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"

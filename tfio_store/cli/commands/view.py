"""A dataset as pages on this machine: `view`."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from typing import Any

import click

from tfio_store.cli import output
from tfio_store.cli.options import Session, common, max_record_bytes

__all__ = ["view"]

_NEEDED = ("starlette", "uvicorn")


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Where to listen, on 127.0.0.1. 0 is any port that is free.",
)
@click.option(
    "--open/--no-open",
    "opens",
    default=None,
    help="Show the page in a browser. Default: if there is a terminal and a display.",
)
@click.option(
    "--blocks",
    type=click.IntRange(1, 4096),
    default=64,
    show_default=True,
    help="Blocks of the first sample. The page can take more.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**32 - 1),
    default=0,
    show_default=True,
    help="Of the first sample.",
)
@max_record_bytes
@common
def view(
    session: Session,
    urls: tuple[str, ...],
    port: int,
    opens: bool | None,
    blocks: int,
    seed: int,
    max_record_bytes: int,
) -> None:
    """Show a dataset as pages in a browser: what `report` tells, and each record.

    The pages are served on this machine, to whoever has the printed address with its token.
    Control-C ends it. Nothing is read whole: a sample is looked at, and pages of records are read
    by the index.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(f"needs {' and '.join(missing)}: pip install 'tfio-store[view]'")
    from tfio_store.show.server.running import serving
    from tfio_store.show.server.viewing import answers_of

    source = urls if len(urls) > 1 else urls[0]
    answers = answers_of(
        source, blocks=blocks, seed=seed, max_record_bytes=max_record_bytes, storage=session.storage
    )
    with serving(answers, port=port) as running:
        _tell(session, running.url)
        if _has_screen() if opens is None else opens:
            _open(running.url_for_once())
        running.wait()


def _tell(session: Session, url: str) -> None:
    if session.json:
        output.document("view", {"url": url})
    else:
        output.line(f"{url}\nControl-C ends this." if output.is_terminal() else url)
    sys.stdout.flush()  # who reads a pipe waits for it


def _has_screen() -> bool:
    if not output.is_terminal():
        return False
    return sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )


def _open(url: str) -> Any:
    import webbrowser

    if not webbrowser.open(url):
        click.echo("tfio-store view: no browser opened; open the address above", err=True)

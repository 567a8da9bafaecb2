"""See the data: `report`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from tfio_store.cli import output
from tfio_store.cli.exits import DAMAGED
from tfio_store.cli.options import Session, common_with_output, examples, max_record_bytes
from tfio_store.cli.progress import progress

if TYPE_CHECKING:
    from tfio_store.show.model import Facts, Finding, Level
    from tfio_store.show.report import Report

__all__ = ["report"]

_LEVELS: tuple[Level, ...] = ("error", "warning", "note")
_STDOUT = "-"


@click.command(
    epilog=examples("report s3://bucket/train -o train.html", "report train --full --fail-on error")
)
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="URL",
    help="Where to, on any storage; - prints the page. Otherwise NAME-report.html in this folder. "
    "(So -o is not --storage-options here.)",
)
@click.option(
    "--blocks",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="How many blocks to look at, by chance, each of about 1 MiB.",
)
@click.option("--full", is_flag=True, help="Look at everything.")
@click.option(
    "--seed", default=0, show_default=True, help="The same seed looks at the same blocks."
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    help="End with 1 if something as bad or worse is found. Otherwise findings end with 0.",
)
@click.option(
    "--target-options",
    multiple=True,
    metavar="KEY=VALUE|JSON|@FILE",
    help="As --storage-options, for the report. Those of the source, if not set.",
)
@max_record_bytes
@common_with_output
def report(
    session: Session,
    urls: tuple[str, ...],
    target: str | None,
    fail_on: str | None,
    target_options: tuple[str, ...],
    **how: Any,
) -> int:
    """Make one page of what a dataset looks like: images, texts, how values are spread, shards,
    damage, and what is odd, first.

    A part is looked at: a block by chance of each of many equal parts. The page is one file below
    10 MB, which fetches nothing. An older report is replaced, and nothing else. With --json the
    facts are printed, without images and sounds, and a page is written only if --output names it.
    """
    from tfio_store.show.report import report as make_report

    if session.json and target == _STDOUT:
        raise click.UsageError("--json prints the facts: it does not go with --output -")
    with progress(session) as on_progress:
        source = urls if len(urls) > 1 else urls[0]
        found = make_report(source, on_progress=on_progress, **how, storage=session.storage)
    if target is None and not session.json:
        target = _default_name(found.facts.header.source)
    into = session.storage_of(target_options) or session.storage
    written = None
    if target == _STDOUT:
        output.raw(found.html.encode())
    elif target is not None:
        written = found.save(target, storage=into)
    if session.json:
        output.document("report", {"written": written, **_without_media(found.facts)})
    elif written is not None:
        _tell(found, written)
    return DAMAGED if any(_is_as_bad(one, fail_on) for one in found.findings) else 0


def _default_name(source: str) -> str:
    """``train-report.html``, whatever the name's characters."""
    last = source.split("?")[0].rstrip("/").rpartition("/")[2].removesuffix(".tfrecord")
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', last).strip('._-') or 'dataset'}-report.html"


def _without_media(facts: Facts) -> dict[str, Any]:
    plain = facts.to_json()
    for item in plain["items"]:
        del item["data"]
    return plain


def _tell(found: Report, written: str) -> None:
    scope = found.facts.scope
    for one in found.findings:
        output.line(f"{one.level}: {one.text}")
    of_all = "" if scope.of_records is None else f" of {scope.of_records:,}"
    output.line(f"{written}: {scope.records:,}{of_all} records looked at")


def _is_as_bad(finding: Finding, fail_on: str | None) -> bool:
    return fail_on is not None and finding.level in _LEVELS[: _LEVELS.index(fail_on) + 1]

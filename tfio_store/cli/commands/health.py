"""Datasets checked, repaired, indexed and cleaned: `verify`, `salvage`, `index` and `clean`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tfio_store.cli import DAMAGED, NO_DATASET, output
from tfio_store.cli.failures import in_the_shell
from tfio_store.cli.options import (
    Session,
    Source,
    common,
    duration,
    examples,
    into_target,
    max_record_bytes,
    sources,
    urls,
)
from tfio_store.dataset.checks import held
from tfio_store.errors import Reason

if TYPE_CHECKING:
    from tfio_store.maintain.verify import VerifyReport


@click.command(epilog=examples("verify s3://bucket/train", "verify --quick train"))
@urls
@click.option("--quick", is_flag=True, help="Compare sizes and the store's checksums only.")
@max_record_bytes
@common
def verify(session: Session, urls: Source, quick: bool, **limits: Any) -> int:
    """Check every checksum, and list each damaged region.

    Exit code 1 if there is damage, and 5 if the source does not hold TFRecords.
    """
    from tfio_store.maintain.verify import verify as verify_source

    with output.progress(session) as on_progress:
        report = verify_source(
            urls, quick=quick, on_progress=on_progress, **limits, storage=session.storage
        )
    if session.json:
        output.document("verify", {"ok": report.ok, **vars(report)})
    else:
        output.line(in_the_shell(str(report), click.get_current_context().command))
    if report.ok:
        return 0
    return NO_DATASET if _is_something_else(report) and not report.problems else DAMAGED


def _is_something_else(report: VerifyReport) -> bool:
    """Whether there is no record, and the files look like those of another kind."""
    looks_so = any(region.kind is Reason.OTHER_FORMAT for region in report.skipped)
    return looks_so and not report.records


@click.command(
    epilog=examples(
        "salvage old/damaged.tfrecord s3://bucket/good", "salvage train train --if-exists overwrite"
    )
)
@sources
@click.argument("target")
@click.option(
    "--num-shards", type=click.IntRange(min=1), help="Default: as many as the source has."
)
@click.option("--allow-missing", is_flag=True, help="Go on without missing files.")
@max_record_bytes
@into_target
@common
def salvage(
    session: Session,
    sources: Source,
    target: str,
    num_shards: int | None,
    **how: Any,
) -> int:
    """Copy every sound record of SOURCE... to a new dataset, and list what is lost.

    The exit code is 1 if something was lost. If there is no sound record, nothing is written, and
    the exit code is 1, or 5 if the source does not hold TFRecords. If a file is missing, nothing is
    written, unless --allow-missing is given.
    """
    from tfio_store.maintain.copy import salvage as salvage_source
    from tfio_store.storage.redaction import redacted

    with output.progress(session) as on_progress:
        report = salvage_source(
            sources,
            target,
            num_shards=num_shards,
            on_progress=on_progress,
            **how,
            storage=session.storage,
        )
    if session.json:
        output.document("salvage", {"target": redacted(target), **vars(report)})
    else:
        output.line(in_the_shell(str(report), click.get_current_context().command))
    return 0 if report.ok else DAMAGED


@click.command(epilog=examples("index old/a.tfrecord --as old/train", "index old/b.tfrecord.gz"))
@urls
@click.option(
    "--as", "save_as", metavar="URL", help="The dataset's name, in the folder of the files."
)
@click.option("--idx", is_flag=True, help="Write a text index beside each file, as DALI reads it.")
@click.option(
    "--index-dir",
    metavar="URL",
    help="Write the indexes of compressed files there, not beside the files.",
)
@common
def index(
    session: Session,
    urls: Source,
    save_as: str | None,
    idx: bool,
    index_dir: str | None,
) -> None:
    """Index files that other programs wrote. The files stay as they are.

    Each GZIP or ZLIB file gets an index. Then many threads can read it, and any record can be read
    by its number. Raw files become a dataset (--as), or get text indexes (--idx).
    """
    from tfio_store.dataset.source import open as open_source
    from tfio_store.maintain.build_index import build_index, write_idx_files
    from tfio_store.maintain.copy import usual_codec
    from tfio_store.storage.redaction import redacted

    if idx and (save_as is not None or index_dir is not None):
        raise click.UsageError("--idx writes text files only: leave --as and --index-dir out")
    if idx:
        written = write_idx_files(urls, session.storage)
        if session.json:
            output.document("index", {"written": written})
        else:
            for each in written:
                output.line(each)
        return
    source: Any = urls
    if save_as is None:
        source = open_source(urls, storage=session.storage)
        if usual_codec(source) is None:
            raise click.UsageError(
                "these files are raw: pass --as URL for an index and a manifest, or --idx for text "
                "files"
            )
    with output.progress(session) as on_progress:
        storage = None if save_as is None else session.storage  # else the source has it
        manifest = build_index(
            source, save_as, index_dir=index_dir, on_progress=on_progress, storage=storage
        )
    named = redacted(save_as or (urls if isinstance(urls, str) else " ".join(urls)))
    facts = {"records": manifest.records, "num_shards": len(manifest.shards), "url": named}
    if session.json:
        output.document("index", facts)
    else:
        output.line(f"{named}: {held(manifest.records, len(manifest.shards), 'file')}")


@click.command(epilog=examples("clean s3://bucket/train", "clean train --yes --older-than 2h"))
@click.argument("url")
@click.option("--yes", is_flag=True, help="Remove the leftovers. Without it nothing is removed.")
@click.option(
    "--older-than",
    callback=duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="Leave writers alone that gave a sign of life within this time. Times: 30s, 15m, 2h, 1d; "
    "0 if no writer is at work.",
)
@common
def clean(session: Session, url: str, yes: bool, older_than: float) -> None:
    """Find leftovers of a dataset's dead writers, and with --yes remove them.

    Exit code 3 if there are no leftovers and nothing has this name, or if it is a folder with
    datasets.
    """
    from tfio_store.maintain.clean import check_there, clean as clean_dataset

    found = clean_dataset(url, dry_run=not yes, older_than=older_than, storage=session.storage)
    if not (found.objects or found.uploads or found.alive):
        check_there(url, session.storage)
    if session.json:
        facts = {"objects": found.objects, "uploads": found.uploads, "alive": found.alive}
        output.document("clean", {"removed": yes, **facts})
        return
    done = "removed" if yes else "would remove"
    for each in found.objects:
        output.line(f"{done} {each}")
    for each in found.uploads:
        output.line(f"{done} the unfinished upload of {each}")
    for each in found.alive:
        output.line(
            f"left alone: a writer may be at work (if none is, pass --older-than 0): {each}"
        )
    if not (found.objects or found.uploads or found.alive):
        output.line("nothing to remove")
    elif not yes:
        output.line("pass --yes to remove it")

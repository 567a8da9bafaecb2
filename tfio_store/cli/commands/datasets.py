"""Whole datasets beside each other: `copy`, `diff` and `convert`."""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from tfio_store.cli import DAMAGED, output
from tfio_store.cli.options import (
    Session,
    Source,
    character,
    common,
    examples,
    features,
    into_target,
    max_record_bytes,
    options_of_another,
    size,
    sources,
)
from tfio_store.cli.streams import kept_input, opened_target
from tfio_store.dataset.checks import counted, held

_MAX_SHARD_BYTES = click.option(
    "--max-shard-bytes",
    callback=size,
    metavar="SIZE",
    help="Largest size of a file, such as 64MiB. Default: 256MiB, without --num-shards.",
)


@click.command(
    epilog=examples(
        "copy train s3://bucket/copy --num-shards 16 --compression GZIP",
        "copy train more/train all/train",
    )
)
@sources
@click.argument("target")
@click.option("--num-shards", type=click.IntRange(min=1), help="Number of files.")
@_MAX_SHARD_BYTES
@click.option(
    "--shuffle-seed",
    type=int,
    help="Copy in a random order, the same for the same seed.",
)
@max_record_bytes
@into_target
@common
def copy(session: Session, sources: Source, target: str, **how: Any) -> None:
    """Copy SOURCE... to one new dataset: merged, resharded, recompressed, shuffled.

    The order of the records stays, unless --shuffle-seed is given. Damage ends the command, and
    then there is no target; salvage copies the sound records.
    """
    from tfio_store.maintain.copy import copy as copy_source
    from tfio_store.storage.redaction import redacted

    with output.progress(session) as on_progress:
        made = copy_source(sources, target, on_progress=on_progress, **how, storage=session.storage)
    facts = {
        "target": redacted(target),
        "records": made.records,
        "nbytes": made.nbytes,
        "num_shards": len(made.shards),
        "compression": made.compression,
    }
    if session.json:
        output.document("copy", facts)
    else:
        inside = held(made.records, len(made.shards), "file")
        output.line(f"{redacted(target)}: {inside}, {output.human_bytes(made.nbytes)}")


@click.command(epilog=examples("diff train s3://bucket/train", "diff --unordered train more/train"))
@click.argument("source")
@click.argument("other")
@click.option("--unordered", is_flag=True, help="Ignore the order of records.")
@options_of_another("--other-options", "OTHER", "SOURCE")
@common
def diff(
    session: Session,
    source: str,
    other: str,
    unordered: bool,
    other_options: dict[str, Any] | None,
) -> int:
    """Compare features, counts and the bytes of all records. Exit code 1 if they differ."""
    from tfio_store.maintain.diff import diff as compare
    from tfio_store.storage.redaction import redacted

    with output.progress(session) as on_progress:
        found = compare(
            source,
            other,
            ordered=not unordered,
            other_storage=session.storage_of(other_options),
            on_progress=on_progress,
            storage=session.storage,
        )
    if session.json:
        output.document("diff", {"same": found.same, **dataclasses.asdict(found)})
        return 0 if found.same else DAMAGED
    for name, (one, two) in found.features.items():
        output.line(f"feature {name}: {one or 'none'} and {two or 'none'}")
    if found.records[0] != found.records[1]:
        output.line(f"records: {found.records[0]} and {found.records[1]}")
    if found.different:
        where = "" if found.first is None else f", the first is record {found.first}"
        output.line(f"{found.different} records differ{where}")
    for name, lost in zip((source, other), found.lost, strict=True):
        if lost is not None:
            output.line(f"{redacted(name)}: lost in a salvage: {lost}")
    if found.same:
        output.line(f"the same {counted(found.records[0], 'record')}")
    return 0 if found.same else DAMAGED


WRITTEN = ["tfrecord", "parquet", "csv", "jsonl", "arrow", "webdataset"]


@click.command(
    epilog=examples(
        "convert train rows.parquet -c id,name",
        'convert table.csv s3://bucket/table --schema \'{"price": "float32"}\'',
    )
)
@sources
@click.argument("target")
@click.option(
    "--from",
    "source_format",
    type=click.Choice([*WRITTEN, "images", "numpy"]),
    help="The format of SOURCE, if its name does not say it. Images need it.",
)
@click.option(
    "--to",
    "target_format",
    type=click.Choice(WRITTEN),
    help="The format of TARGET, if its name does not say it.",
)
@click.option("-c", "--columns", help="Columns to convert, separated by commas.")
@click.option(
    "--schema",
    callback=features,
    metavar="JSON|@FILE",
    help='Types of columns, such as {"price": "float32"}, or the output of schema --json.',
)
@click.option(
    "--delimiter",
    callback=character,
    metavar="CHARACTER",
    help="The CSV delimiter; \\t is a tab. Default: a comma, or a tab in .tsv.",
)
@click.option(
    "--exact", is_flag=True, help="Keep float64, uint64 and complex exactly, as raw memory."
)
@click.option("--flatten", is_flag=True, help="Make a column of each field of a struct.")
@click.option("--num-shards", type=click.IntRange(min=1), help="Number of files, filled in turn.")
@_MAX_SHARD_BYTES
@into_target
@common
def convert(
    session: Session,
    sources: Source,
    target: str,
    columns: str | None,
    target_compression: str | None,
    **how: Any,
) -> None:
    """Convert Parquet, CSV, JSON lines or Arrow files, a WebDataset, a folder of images or NumPy's
    arrays to a TFRecord dataset. Or convert a dataset to a file of a table or to a WebDataset.

    The ends of the names decide the formats: .parquet, .csv, .tsv, .jsonl, .arrow, .tar, .npy,
    .npz; all else is TFRecord. gzip may pack files of CSV and JSON lines, as .csv.gz.

    The TARGET - is standard output, and messages go to stderr. The SOURCE - is standard input, kept
    in a temporary file during the conversion. Then --to and --from name the format.
    """
    from tfio_store.tables.convert import convert as convert_source

    into = opened_target(target, how["target_format"], as_json=session.json)
    with (
        output.progress(session) as on_progress,
        kept_input(sources, how["source_format"]) as named,
    ):
        made = convert_source(
            named,
            into,
            columns=None if columns is None else [name.strip() for name in columns.split(",")],
            target_compression=None if target_compression == "same" else target_compression,
            on_progress=on_progress,
            **how,
            storage=session.storage,
        )
    if session.json:
        output.document("convert", dataclasses.asdict(made))
        return
    said = f"{made.target}: {made.records:,} rows as {made.target_format}"
    if into is target:
        output.line(said)
    elif not session.quiet:
        output.message(said)

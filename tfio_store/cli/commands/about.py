"""Facts about a source: `info`, `count`, `schema`, `stats` and `report`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from tfio_store.cli import DAMAGED, output
from tfio_store.cli.options import (
    Session,
    Source,
    common,
    common_with_output,
    examples,
    max_record_bytes,
    options_of_another,
    size,
    urls,
)

if TYPE_CHECKING:
    from tfio_store.maintain.info import DatasetInfo, ShardFacts
    from tfio_store.show.model import Facts, Finding, Level
    from tfio_store.show.report import Report
    from tfio_store.tables.stats import FeatureStats


@click.command(epilog=examples("info s3://bucket/train", "info --shards 'old/*.tfrecord'"))
@urls
@click.option("--shards", is_flag=True, help="List the files too.")
@common
def info(session: Session, urls: Source, shards: bool) -> None:
    """Print a source's records, bytes, files, compression and schema on one screen."""
    from tfio_store.maintain.info import info as read_info

    found = read_info(urls, storage=session.storage)
    if session.json:
        facts = {
            "records": found.records,
            "nbytes": found.nbytes,
            "compression": found.compression,
            "indexed": found.indexed,
            "generation": found.generation,
            "schema": found.schema,
            "metadata": found.metadata,
            "lost": found.lost,
            "growth": found.growth,
            "values": found.values,
            "num_shards": len(found.shards),
        }
        output.document("info", facts | ({"shards": found.shards} if shards else {}))
        return
    for name, value in _facts(found):
        output.line(f"{name:<12} {value}")
    if shards:
        output.line("")
        header = ("bytes", "records", "blocks", "compression", "file")
        output.table(header, [_row(shard) for shard in found.shards], right=(0, 1, 2))


def _facts(found: DatasetInfo) -> list[tuple[str, str]]:
    from statistics import median

    sizes = sorted(shard.nbytes for shard in found.shards)
    lines = [
        (
            "records",
            "unknown; run tfio-store count" if found.records is None else f"{found.records:,}",
        ),
        ("bytes", f"{found.nbytes:,} ({output.human_bytes(found.nbytes)})"),
        ("files", f"{len(sizes):,}"),
    ]
    if len(sizes) > 1:
        least, middle, most = sizes[0], int(median(sizes)), sizes[-1]
        sized = (output.human_bytes(each) for each in (least, middle, most))
        lines.append(("file sizes", "{} least, {} median, {} most".format(*sized)))
    lines += [
        ("compression", found.compression or "none"),
        ("index", "yes" if found.indexed else "no"),
        ("manifest", "no" if found.generation is None else f"generation {found.generation}"),
    ]
    if found.lost is not None:
        lines.append(("lost", f"in a salvage: {found.lost}"))
    if found.schema is not None:
        lines.append(("features", ", ".join(found.schema) or "none"))
        lines += [("grown", str(growth)) for growth in found.growth]
        lines += [
            ("values", f"{count:,} of {name} ({count / max(1, found.records or 0):,.1f} a record)")
            for name, count in found.values.items()
        ]
    elif found.records != 0:
        lines.append(("features", "not in a manifest; run tfio-store schema"))
    return lines


def _row(shard: ShardFacts) -> tuple[str, ...]:
    known = ("?" if n is None else f"{n:,}" for n in (shard.records, shard.blocks))
    return (f"{shard.nbytes:,}", *known, shard.compression or "none", shard.url)


@click.command(epilog=examples("count s3://bucket/train", "count --per-shard 'old/*.tfrecord'"))
@urls
@click.option("--per-shard", is_flag=True, help="Count each file by itself.")
@max_record_bytes
@common
def count(session: Session, urls: Source, per_shard: bool, **limits: Any) -> None:
    """Print the number of records.

    A manifest or an index holds it. Without them, the command reads the headers of raw files, and
    decompresses compressed files.
    """
    from tfio_store.tables.count import count as count_records, count_shards

    with output.progress(session) as on_progress:
        how = {"on_progress": on_progress, **limits, "storage": session.storage}
        shards = count_shards(urls, **how) if per_shard else ()
        known = sum(shard.records for shard in shards)
        records = known if per_shard else count_records(urls, **how)
    if session.json:
        output.document("count", {"records": records} | ({"shards": shards} if per_shard else {}))
    elif per_shard:
        for shard in shards:
            output.line(f"{shard.records}\t{shard.url}")
    else:
        output.line(str(records))


@click.command(epilog=examples("schema s3://bucket/train", "schema --format tf old/a.tfrecord"))
@click.argument("url")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "tf"]),
    default="table",
    show_default=True,
    help="tf prints Python for tf.io.parse_example.",
)
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    help="How many records to look at.",
)
@click.option("--full", is_flag=True, help="Look at all records.")
@max_record_bytes
@common
def schema(session: Session, url: str, form: str, sample: int, full: bool, **limits: Any) -> None:
    """Print the features, and how many of the first records have each.

    The manifest names the features. Without a manifest, they are inferred from these records.
    """
    from tfio_store.tables.infer import infer_schema
    from tfio_store.tables.stats import presence
    from tfio_store.tables.texts import spec_text

    if form == "tf" and session.json:
        raise click.UsageError("--format tf prints Python: it does not go with --json")
    found = infer_schema(url, sample=sample, full=full, **limits, storage=session.storage)
    if form == "tf":
        output.line(spec_text(found))
        return
    seen = presence(url, session.storage, sample=None if full else sample, **limits)
    if session.json or form == "json":
        output.document("schema", {"schema": found.to_json(), "seen": seen})
    else:
        flags = ("raw", "nullable", "sequence")
        rows = [
            (
                name,
                feature.dtype,
                str(feature.shape),
                ", ".join(
                    ([str(feature.kind)] if feature.kind is not None else [])
                    + [flag for flag in flags if getattr(feature, flag)]
                ),
                "" if feature.default is None else repr(feature.default),
                f"{seen.features.get(name, 0):,} of {seen.records:,}",
            )
            for name, feature in found.items()
        ]
        output.table(("feature", "dtype", "shape", "kind", "default", "in"), rows)


@click.command(epilog=examples("stats s3://bucket/train", "stats --sample 1GiB old/a.tfrecord"))
@urls
@click.option(
    "--sample",
    callback=size,
    default="256MiB",
    show_default=True,
    metavar="SIZE",
    help="About how much to look at.",
)
@click.option("--full", is_flag=True, help="Look at everything.")
@max_record_bytes
@common
def stats(session: Session, urls: Source, sample: int, full: bool, **limits: Any) -> None:
    """Print for each feature how many records have it, its range, quantiles, and what it looks
    like.

    For byte strings, the numbers are lengths. Large sources are sampled, always in the same way.
    """
    import dataclasses

    from tfio_store.tables.stats import stats as read_stats

    with output.progress(session) as on_progress:
        found = read_stats(
            urls,
            sample_bytes=None if full else sample,
            on_progress=on_progress,
            **limits,
            storage=session.storage,
        )
    if session.json:
        output.document("stats", dataclasses.asdict(found))
        return
    part = "all" if found.whole else "a sample"
    output.line(f"{found.records:,} records, {output.human_bytes(found.nbytes)} ({part})")
    header = ("feature", "dtype", "in", "values", "min", "25%", "50%", "75%", "max", "distinct")
    rows = [_stats_row(name, feature) for name, feature in found.features.items()]
    output.table((*header, "looks like"), rows, right=range(2, 10))


def _stats_row(name: str, feature: FeatureStats) -> tuple[str, ...]:
    quantiles = [_shown(each, 4) for each in feature.quantiles] or [""] * 3
    ends = [_shown(each, 7) for each in (feature.least, feature.most)]
    fewest, most = feature.counts
    return (
        name,
        feature.dtype,
        f"{feature.present:,}",
        str(fewest) if fewest == most else f"{fewest} to {most}",
        ends[0],
        *quantiles,
        ends[1],
        "many" if feature.distinct is None else f"{feature.distinct:,}",
        feature.looks_like,
    )


def _shown(value: float | str | None, digits: int) -> str:
    """Numbers in few digits; times are texts."""
    if isinstance(value, int | float):
        return f"{value:.{digits}g}"
    return value or ""


_LEVELS: tuple[Level, ...] = ("error", "warning", "note")
_STDOUT = "-"


@click.command(
    epilog=examples("report s3://bucket/train -o train.html", "report train --full --fail-on error")
)
@urls
@click.option(
    "-o",
    "--output",
    "target",
    metavar="URL",
    help="The page's file, on any storage; - prints the page. Default: NAME-report.html in this "
    "folder. (Here -o is not --storage-options.)",
)
@click.option(
    "--blocks",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="How many random blocks to look at, each of about 1 MiB.",
)
@click.option("--full", is_flag=True, help="Look at everything.")
@click.option(
    "--seed", default=0, show_default=True, help="The same seed looks at the same blocks."
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    help="End with 1 if a finding is as bad or worse. Without it findings end with 0.",
)
@options_of_another("--target-options", "the report")
@max_record_bytes
@common_with_output
def report(
    session: Session,
    urls: Source,
    target: str | None,
    fail_on: str | None,
    target_options: dict[str, Any] | None,
    **how: Any,
) -> int:
    """Make one page that shows a dataset: oddities first, images, texts, distributions of values,
    shards, damage.

    The command looks at one random block of each of many equal parts. The page is one file below
    10 MB, which fetches nothing. It replaces an older report, but no other file. --json prints the
    facts, without images and sounds, and writes a page only if --output names it.
    """
    from tfio_store.show.report import report as make_report

    if session.json and target == _STDOUT:
        raise click.UsageError("--json prints the facts: it does not go with --output -")
    with output.progress(session) as on_progress:
        found = make_report(urls, on_progress=on_progress, **how, storage=session.storage)
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

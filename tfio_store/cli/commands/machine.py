"""This machine: `bench`, `doctor` and `completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from tfio_store.cli import output
from tfio_store.cli.exits import DAMAGED
from tfio_store.cli.options import Session, common, max_record_bytes

if TYPE_CHECKING:
    from tfio_store.maintain.measure import ReadingSpeed

__all__ = ["bench", "completion", "doctor"]


@click.command()
@click.argument("urls", nargs=-1, required=True, metavar="URL...")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=2.0,
    show_default=True,
    help="How long records and ranges are read, each.",
)
@max_record_bytes
@common
def bench(session: Session, urls: tuple[str, ...], **how: Any) -> None:
    """Measure how fast this machine reads URL..., beside plain ranges of the same files: what the
    store, the network and the backend allow.

    Both backends are measured, unless --backend names one.
    """
    from dataclasses import replace

    from tfio_store.maintain.measure import backends_of, measure

    source = urls if len(urls) > 1 else urls[0]
    chosen = click.get_current_context().get_parameter_source("backend")
    usual = chosen is ParameterSource.DEFAULT
    backends = backends_of(source) if usual else (session.storage.backend,)
    found = [
        measure(source, storage=replace(session.storage, backend=backend), **how)
        for backend in backends
    ]
    if session.json:
        output.document("bench", {"speeds": [_speed(each) for each in found]})
        return
    header = ("backend", "what", "MB/s", "records/s", "of the ranges")
    output.table(header, [row for each in found for row in _speed_rows(each)], right=(2, 3, 4))


def _speed(found: ReadingSpeed) -> dict[str, Any]:
    import dataclasses

    return {
        **dataclasses.asdict(found),
        "records_per_second": found.records_per_second,
        "nbytes_per_second": found.nbytes_per_second,
        "ranges_nbytes_per_second": found.ranges_nbytes_per_second,
        "share": found.share,
    }


def _speed_rows(found: ReadingSpeed) -> list[tuple[str, ...]]:
    ranges, records = found.ranges_nbytes_per_second / 1e6, found.nbytes_per_second / 1e6
    share = "" if found.share is None else f"{found.share:.0%}"
    read = "records, decompressed" if found.compressed else "records"
    return [
        (found.backend, "ranges", f"{ranges:,.1f}", "", ""),
        ("", read, f"{records:,.1f}", f"{found.records_per_second:,.0f}", share),
    ]


@click.command()
@click.argument("url", required=False)
@common
def doctor(session: Session, url: str | None) -> int:
    """Tell versions, codecs, backends, and whether the CRC kernel agrees with google-crc32c; of
    URL, whether its store can be reached, has anything there, and decides conditional writes."""
    import dataclasses

    from tfio_store.maintain.doctor import diagnose

    found = diagnose(url, storage=session.storage)
    if session.json:
        output.document("doctor", dataclasses.asdict(found))
        return 0 if found.crc32c_agrees else DAMAGED
    agreed = (
        ", as google-crc32c computes it"
        if found.crc32c_agrees
        else ": WRONG by google-crc32c; set TFIO_STORE_CORE=pure"
    )
    lines = [
        ("python", f"{found.python}, {found.platform}, {found.cpus} CPUs"),
        ("core", f"{found.core}, CRC32C by {found.crc32c}{agreed}"),
        ("examples", found.example),
        ("codecs", ", ".join(found.codecs)),
        *((name, found.packages[name] or "not installed") for name in found.packages),
    ]
    if found.endpoint is not None:
        answer = "yes" if found.conditional else "no: only one writer at a time is safe"
        there = "yes" if found.there else "nothing is there; or there is no such bucket"
        lines += [("url", found.endpoint), ("there", there), ("conditional", answer)]
    for name, value in lines:
        output.line(f"{name:<14} {value}")
    return 0 if found.crc32c_agrees else DAMAGED


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete commands and options.

    For bash, put this into ~/.bashrc: eval "$(tfio-store completion bash)"
    """
    from click.shell_completion import get_completion_class

    from tfio_store.cli.program import program

    made = get_completion_class(shell)
    assert made is not None
    output.line(made(program, {}, "tfio-store", "_TFIO_STORE_COMPLETE").source())

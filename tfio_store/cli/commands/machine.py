"""This machine: `doctor` and `completion`."""

from __future__ import annotations

import click

from tfio_store.cli import DAMAGED, output
from tfio_store.cli.options import Session, common, examples


@click.command(epilog=examples("doctor", "doctor s3://bucket/train"))
@click.argument("url", required=False)
@common
def doctor(session: Session, url: str | None) -> int:
    """Print versions, codecs, backends, and whether the CRC kernel agrees with google-crc32c.

    With URL, also print whether its store can be reached, has anything there, and decides
    conditional writes, and which client reads from it.
    """
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
        lines += [] if found.client is None else [("read by", found.client)]
    for name, value in lines:
        output.line(f"{name:<14} {value}")
    return 0 if found.crc32c_agrees else DAMAGED


@click.command(epilog=examples("completion bash", "completion fish"))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the script that makes SHELL complete commands and options.

    For bash, put this into ~/.bashrc: eval "$(tfio-store completion bash)"
    """
    from click.shell_completion import get_completion_class

    from tfio_store.cli.program import program

    made = get_completion_class(shell)
    assert made is not None
    output.line(made(program, {}, "tfio-store", "_TFIO_STORE_COMPLETE").source())

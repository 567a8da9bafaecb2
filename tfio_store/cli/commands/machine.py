"""This machine: `doctor` and `completion`."""

from __future__ import annotations

import click

from tfio_store.cli import output
from tfio_store.cli.options import Session, common

__all__ = ["completion", "doctor"]


@click.command()
@click.argument("url", required=False)
@common
def doctor(session: Session, url: str | None) -> None:
    """Tell versions, CRC kernel, codecs and backends; and of URL, whether its store can be reached
    and decides conditional writes."""
    import dataclasses

    from tfio_store.tools.doctor import diagnose

    found = diagnose(url, **session.arguments)
    if session.json:
        output.document("doctor", dataclasses.asdict(found))
        return
    kinds = {None: "not installed"}
    lines = [
        ("python", f"{found.python}, {found.platform}, {found.cpus} CPUs"),
        ("core", f"{found.core}, CRC32C by {found.crc32c}"),
        ("examples", found.example),
        ("codecs", ", ".join(found.codecs)),
        *((name, found.packages[name] or kinds[None]) for name in found.packages),
    ]
    if found.endpoint is not None:
        answer = "yes" if found.conditional else "no: only one writer at a time is safe"
        lines += [("endpoint", found.endpoint), ("conditional", answer)]
    for name, value in lines:
        output.line(f"{name:<14} {value}")


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

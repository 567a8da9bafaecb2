"""The page that says what ran where."""

from __future__ import annotations

import time
from pathlib import Path

from bench.timing import machine

__all__ = ["HEAD", "write_page"]

HEAD = "| Python | platform | MB | extensions, MB | glibc | here |\n|-|-|-:|-:|-|-|"
TEXT = """\
# Wheels

Written by `make wheels REPORT=docs/wheels.md`. Each wheel is built of the source distribution, with
Zig as C compiler. `check-wheel-contents` and `twine check --strict` accept it. It holds no debug
information and names no folder of the machine that built it. Its extensions take less than 2 MiB
together. It uses no symbol of a glibc newer than 2.17; the table names the newest that it uses.

A wheel that *works* was installed by pip into an empty environment, with an empty home and no
cache. There a short program (`scripts/wheels/program.py`) wrote, read and resumed datasets. The
source was installed without a compiler on the PATH: it works in pure Python, and warns once. The
Python for aarch64 is Debian's, run by qemu-user. A wheel that no Python here can load was built and
checked, and the C core's tests ran with its C library.

tfio_store {version}, {date}. {machine}.

"""


def write_page(lines: list[str], version: str, missing: list[str], page: Path) -> None:
    """``missing``: Pythons that were found, and left out."""
    told = TEXT.format(
        version=version, date=time.strftime("%Y-%m-%d"), machine=machine().rpartition(",")[0]
    )
    rest = f"\nNot run yet: Python {', '.join(missing)}.\n" if missing else ""
    page.write_text(told + "\n".join([HEAD, *lines]) + "\n" + rest, encoding="utf-8")

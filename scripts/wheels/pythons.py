"""Finds the Pythons to build for: on the PATH, pyenv's, and newer ones in Debian's packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from scripts.wheels.newer import newer_python

__all__ = ["VERSIONS", "found_pythons"]

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def found_pythons(wanted: Collection[str] = VERSIONS) -> dict[str, str]:
    """The path of each wanted version's interpreter that works."""
    found = {}
    for version in VERSIONS:
        if version not in wanted:
            continue
        works = (path for path in _candidates(version) if _version(path) == version)
        path = next(works, None) or newer_python(version)
        if path is not None:
            found[version] = path
    return found


def _candidates(version: str) -> list[str]:
    on_path = shutil.which(f"python{version}")
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    installed = sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True)
    return [str(path) for path in (*installed, on_path) if path is not None]


def _version(python: str) -> str | None:
    """None for one that can't make an environment with headers, as wheels need."""
    asks = (
        "import ensurepip, pathlib, sys, sysconfig\n"
        "assert (pathlib.Path(sysconfig.get_path('include')) / 'Python.h').exists()\n"
        "print('%d.%d' % sys.version_info[:2])"
    )
    done = subprocess.run([python, "-c", asks], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None

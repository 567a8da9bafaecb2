"""Makes the environment of a row: uv does it in seconds, where pip takes minutes."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

from scripts.matrix.rows import Row
from scripts.wheels.build import ROOT, UV, plain_environment, run

__all__ = ["build_wheel", "make_environment", "suite"]

CLOUDS = ("gcs", "azure")
"""Extras that the test extra leaves out."""


def build_wheel(sdist: Path, python: str) -> Path:
    """Built of it by this machine's compiler."""
    choice = {**plain_environment(), "TFIO_STORE_CORE": "compiled"}
    before = set(sdist.parent.glob("*.whl"))
    build = (*UV, "build", "--quiet", "--wheel", "--python", python)
    run(*build, "-o", sdist.parent, sdist, env=choice)
    (wheel,) = set(sdist.parent.glob("*.whl")) - before
    return wheel


def make_environment(row: Row, python: str, wheel: Path, folder: Path) -> Path:
    """Its interpreter."""
    run(*UV, "venv", "--quiet", "--clear", "--python", python, folder, env=plain_environment())
    inside = folder / "bin/python"
    install = [*UV, "pip", "install", "--quiet", "--python", inside]
    if row.lowest:
        install += ["-c", _lowest(row, folder)]
    elif row.constraints:
        install += ["-c", ROOT / row.constraints]
    what = [f"{wheel}[{','.join(('test', *CLOUDS))}]", "gcp-storage-emulator>=2026"]
    if row.tensorflow:
        what = [f"{wheel}[test]", row.tensorflow]
    run(*install, *what, env=plain_environment())
    return inside


def _lowest(row: Row, folder: Path) -> Path:
    """A file that holds each direct dependency at its lower bound, and the newest of the rest."""
    found = folder / "lowest.txt"
    extras = [part for extra in row.lowest for part in ("--extra", extra)]
    plain = ("--no-annotate", "--no-header", "--python-version", row.python)
    lowest = ("--quiet", "--resolution", "lowest-direct", *plain, "-o", found)
    run(*UV, "pip", "compile", *lowest, *extras, ROOT / "pyproject.toml", env=plain_environment())
    return found


def suite(sdist: Path, to: Path) -> None:
    """The tests of the source distribution and what they read, without the package's source."""
    with tarfile.open(sdist) as archive:
        archive.extractall(to.parent)
    shutil.rmtree(to, ignore_errors=True)
    (to.parent / sdist.name.removesuffix(".tar.gz")).rename(to)
    for source in ("tfio_store", "pyspark_tfio_store", "ext"):
        shutil.rmtree(to / source)
    (to / "setup.py").unlink()
    azurite = ROOT / ".cache"  # which `make servers` installs
    if azurite.exists():
        (to / ".cache").symlink_to(azurite)

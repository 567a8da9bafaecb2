"""Builds what a release holds, looks at it, and works with it as a newcomer would."""

from __future__ import annotations

import ast
import hashlib
import re
import subprocess
import sys
from pathlib import Path

from scripts import wheels
from scripts.release.facts import CheckError
from scripts.wheels import ROOT, plain_environment, run

__all__ = ["Archives", "first_example", "manifest", "without_tensorflow"]

OF_TENSORFLOW = ("TFRecordDataset", "register_filesystem")


class Archives:
    """The source distribution and one wheel, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sdist, self.wheel = Path(), Path()

    def build(self) -> str:
        """Both, the wheel out of the source distribution."""
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.sdist = wheels.build_sdist(self.folder)
        how = (sys.executable, version, wheels.here(), self.folder)
        self.wheel = wheels.build_wheel(self.sdist, *how)
        sizes = (f"{each.name} ({each.stat().st_size / 1e6:.2f} MB)" for each in self.both)
        return ", ".join(sizes)

    @property
    def both(self) -> tuple[Path, Path]:
        return self.sdist, self.wheel

    def contents(self) -> str:
        """What the wheel holds: see `scripts.wheels.check_wheel`."""
        if self.wheel.stat().st_size > 2 << 20:
            raise CheckError(f"{self.wheel.name} takes more than 2 MiB")
        return wheels.check_wheel(self.wheel, wheels.here())

    def twine(self) -> str:
        """The index takes their metadata, and shows their README."""
        run(sys.executable, "-m", "twine", "check", "--strict", *self.both)
        return "both"

    def same_again(self) -> str:
        """Whoever builds the same commit with the same tools gets the same bytes."""
        again = Archives(self.folder.parent / "again")
        again.build()
        for one, other in zip(self.both, again.both, strict=True):
            if one.read_bytes() != other.read_bytes():
                raise CheckError(f"{one} and {other} differ, though nothing changed")
        return f"wheel {hashlib.sha256(self.wheel.read_bytes()).hexdigest()[:16]}…"

    def try_commands(self) -> str:
        """The wheel in an empty environment: a program, README's first example without its part
        that needs TensorFlow, and the command on what that has written."""
        folder = self.folder.parent / "trial"
        said = wheels.try_wheel(self.wheel, sys.executable, folder)
        python, environment = folder / "bin/python", plain_environment()
        extra = f"{self.wheel}[cli]"
        run(python, "-m", "pip", "install", "--quiet", extra, env=environment)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        program = without_tensorflow(first_example(readme))
        program = program.replace("/tmp/squares", str(folder / "data"))
        run(python, "-I", "-c", program, env=environment)
        command, url = folder / "bin/tfio-store", str(folder / "data/train")
        for words in (("--version",), ("--help",), ("info", url), ("count", url), ("head", url)):
            run(command, *words, cwd=folder, env=environment)
        wrong = subprocess.run([command, "info", f"{url}-no"], capture_output=True, check=False)
        if wrong.returncode in (0, -6, -11) or b"Traceback" in wrong.stderr:
            raise CheckError(f"`tfio-store info` of nothing: {wrong.returncode} {wrong.stderr!r}")
        return f"{said}; README's example and five commands too"


def manifest() -> str:
    """The source distribution holds what is committed."""
    said = run(sys.executable, "-m", "check_manifest", cwd=ROOT)
    return said.strip().splitlines()[-1]


def first_example(page: str) -> str:
    """The first block of Python in a page."""
    found = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    if found is None:
        raise CheckError("the README has no example in Python")
    return found[1]


def without_tensorflow(program: str) -> str:
    """The program without those of its statements that need TensorFlow."""
    body = ast.parse(program).body
    kept = [node for node in body if not any(name in ast.unparse(node) for name in OF_TENSORFLOW)]
    if len(kept) == len(body) or len(kept) < 3:
        raise CheckError("the README's example is not as it was: look at scripts/release/built.py")
    return "\n".join(map(ast.unparse, kept))

"""A Python for aarch64 from Debian's packages, which qemu-user runs on this machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from scripts.wheels.build import ROOT, run
from scripts.wheels.debian import can_unpack, unpack

__all__ = ["arm_python", "try_on_arm"]

PROGRAM = ROOT / "scripts/wheels/program.py"
QEMU = "qemu-aarch64"
PLACE = ROOT / "build/aarch64"


def arm_python() -> tuple[str, Path] | None:
    """Its version and its interpreter. None where qemu-user or apt is missing."""
    if not (shutil.which(QEMU) and can_unpack()):
        return None
    if not list(PLACE.glob("root/usr/bin/python3.*")):
        unpack(PLACE, "python3", "libstdc++6", architecture="arm64")
    interpreter = next(PLACE.glob("root/usr/bin/python3.*[0-9]"))
    found = re.fullmatch(r"python(3\.\d+)", interpreter.name)
    assert found, f"{interpreter} is not named as a Python is"
    return found[1], interpreter


def try_on_arm(wheel: Path, version: str, python: Path) -> str:
    """What the program said there, with the wheel and its dependencies."""
    site = PLACE / "site"
    shutil.rmtree(site, ignore_errors=True)
    platform = ("--python-platform", "aarch64-manylinux_2_28", "--python-version", version)
    install = ("pip", "install", "--quiet", "--target", site, "--only-binary", ":all:", *platform)
    run(sys.executable, "-m", "uv", *install, wheel)
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "HOME": str(site)}
    said = run(QEMU, "-L", PLACE / "root", python, PROGRAM, cwd=site, env=environment)
    assert "compiled core" in said, f"{wheel.name} does without its extensions: {said}"
    return said.strip().splitlines()[-1] + ", under qemu"

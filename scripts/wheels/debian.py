"""Debian's packages, unpacked into a folder: of another processor, or of a newer release than this
machine's. It needs no root, and nothing is installed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from scripts.wheels.build import run

__all__ = ["can_unpack", "mirror", "unpack"]

SOURCES = Path("/etc/apt")


def can_unpack() -> bool:
    """Whether this machine is a Debian."""
    return bool(shutil.which("apt-get") and shutil.which("dpkg"))


def unpack(place: Path, *packages: str, architecture: str = "", suite: str = "") -> Path:
    """The folder that is as ``/`` would be, with the packages and what they depend on."""
    shutil.rmtree(place, ignore_errors=True)
    root = place / "root"
    for folder in ("state/lists/partial", "cache/archives/partial", "root"):
        (place / folder).mkdir(parents=True)
    (place / "state/status").touch()  # nothing is installed there
    told: dict[str, object] = {
        "APT::Install-Recommends": "0",
        "Dir::State": place / "state",
        "Dir::State::status": place / "state/status",
        "Dir::Cache": place / "cache",
    }
    if architecture:
        told |= {"APT::Architecture": architecture, "APT::Architectures::": architecture}
    if suite:
        (place / "sources.list").write_text(f"{mirror()} {suite} main\n", encoding="utf-8")
        told |= {
            "Dir::Etc::sourcelist": place / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
        }
    apt = ["apt-get", "-qq", *(part for key in told for part in ("-o", f"{key}={told[key]}"))]
    run(*apt, "update")
    run(*apt, "-y", "--download-only", "install", *packages)
    for package in (place / "cache/archives").glob("*.deb"):
        run("dpkg", "-x", package, root)
    return root


def mirror() -> str:
    """From where this machine has its packages, as a line of sources.list begins."""
    texts = [file.read_text(encoding="utf-8") for file in sorted(SOURCES.rglob("*.sources"))]
    for stanza in (part for text in texts for part in text.split("\n\n")):
        fields = dict(re.findall(r"^(URIs|Suites|Signed-By): *(.+)", stanza, re.MULTILINE))
        if "URIs" in fields and "-security" not in fields.get("Suites", ""):
            signed = f" [signed-by={fields['Signed-By']}]" if "Signed-By" in fields else ""
            return f"deb{signed} {fields['URIs'].split()[0]}"
    for file in sorted(SOURCES.rglob("*.list")):
        line = re.search(r"^deb (\[.*?\] )?\S+(?= \S+ main)", file.read_text("utf-8"), re.MULTILINE)
        if line:
            return line[0]
    raise RuntimeError(f"no list of packages is in {SOURCES}")

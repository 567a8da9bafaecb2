"""What must hold of the tree itself before anything is built."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

__all__ = ["VENDOR", "CheckError", "changelog", "install", "licences", "repository", "versions"]

VENDOR = Path("tfio_store/show/static/vendor")
VERSIONS = {
    "tfio_store/__init__.py": r'^__version__ = "(.+)"$',
    "pyproject.toml": r'^version = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "CHANGELOG.md": r"^## (\S+)",
    "conda/recipe.yaml": r'^  version: "(.+)"$',
}
ADDRESSES = {
    "pyproject.toml": r'^Source = "(https://.+)"$',
    "CITATION.cff": r"^repository-code: (https://.+)$",
    "conda/recipe.yaml": r"^  repository: (https://.+)$",
    ".github/ISSUE_TEMPLATE/config.yml": r"^    url: (https://.+)/security/advisories/new$",
}
LICENCES = {
    "ISC": "Permission to use, copy, modify, and/or distribute this software for any purpose",
    "MIT": "Permission is hereby granted, free of charge",
}


class CheckError(Exception):
    """What is wrong, and what to do."""


def versions(root: Path) -> str:
    """Every file that names the version names the same one."""
    found = {file: _one(root / file, pattern) for file, pattern in VERSIONS.items()}
    if len(set(found.values())) != 1 or None in found.values():
        told = ", ".join(f"{file}: {version}" for file, version in found.items())
        raise CheckError(f"they differ: {told}")
    return f"{found['pyproject.toml']} in {len(found)} files"


def changelog(root: Path, tag: str) -> str:
    """The first section is that of this version. Once it is tagged it has a date."""
    version = _one(root / "tfio_store/__init__.py", VERSIONS["tfio_store/__init__.py"])
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    pattern = r"^## (\S+) \(([^)\n]+)\)\n(.*?)(?=^## |\Z)"
    section = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    if section is None or section[1] != version or not section[3].strip():
        raise CheckError(f"CHANGELOG.md does not begin with a section `## {version} (DATE)`")
    if tag and tag != f"v{version}":
        raise CheckError(f"the tag is {tag}, and the version is {version}")
    if tag and not re.fullmatch(r"\d{4}-\d\d-\d\d", section[2]):
        raise CheckError(f"the section says {section[2]!r}: write the date of the release there")
    return f"## {version} ({section[2]})"


def install(root: Path, tag: str) -> str:
    """The README tells how to install before there is a release, and then how to install that."""
    readme = (root / "README.md").read_text(encoding="utf-8")
    if "There is no release yet" not in readme:
        return "as a release is installed"
    if tag:
        raise CheckError("README.md says that there is no release yet: say how to install this one")
    return "BY HAND: the README says that there is no release yet"


def repository(root: Path, tag: str) -> str:
    """Where the project lives: no file can say it before there is a repository in public."""
    found = {file: _one(root / file, pattern) for file, pattern in ADDRESSES.items()}
    if not tag and not any(found.values()):
        return "BY HAND: no address yet: docs/release.md says where it stands"
    if len(set(found.values())) != 1 or None in found.values():
        told = ", ".join(f"{file}: {address or 'none'}" for file, address in found.items())
        raise CheckError(f"the address of the repository differs (docs/release.md): {told}")
    return str(found["pyproject.toml"])


def licences(root: Path) -> str:
    """Each file of others has its licence beside it, its version and its bytes are those that were
    fetched, and the package's metadata names the licence."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    expression = (_one(root / "pyproject.toml", r'^license = "(.+?)"') or "").split(" AND ")
    entries: dict[str, Any] = json.loads((root / VENDOR / "versions.json").read_text("utf-8"))
    present = {path.name for path in (root / VENDOR).iterdir()} - {"versions.json"}
    named = {entry[key] for entry in entries.values() for key in ("file", "licence")}
    if present != named:
        raise CheckError(f"{VENDOR} and its versions.json differ in {sorted(present ^ named)}")
    if f'"{VENDOR}/*.LICENSE"' not in project:
        raise CheckError(f"license-files of pyproject.toml leaves out those of {VENDOR}")
    for package, entry in entries.items():
        digest = hashlib.sha256((root / VENDOR / entry["file"]).read_bytes()).hexdigest()
        if digest != entry["sha256"]:
            raise CheckError(f"{entry['file']} is not what was fetched of {package}")
        words = " ".join((root / VENDOR / entry["licence"]).read_text(encoding="utf-8").split())
        kind = next(
            (name for name, text in LICENCES.items() if text in words), "an unknown licence"
        )
        if kind not in expression:
            raise CheckError(f"{package} is under {kind}, which `license` in pyproject.toml lacks")
    if "Apache License" not in (root / "LICENSE").read_text(encoding="utf-8"):
        raise CheckError("LICENSE is not Apache's")
    told = ", ".join(f"{package} {entry['version']}" for package, entry in entries.items())
    return f"{told}: {' AND '.join(expression)}"


def _one(file: Path, pattern: str) -> str | None:
    found = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else None

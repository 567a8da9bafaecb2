"""What must hold of the tree itself before anything is built."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

__all__ = [
    "CheckError",
    "changelog",
    "install",
    "licences",
    "links",
    "pins",
    "repository",
    "versions",
]

VENDOR = Path("tfio_store/show/static/vendor")
PAGES = ("*.md", "docs/**/*.md", ".github/**/*.md")
PINNED = re.compile(r"[0-9a-f]{40}")


class CheckError(Exception):
    """What is wrong, and what to do."""


def versions(root: Path) -> str:
    """Every file that names the version names the same one."""
    found = {
        "tfio_store/__init__.py": _one(root / "tfio_store/__init__.py", r'^__version__ = "(.+)"$'),
        "pyproject.toml": _one(root / "pyproject.toml", r'^version = "(.+)"$'),
        "CITATION.cff": _one(root / "CITATION.cff", r"^version: (.+)$"),
        "CHANGELOG.md, its first section": _one(root / "CHANGELOG.md", r"^## (\S+)"),
        "conda/recipe.yaml": _one(root / "conda/recipe.yaml", r'^  version: "(.+)"$'),
    }
    if len(set(found.values())) != 1:
        told = ", ".join(f"{file}: {version}" for file, version in found.items())
        raise CheckError(f"they differ: {told}")
    return f"{found['pyproject.toml']} in {len(found)} files"


def changelog(root: Path, tag: str) -> str:
    """The first section is that of this version. Once it is tagged it has a date."""
    version = _one(root / "tfio_store/__init__.py", r'^__version__ = "(.+)"$')
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    pattern = r"^## (\S+) \(([^)\n]+)\)\n(.*?)(?=^## |\Z)"
    section = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    if section is None or section[1] != version or not section[3].strip():
        raise CheckError(f"CHANGELOG.md does not begin with a section `## {version} (DATE)`")
    if tag and tag != f"v{version}":
        raise CheckError(f"the tag is {tag}, and the version is {version}")
    if tag and not re.fullmatch(r"\d{4}-\d\d-\d\d", section[2]):
        raise CheckError(f"the section says {section[2]!r}: write the date of the release there")
    return f"## {version} ({section[2]}), {section[3].count(chr(10) + '- ') + 1} entries"


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
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    urls = re.search(r"^\[project\.urls\]\n((?:.+\n)+)", text, re.MULTILINE)
    if urls is None:
        missing = "no address yet: `python -m scripts.release.repository https://…` writes it"
        if tag:
            raise CheckError(missing)
        return f"BY HAND: {missing}"
    return ", ".join(re.findall(r'"(https://.+)"', urls[1]))


def licences(root: Path) -> str:
    """Each file of others has its licence beside it, its version and its bytes are those that were
    fetched, and the package's metadata names the licence."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    expression = _one(root / "pyproject.toml", r'^license = "(.+?)"').split(" AND ")
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
            raise CheckError(
                f"{entry['file']} is not what was fetched of {package}: `make generate ONLY=vendor`"
            )
        text = (root / VENDOR / entry["licence"]).read_text(encoding="utf-8")
        kind = licence_of(text)
        if kind not in expression:
            raise CheckError(f"{package} is under {kind}, which `license` in pyproject.toml lacks")
    if "Apache License" not in (root / "LICENSE").read_text(encoding="utf-8"):
        raise CheckError("LICENSE is not Apache's")
    told = ", ".join(f"{package} {entry['version']}" for package, entry in entries.items())
    return f"{told}: {' AND '.join(expression)}"


def licence_of(text: str) -> str:
    """The SPDX name of a licence's text."""
    words = " ".join(text.split())
    if "Permission to use, copy, modify, and/or distribute this software for any purpose" in words:
        return "ISC"
    if "Permission is hereby granted, free of charge" in words:
        return "MIT"
    return "an unknown licence"


def links(root: Path) -> str:
    """What pages link to is there: files, and headings in them."""
    pages = sorted({page for pattern in PAGES for page in root.glob(pattern)})
    broken, count = [], 0
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            count += 1
            path, _, heading = target.partition("#")
            there = (page.parent / path).resolve() if path else page
            if not there.exists():
                broken.append(f"{page.relative_to(root)}: {target} is not there")
            elif heading and there.suffix == ".md" and heading not in headings(there):
                broken.append(f"{page.relative_to(root)}: {target} has no such heading")
    if broken:
        raise CheckError("\n".join(broken))
    return f"{count} links in {len(pages)} pages"


def headings(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for title in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[(.+?)\]\(.*?\)", r"\1", title).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found | set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))


def pins(root: Path) -> str:
    """Each action is named by the hash of a commit, with its version beside it, and always by the
    same one. Each job says what it may do."""
    found: dict[str, set[str]] = {}
    for file in sorted((root / ".github/workflows").glob("*.yml")):
        text = file.read_text(encoding="utf-8")
        for action, name, comment in re.findall(r"uses: (\S+)@(\S+)(.*)", text):
            if not PINNED.fullmatch(name) or not re.match(r"  # v\d", comment):
                raise CheckError(f"{file.name}: {action}@{name} is not `@HASH  # vVERSION`")
            found.setdefault(action, set()).add(name)
        if not re.search(r"^permissions: \{\}$", text, re.MULTILINE):
            raise CheckError(f"{file.name}: `permissions: {{}}` is missing before the jobs")
    several = [action for action, names in found.items() if len(names) > 1]
    if several:
        raise CheckError(f"{', '.join(several)}: two versions at once")
    return f"{len(found)} actions"


def _one(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise CheckError(f"{file.name} has nothing like {pattern}")
    return found[1]

"""``make sizes``: how large each part of the repository is, beside the limit that it keeps.

It counts the lines of files that git knows, so not what Cython makes; of the package and the tests
those of Python.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

Row = tuple[str, int, int | None]


def lines(folder: str, *suffixes: str) -> tuple[int, int]:
    """Lines and files of text below a folder."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", folder]
    answer = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    count = files = 0
    for name in sorted(set(filter(None, answer.stdout.split("\0")))):
        path = ROOT / name
        if not path.is_file() or (suffixes and path.suffix not in suffixes):
            continue
        try:
            count += len(path.read_text(encoding="utf-8").splitlines())
        except UnicodeDecodeError:
            continue  # vectors and corpora
        files += 1
    return count, files


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """The numbers and texts of a page's lines that can be broken: outside of code and tables."""
    code = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code and not line.lstrip().startswith(("|", "![")):
            yield number, line


def pages() -> list[Path]:
    return sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def rows() -> Iterator[Row]:
    for folder, suffixes, limit in (
        ("tfio_store", (".py",), None),
        ("ext", (), None),
        ("tests", (".py",), 56_000),
        ("bench", (), 3_000),
        ("scripts", (), 1_500),
        ("tfio_store/show", (".py",), 4_500),
    ):
        count, files = lines(folder, *suffixes)
        yield f"{folder}/: lines", count, limit
        if limit is None:
            yield f"{folder}/: files", files, None
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    yield "Makefile: targets", len(re.findall(r"^[a-z0-9-]+:.*## ", makefile, re.M)), 25
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    yield "CHANGELOG.md: lines", len(changes.splitlines()), 40
    speeds = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    yield "docs/benchmarks.md: words", len(speeds.split()), 2_500
    yield "pages: longest line", max(len(text) for p in pages() for _, text in prose(p)), 120


def main() -> None:
    print(f"{'':28}{'now':>8}{'limit':>8}")
    for name, count, limit in rows():
        over = "" if limit is None or count <= limit else "  too large"
        print(f"{name:28}{count:8,}{'' if limit is None else format(limit, ','):>8}{over}")


if __name__ == "__main__":
    main()

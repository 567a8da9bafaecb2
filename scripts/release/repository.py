"""``python -m scripts.release.repository https://…``: writes where the project lives.

The project has no address before it lies somewhere in public. Whoever puts it there runs this once.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from scripts.wheels.build import ROOT

__all__ = ["write_address"]

RECIPE = "conda/recipe.yaml"


def write_address(root: Path, url: str) -> list[str]:
    """The files that were changed. ValueError if the address is none."""
    url = url.rstrip("/").removesuffix(".git")
    if not re.fullmatch(r"https://[\w.-]+(/[\w.~-]+)+", url):
        raise ValueError(f"URL= is no https:// address of a repository: {url!r}")
    urls = {
        "Homepage": url,
        "Documentation": f"{url}/tree/main/docs",
        "Source": url,
        "Issues": f"{url}/issues",
        "Changelog": f"{url}/blob/main/CHANGELOG.md",
    }
    table = "[project.urls]\n" + "".join(f'{name} = "{link}"\n' for name, link in urls.items())
    contact = (
        "contact_links:\n  - name: Report a vulnerability\n"
        f"    url: {url}/security/advisories/new\n    about: In private, please. See SECURITY.md\n"
    )
    _replace(root / "pyproject.toml", r"\[project\.urls\]\n(?:.+\n)+", table, "[project.scripts]")
    _replace(
        root / "CITATION.cff", r"^repository-code: .+\n", f"repository-code: {url}\n", "license:"
    )
    recipe = f"  homepage: {url}\n  repository: {url}\n"
    _replace(root / RECIPE, r"^  homepage: .+\n  repository: .+\n", recipe, "  license: ")
    templates = root / ".github/ISSUE_TEMPLATE/config.yml"
    _replace(templates, r"^contact_links:\n(?:  .+\n)+", contact, "")
    return ["pyproject.toml", "CITATION.cff", RECIPE, str(templates.relative_to(root))]


def _replace(file: Path, old: str, new: str, before: str) -> None:
    """Put ``new`` where ``old`` is, else before a line; at the end if that is empty."""
    text = file.read_text(encoding="utf-8")
    if re.search(old, text, re.MULTILINE):
        text = re.sub(old, lambda _: new, text, count=1, flags=re.MULTILINE)
    elif before:
        blank = "\n" if before.startswith("[") else ""
        head, line, tail = text.partition(f"\n{before}")
        if not line:
            raise ValueError(f"{file} has no line that begins with {before!r}")
        text = f"{head}\n{new}{blank}{before}{tail}"
    else:
        text += new
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for changed in write_address(ROOT, sys.argv[1] if len(sys.argv) > 1 else ""):
        print(changed)

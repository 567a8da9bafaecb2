"""What `make release-check` looks at without building anything, and that it sees what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts.release import facts
from scripts.release.sbom import bill, complete

ROOT = Path(__file__).parent.parent
FILES = (
    "pyproject.toml", "CITATION.cff", "CHANGELOG.md", "conda/recipe.yaml", "tfio_store/__init__.py",
    "LICENSE", "README.md", ".github/ISSUE_TEMPLATE/config.yml", ".github/workflows/release.yml",
)  # fmt: skip

Check = Callable[[Path], str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what is looked at."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / facts.VENDOR, tmp_path / facts.VENDOR)
    return tmp_path


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    "check",
    [
        facts.versions, facts.licences,
        lambda root: facts.changelog(root, ""), lambda root: facts.repository(root, ""),
        lambda root: facts.install(root, ""),
    ],
)  # fmt: skip
def test_the_tree_is_in_order(check: Check) -> None:
    assert check(ROOT)


@pytest.mark.parametrize(
    ("check", "name", "old", "new", "said"),
    [
        (facts.versions, "CITATION.cff", "version: 0", "version: 9", "they differ"),
        (facts.versions, "pyproject.toml", 'version = "0', 'version = "9', "they differ"),
        (facts.versions, "conda/recipe.yaml", 'version: "0', 'version: "9', "they differ"),
        (facts.licences, "pyproject.toml", "Apache-2.0 AND ISC", "Apache-2.0", "under ISC"),
        (facts.licences, f"{facts.VENDOR}/d3.min.js", "function", "FUNCTION", "was fetched"),
        (facts.licences, f"{facts.VENDOR}/d3.LICENSE", "Permission", "No", "an unknown"),
    ],
)
def test_what_is_wrong_is_seen(
    tree: Path, check: Check, name: str, old: str, new: str, said: str
) -> None:
    change(tree / name, old, new)
    with pytest.raises(facts.CheckError, match=said):
        check(tree)


ADDRESS = "https://forge.example.org/group/tfio_store"


def test_a_release_has_a_date_its_tag_and_an_address(tree: Path) -> None:
    for check in (facts.changelog, facts.repository, facts.install):
        with pytest.raises(facts.CheckError):
            check(tree, "v0.0.7")
    version = (tree / "CITATION.cff").read_text("utf-8").partition("\nversion: ")[2].split()[0]
    change(tree / "CHANGELOG.md", "(unreleased)", "(2026-12-01)")
    change(tree / "README.md", "There is no release yet. ", "")
    assert facts.install(tree, f"v{version}")
    assert "2026-12-01" in facts.changelog(tree, f"v{version}")


def test_the_address_is_the_same_wherever_it_stands(tree: Path) -> None:
    """As docs/release.md says it is written."""
    page = (ROOT / "docs/release.md").read_text(encoding="utf-8")
    for number, (name, text) in enumerate(
        re.findall(r"^`(\S+)`:\n\n```\n(.*?)^```", page, re.M | re.S)
    ):
        with (tree / name).open("a", encoding="utf-8") as file:
            file.write("\n" + text.replace("https://ADDRESS", ADDRESS))
        if number < 3:
            with pytest.raises(facts.CheckError, match="the repository differs"):
                facts.repository(tree, "")
    assert facts.repository(tree, "v1") == ADDRESS


def test_a_bill_of_materials(tmp_path: Path) -> None:
    wheel = tmp_path / "tfio_store-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    found: dict[str, Any] = {"components": [{"name": "numpy"}], "metadata": {"component": {}}}
    document = complete(found, [wheel], ROOT)
    names = [part["name"] for part in document["components"]]
    assert names == ["numpy", *json.loads((ROOT / facts.VENDOR / "versions.json").read_text())]
    (file,) = document["metadata"]["component"]["components"]
    assert len(file["hashes"][0]["content"]) == 64
    with pytest.raises(facts.CheckError, match="no wheel"):
        bill([], tmp_path)

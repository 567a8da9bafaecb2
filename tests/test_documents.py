"""The code in README.md and docs/guide.md runs as it stands, and paths in documents exist."""

from __future__ import annotations

import ast
import html
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from bench.chart import BARS, times, told
from tests.servers.place import Place

ROOT = Path(__file__).parent.parent


def blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    found: list[str] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return found


@pytest.mark.tensorflow
def test_the_first_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = blocks("README.md")
    exec(compile(example.replace("/tmp/squares", str(tmp_path)), "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1].startswith("1000 ")


def headings(page: Path) -> list[str]:
    """The anchors of a page's headings."""
    lines = page.read_text(encoding="utf-8").splitlines()
    titles = [line.lstrip("#").strip() for line in lines if line.startswith("#")]
    return [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]


def test_each_command_of_make_is_there() -> None:
    """In pages, workflows and texts of programs, by make's own list of its targets."""
    command = ["make", "--no-print-directory", "-pnRr", "help"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = set(re.findall(r"^([a-z0-9-]+):", listed, re.MULTILINE))
    places = ("*.md", "docs/**/*.md", ".github/**/*", ".ci/run", "scripts/**/*.py", "bench/*.py")
    files = sorted({file for place in places for file in ROOT.glob(place) if file.is_file()})
    for file in files:
        text = file.read_text(encoding="utf-8")
        named = re.findall(r"(?:`|run: )make ([a-z][a-z0-9-]*[a-z0-9])\b", text)
        named += re.findall(r"^make ([a-z0-9-]+)(?: +#.*)?$", text, re.MULTILINE)
        named += re.findall(r"`make ([a-z]+ ONLY=[a-z-]+)`", text)
        for name in named:
            target = re.sub(r"^(long|bench|generate) ONLY=", r"\1-", name).split()[0]
            assert target in targets, f"{file.relative_to(ROOT)}: make {name}"


LINKED = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]


@pytest.mark.parametrize("document", LINKED)
def test_links_lead_somewhere(document: str) -> None:
    """Sphinx checks those between pages of the site."""
    text = (ROOT / document).read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)#?([^)]*)\)", text)
    assert links
    for link, anchor in links:
        assert (ROOT / link).exists(), f"{document} links to {link}"
        assert not anchor or anchor in headings(ROOT / link), f"{link} has no section {anchor}"


def test_the_guide(place: Place) -> None:
    names: dict[str, Any] = {"URL": place.url("train"), "options": place.storage_options}
    for number, block in enumerate(blocks("docs/guide.md")):
        exec(compile(block, f"docs/guide.md, block {number}", "exec"), names)


def test_the_partitions_of_what_a_dataset_costs(place: Place) -> None:
    names: dict[str, Any] = {"URL": place.url("train"), "options": place.storage_options}
    for number, block in enumerate(blocks("docs/scale.md")):
        exec(compile(block, f"docs/scale.md, block {number}", "exec"), names)


PAGES = [
    "docs/tutorial.md",
    *(f"docs/coming_from/{p.name}" for p in (ROOT / "docs/coming_from").iterdir()),
]


@pytest.mark.tensorflow
@pytest.mark.parametrize("document", sorted(PAGES))
def test_pages_that_write_to_a_folder(document: str, tmp_path: Path) -> None:
    names: dict[str, Any] = {"URL": f"{tmp_path}/train"}
    for number, block in enumerate(blocks(document)):
        exec(compile(block, f"{document}, block {number}", "exec"), names)


def test_the_reference_names_what_is_public_and_nothing_else() -> None:
    pages = (ROOT / "docs/reference").iterdir()
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    named = re.findall(r"^\.\. auto\w+:: tfio_store\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == tfs.__all__


@pytest.mark.parametrize("door", ["torch", "grain", "hf", "ray", "dask", "spark", "beam"])
def test_the_reference_names_all_of_an_integration(door: str) -> None:
    """Its framework need not be installed: what it offers is read from its text."""
    file = ROOT / f"tfio_store/{door}.py"
    file = file if file.exists() else ROOT / f"tfio_store/{door}/__init__.py"
    names = re.findall(r"^__all__ = (\[.+?\])", file.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    text = (ROOT / "docs/reference/integrations.md").read_text(encoding="utf-8")
    named = re.findall(rf"^\.\. auto\w+:: tfio_store\.{door}\.(\w+)$", text, re.MULTILINE)
    assert sorted(named) == ast.literal_eval(names[0])


def test_the_chart_shows_the_figures_of_the_page() -> None:
    """`make generate ONLY=chart` draws it."""
    page = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    drawn = html.unescape((ROOT / "docs/_static/speed.svg").read_text(encoding="utf-8"))
    for bar in BARS:
        assert f">{told(bar, times(bar, page))}</text>" in drawn, (
            f"{bar.name}: run `make generate ONLY=chart`"
        )


PATH = r"`((?:[a-z_0-9]+/)+(?:[a-z_0-9]+\.[a-z]+)?)`"
"""A file or folder: ``read/reader.py``, ``ext/core/``."""


@pytest.mark.parametrize("document", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_exist(document: str) -> None:
    found = re.findall(PATH, (ROOT / document).read_text(encoding="utf-8"))
    assert len(found) > 10
    for path in found:
        places = (ROOT / "tfio_store" / path, ROOT / path, ROOT / "tests" / path)
        assert any(place.exists() for place in places), f"{document} names {path}"


def test_the_tables_of_types_are_what_the_code_does() -> None:
    """`python -m tests.support.table_types` prints them."""
    pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    from tests.support.table_types import markdown

    pages = [
        (ROOT / page).read_text(encoding="utf-8") for page in ("docs/types.md", "docs/tables.md")
    ]
    for table in markdown().values():
        assert any(table in page for page in pages)


def test_the_page_of_the_command_line_is_what_the_commands_print() -> None:
    """`python -m tests.support.cli_page > docs/cli.md` makes it."""
    pytest.importorskip("click")
    pytest.importorskip("rich")
    pytest.importorskip("pyarrow")
    from tests.support.cli_page import page

    assert (ROOT / "docs/cli.md").read_text(encoding="utf-8") == page()

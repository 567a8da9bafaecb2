"""The code in README.md and docs/guide.md runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place

ROOT = Path(__file__).parent.parent


def blocks(document: str) -> list[str]:
    text = (ROOT / document).read_text(encoding="utf-8")
    found: list[str] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return found


def test_the_first_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("tensorflow")
    (example,) = blocks("README.md")
    exec(compile(example.replace("/tmp/squares", str(tmp_path)), "README.md", "exec"), {})
    assert capsys.readouterr().out.splitlines()[-1].startswith("1000 ")


def test_the_guide(place: Place) -> None:
    names: dict[str, Any] = {"URL": place.url("train"), "options": place.storage_options}
    for number, block in enumerate(blocks("docs/guide.md")):
        exec(compile(block, f"docs/guide.md, block {number}", "exec"), names)

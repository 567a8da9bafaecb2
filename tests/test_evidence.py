"""Long runs keep what they found in docs/evidence.md."""

from __future__ import annotations

import ast
import re
import shutil
from pathlib import Path

import pytest

from tests.support.evidence import PAGE, keep

TESTS = Path(__file__).parent


def test_a_run_replaces_its_own_row(tmp_path: Path) -> None:
    page = tmp_path / "evidence.md"
    shutil.copy(PAGE, page)
    keep("soak", 1200, "9 datasets", "nothing", page)
    before, after = (file.read_text("utf-8").splitlines() for file in (PAGE, page))
    (changed,) = set(after) - set(before)
    cells = changed.strip("| ").split(" | ")
    assert cells[:2] + cells[3:] == [
        "soak", "`make long ONLY=soak`", "20 min", "9 datasets", "nothing"
    ]  # fmt: skip
    assert len(before) == len(after)
    with pytest.raises(LookupError, match="no row 'sleep'"):
        keep("sleep", 1, "", "", page)


def test_each_long_run_has_a_row() -> None:
    """By the names in the programs that write rows, and the targets that the rows name."""
    text = PAGE.read_text("utf-8")
    rows = dict(re.findall(r"^\| ([^|]+) \| `(make [^`]+)` \|", text, re.MULTILINE))
    for file in TESTS.rglob("*.py"):
        source = file.read_text("utf-8")
        if "from tests.support.evidence import keep" not in source or file == Path(__file__):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "keep":
                name = node.args[0]
                assert not isinstance(name, ast.Constant) or name.value in rows, name

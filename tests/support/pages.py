"""The blocks of code in a page of the documents."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def blocks_of(document: str, language: str, under: str | None = None) -> list[str]:
    """The blocks of one language. ``under``: those below this heading of the second level."""
    text = (ROOT / document).read_text(encoding="utf-8")
    if under is not None:
        found = re.search(rf"^## {re.escape(under)}\n(.*?)(?=^## |\Z)", text, re.S | re.M)
        assert found is not None, f"{document} has no heading {under!r}"
        text = found[1]
    pattern = rf"^```{language}\n(.*?)^```$"
    return [match[1] for match in re.finditer(pattern, text, re.S | re.M)]


def run_in_shell(block: str, folder: Path, *, status: int = 0, **environment: str) -> str:
    """What a block of commands prints, run by bash in ``folder``. The first command that fails
    ends it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", block],
        cwd=folder,
        env={**os.environ, **environment, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout

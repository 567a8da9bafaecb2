"""Writes what a long run found into its row of docs/evidence.md."""

from __future__ import annotations

import re
import time
from pathlib import Path

__all__ = ["PAGE", "keep"]

PAGE = Path(__file__).parents[2] / "docs/evidence.md"


def keep(name: str, seconds: float, ran: str, found: str, page: Path = PAGE) -> None:
    """Replace the date, the time, what ran and what it found in the row of that name.

    LookupError if the page has no such row.
    """
    text = page.read_text(encoding="utf-8")
    row = re.search(rf"^\| {re.escape(name)} \| (`[^|]+`) \|.*$", text, re.MULTILINE)
    if row is None:
        raise LookupError(f"{page} has no row {name!r}")
    cells = (name, row[1], time.strftime("%Y-%m-%d"), f"{seconds / 60:.0f} min", ran, found)
    new = f"| {' | '.join(cells)} |"
    page.write_text(text[: row.start()] + new + text[row.end() :], encoding="utf-8")

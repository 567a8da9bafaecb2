"""Small HTML tables, which notebooks show in place of a ``repr``.

Every text in them is escaped. Who calls passes no credentials.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

__all__ = ["html_table"]

ROWS = 20
"""A table of more is cut, and its last line says how many are left out."""


def html_table(
    title: str, rows: Iterable[Sequence[object]], header: Sequence[str] | None = None
) -> str:
    """A title above a table of texts. Without ``header`` the first cell of each row is one."""
    lines = [tuple(map(str, row)) for row in rows]
    shown = lines[:ROWS]
    head = "" if header is None else f"<thead>{_row(header, 'th')}</thead>"
    body = "".join(
        _row(row, "td") if header is not None else _row(row[:1], "th", _cells(row[1:], "td"))
        for row in shown
    )
    left = len(lines) - len(shown)
    more = f"<div>and {left:,} more</div>" if left else ""
    return (
        f"<div><b>{escape(title)}</b>"
        f'<table style="text-align: left">{head}<tbody>{body}</tbody></table>{more}</div>'
    )


def _row(cells: Sequence[str], tag: str, rest: str = "") -> str:
    return f"<tr>{_cells(cells, tag)}{rest}</tr>"


def _cells(cells: Sequence[str], tag: str) -> str:
    return "".join(f'<{tag} style="text-align: left">{escape(cell)}</{tag}>' for cell in cells)

"""Texts that people read: names in errors, warnings, and tables that notebooks show."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from html import escape

from tfio_store.errors import printable

# What an error says of a name that does not exist: which one was meant, and which there are.


_SHOWN = 20
"""So many names are listed. A table may have thousands."""


def unknown(kind: str, name: object, known: Iterable[object]) -> str:
    """Say that there is no ``kind`` of this name, which one was meant, and which there are.

    ``no column 'lable'; did you mean 'label'? There are label, name``
    """
    names = [str(each) for each in known]
    said = f"no {kind} {name!r}{alike(name, names)}"
    if not names:
        return f"{said}; there is none"
    return f"{said}{' There' if said.endswith('?') else '; there'} are {listed(names)}"


def listed(names: Iterable[object]) -> str:
    """The names with commas between; "nothing" if there is none."""
    said = [str(each) for each in names]
    more = f" and {len(said) - _SHOWN:,} more" if len(said) > _SHOWN else ""
    return f"{', '.join(said[:_SHOWN])}{more}" if said else "nothing"


def alike(name: object, known: Iterable[object]) -> str:
    """``; did you mean 'label'?`` if a known name is like ``name``, else nothing."""
    from difflib import get_close_matches

    exact = {str(each).casefold(): str(each) for each in known}
    found = get_close_matches(str(name).casefold(), exact, n=2)
    return f"; did you mean {' or '.join(repr(exact[each]) for each in found)}?" if found else ""


# Warnings that point to the user's own line, from however deep in the package they come.


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(text), category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "tfio_store"


# Small HTML tables, which notebooks show in place of a ``repr``.
#
# Every text in them is escaped. Who calls passes no credentials.


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

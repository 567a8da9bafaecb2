"""What an error says of a name that does not exist: which one was meant, and which there are."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["alike", "listed", "unknown"]

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

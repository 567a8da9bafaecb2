"""Warnings that point to the user's own line, from however deep in the package they come."""

from __future__ import annotations

import sys
import warnings

from tfio_store.errors import printable

__all__ = ["warn"]


def warn(text: str, category: type[Warning] = RuntimeWarning) -> None:
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and _is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(printable(text), category, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "tfio_store"

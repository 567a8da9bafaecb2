"""Loads the compiled modules, and their Python twins in place of those that were not built."""

from __future__ import annotations

import os
import warnings
from importlib import import_module
from typing import Any

ADVICE = "install a wheel, or install again where there is a C compiler"

running: dict[str, str] = {}
"""The kind of module that `load` took for each name: "compiled" or "pure"."""


def load(name: str, compiled: str, pure: str) -> Any:
    """Import ``compiled``, or ``pure`` if it is missing or TFIO_STORE_CORE asks for it.

    A RuntimeWarning names the first one that is missing.
    """
    choice = os.environ.get("TFIO_STORE_CORE", "")
    if choice not in ("", "compiled", "pure"):
        raise ImportError(f"TFIO_STORE_CORE must be 'compiled' or 'pure', got {choice!r}")
    if choice != "pure":
        try:
            module = import_module(compiled)
            running[name] = "compiled"
            return module
        except ImportError as error:
            if choice == "compiled":
                raise
            _warn(name, error)
    running[name] = "pure"
    return import_module(pure)


def _warn(name: str, error: ImportError) -> None:
    if "pure" in running.values():
        return
    warnings.warn(
        f"tfio_store runs without its compiled {name} module, many times slower ({error}); "
        f"{ADVICE}; TFIO_STORE_CORE=pure accepts it in silence",
        RuntimeWarning,
        stacklevel=4,
    )

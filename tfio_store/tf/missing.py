"""Stand-ins for names whose package is not installed."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

__all__ = ["is_missing", "stand_in"]


def is_missing(package: str) -> bool:
    """Whether there is no such package to import."""
    try:
        return package not in sys.modules and find_spec(package) is None
    except ModuleNotFoundError:
        return True


def stand_in(name: str, package: str) -> type:
    """Make a class that says how to install ``package`` when it is called. So the name can be
    listed, imported and described."""
    text = (
        f"tfio_store.{name} needs {package}, which is not installed: "
        f"pip install 'tfio-store[{package}]'"
    )

    def refuse(cls: type, *_: Any, **__: Any) -> Any:
        raise ModuleNotFoundError(text, name=package)

    return type(name, (), {"__new__": refuse, "__doc__": text, "__module__": "tfio_store"})

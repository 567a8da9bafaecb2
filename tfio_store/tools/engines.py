"""What the doors of engines have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["needs"]


@contextmanager
def needs(extra: str, *packages: str) -> Iterator[None]:
    """Where one of these packages is not installed, the error tells how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in (extra, *packages):
            raise
        raise ModuleNotFoundError(
            f"tfio_store.{extra} needs {missing}, which is not installed: "
            f"pip install 'tfio_store[{extra}]'",
            name=missing,
        ) from error

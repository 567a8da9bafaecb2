"""Finds the options of a caller's fsspec filesystem, with which `open_store` makes its own."""

from __future__ import annotations

from typing import Any

__all__ = ["options_of"]


def options_of(filesystem: Any, scheme: str) -> dict[str, Any]:
    """The storage options of an fsspec ``filesystem``.

    If fsspec knows no class for ``scheme``, the filesystem's class now serves it. Raises TypeError
    if it is no fsspec filesystem, ValueError if it was made with positional arguments.
    """
    import fsspec

    if not isinstance(filesystem, fsspec.AbstractFileSystem):
        raise TypeError(f"filesystem: pass an fsspec filesystem, not {type(filesystem).__name__}")
    if filesystem.storage_args:
        raise ValueError(
            "filesystem: make it with keyword arguments only, so that it can be remade"
        )
    if scheme not in fsspec.available_protocols():
        fsspec.register_implementation(scheme, type(filesystem))
    return dict(filesystem.storage_options)

"""From an fsspec filesystem that a caller has made to what `open_store` needs to make its own."""

from __future__ import annotations

from typing import Any

__all__ = ["options_of"]


def options_of(filesystem: Any, scheme: str) -> dict[str, Any]:
    """The storage options of an fsspec ``filesystem``.

    Its class is made to serve ``scheme`` where fsspec knows none for it.

    Raises TypeError for what is no fsspec filesystem, ValueError for one that was made with
    positional arguments.
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

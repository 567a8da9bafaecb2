"""Grain: datasets of rows for JAX's training loops. Needs ``tfio_store[grain]``."""

try:
    import grain as _grain  # noqa: F401
except ModuleNotFoundError as _error:
    raise ModuleNotFoundError(
        "tfio_store.grain needs Grain: pip install 'tfio_store[grain]'", name=_error.name
    ) from _error

from tfio_store.grain.rows import elastic, source, together
from tfio_store.grain.stream import stream

__all__ = ["elastic", "source", "stream", "together"]

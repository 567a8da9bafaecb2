"""The compiled bridge to TensorFlow."""

from __future__ import annotations

from types import ModuleType

from tfio_store.records.compiled import ADVICE
from tfio_store.tf import status

__all__ = ["bridge_module"]


def bridge_module() -> ModuleType:
    """`tfio_store.tf._tensorflow`; ImportError that says what to do where it was not built."""
    try:
        from tfio_store.tf import _tensorflow
    except ImportError as error:
        raise ImportError(
            f"tfio_store runs without its compiled TensorFlow module ({error}); {ADVICE}"
        ) from error
    _tensorflow.at_exit(status.leave)
    return _tensorflow

"""What went wrong, in words for a page: no traceback, no secret, and what to do."""

from __future__ import annotations

from tfio_store.errors import DataLossError, ManifestError, TFIOStoreError
from tfio_store.storage.redaction import redacted
from tfio_store.storage.store import ReplacedError

__all__ = ["in_words"]


def in_words(error: BaseException) -> str:
    """One or two sentences."""
    text = " ".join(redacted(_text(error)).split()).rstrip(".") or type(error).__name__
    advice = _advice(error)
    return f"{text}. {advice}" if advice else f"{text}."


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, TFIOStoreError | OSError | ValueError | ImportError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _advice(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError | IsADirectoryError | NotADirectoryError):
        return "Check the URL; a dataset is named by its prefix, its folder, or a pattern."
    if isinstance(error, PermissionError):
        return "Check the credentials; -o passes storage options."
    if isinstance(error, ManifestError):
        return (
            "Was it written by something else, or is it being replaced? tfio-store info tells more."
        )
    if isinstance(error, DataLossError):
        return "tfio-store verify tells where all damage is."
    if isinstance(error, ReplacedError):
        return "Start tfio-store view again."
    if isinstance(error, OSError):
        return "The store failed after its retries; try again."
    if isinstance(error, TFIOStoreError | ValueError | ImportError):
        return ""
    return "This is a fault of this program."

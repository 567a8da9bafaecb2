"""Where objects are kept. The only part of the library that knows fsspec and obstore.

`open_store` finds the `Store` that keeps a URL; `store.py` says what a store does.
"""

from tfio_store.storage.cache import LocalCache
from tfio_store.storage.resolve import open_store
from tfio_store.storage.retry import Retry
from tfio_store.storage.storage import Storage
from tfio_store.storage.store import (
    ObjectInfo,
    Output,
    PendingUpload,
    Store,
    Version,
)

__all__ = [
    "LocalCache",
    "ObjectInfo",
    "Output",
    "PendingUpload",
    "Retry",
    "Storage",
    "Store",
    "Version",
    "open_store",
]

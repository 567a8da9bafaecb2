"""`Access`: how storage is reached. A public function makes it once, and hands it on whole."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfio_store.storage.cache.local_cache import LocalCache
from tfio_store.storage.resolve import check_backend, open_store
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import Store

__all__ = ["Access"]


@dataclass(frozen=True, slots=True)
class Access:
    """What callers pass as ``storage_options=``, ``retry=``, ``backend=`` and ``cache=``.

    Raises TypeError or ValueError that names the argument, and OSError for a cache's folder that
    cannot be written to.
    """

    storage_options: Mapping[str, Any] | None = field(default=None, repr=False)  # credentials
    retry: Retry | None = None
    backend: str = "fsspec"
    cache: LocalCache | None = None
    """Of readers only."""

    def __post_init__(self) -> None:
        if self.storage_options is not None:
            if not isinstance(self.storage_options, Mapping):
                kind = type(self.storage_options).__name__
                raise TypeError(f"storage_options= takes a dict of options, not {kind}")
            object.__setattr__(self, "storage_options", dict(self.storage_options) or None)
        if self.retry is not None and not isinstance(self.retry, Retry):
            raise TypeError(f"retry= takes a tfio_store.Retry, not {type(self.retry).__name__}")
        check_backend(self.backend)
        if self.cache is not None:
            from tfio_store.storage.cache.folder import folder_of

            folder_of(self.cache)

    def open(self, url: str | os.PathLike[str]) -> tuple[Store, str]:
        """The store that keeps ``url``, and the object's path in it; see `open_store`."""
        store, path = open_store(url, self.storage_options, retry=self.retry, backend=self.backend)
        if self.cache is None:
            return store, path
        from tfio_store.storage.cache.store import cached

        return cached(store, self.cache), path

    @property
    def arguments(self) -> dict[str, Any]:
        """The three arguments that all take, for a public function that another one is made of."""
        return {
            "storage_options": self.storage_options,
            "retry": self.retry,
            "backend": self.backend,
        }

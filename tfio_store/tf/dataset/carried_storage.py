"""A `Storage` as text: so it travels in graphs, and in what is saved of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

from tfio_store.storage import LocalCache, Retry, Storage

__all__ = ["from_json", "to_json"]


def to_json(storage: Storage) -> str:
    plain = {
        "options": storage.options,
        "retry": storage.retry and asdict(storage.retry),
        "backend": storage.backend,
        "cache": storage.cache and asdict(storage.cache),
    }
    try:
        return json.dumps(plain, sort_keys=True)
    except TypeError as error:
        raise TypeError(
            "storage options of a dataset must be JSON-able, since they travel with its "
            f"graph: {error}"
        ) from None


@lru_cache(maxsize=64)
def from_json(text: str) -> Storage:
    found = json.loads(text)
    retry = found.pop("retry", None)
    cache = found.pop("cache", None)
    return Storage(**found, retry=retry and Retry(**retry), cache=cache and LocalCache(**cache))

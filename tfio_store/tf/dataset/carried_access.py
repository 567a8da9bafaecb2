"""An `Access` as text: so it travels in graphs, and in what is saved of them."""

from __future__ import annotations

import json
from dataclasses import asdict
from functools import lru_cache

from tfio_store.storage import Access, LocalCache, Retry

__all__ = ["from_json", "to_json"]


def to_json(access: Access) -> str:
    plain = access.arguments | {
        "retry": access.retry and asdict(access.retry),
        "cache": access.cache and asdict(access.cache),
    }
    try:
        return json.dumps(plain, sort_keys=True)
    except TypeError as error:
        raise TypeError(
            "storage_options= of a dataset must be JSON-able, since they travel with its "
            f"graph: {error}"
        ) from None


@lru_cache(maxsize=64)
def from_json(text: str) -> Access:
    found = json.loads(text)
    retry = found.pop("retry", None)
    cache = found.pop("cache", None)
    return Access(**found, retry=retry and Retry(**retry), cache=cache and LocalCache(**cache))

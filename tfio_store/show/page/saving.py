"""Where a report is kept. A newer one takes the place of an older one, and of nothing else."""

from __future__ import annotations

import os

from tfio_store.show.page.html import FIRST_LINES
from tfio_store.storage import Storage
from tfio_store.storage.storage import for_writing

__all__ = ["save_page"]


def save_page(page: str, url: str | os.PathLike[str], storage: Storage | None) -> str:
    """Write the page whole or not at all; the answer is its URL, to show.

    Raises:
        FileExistsError: There is something else than a report, such as a shard.
        OSError: The storage fails.
    """
    store, path = for_writing(storage).open(url)
    there = store.look(path)
    shown, data = store.url(path), page.encode()
    if there is None:
        store.put(path, data, if_absent=True)
        return shown
    begin = bytes(store.read(path, 0, min(there.size, len(FIRST_LINES)), etag=there.etag).result())
    if begin != FIRST_LINES:
        raise FileExistsError(f"{shown} exists, and is no report: choose another name")
    store.put(path, data, if_match=there.etag)
    return shown

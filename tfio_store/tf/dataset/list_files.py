"""`list_files`: `tf.data.Dataset.list_files` for globs on any storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tfio_store.storage import Access, Retry
from tfio_store.storage.redaction import redacted

__all__ = ["list_files"]


def list_files(
    pattern: str | os.PathLike[str] | list[str | os.PathLike[str]],
    shuffle: bool = True,
    seed: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> tf.data.Dataset:
    """The URLs of the files that match, as a dataset of strings with known cardinality.

    Args:
        pattern: a path or URL with ``*``, ``?`` or ``[…]``, or a list of those. Names that begin
            with "_" or "." match only patterns whose names do.
        shuffle: in another order each epoch; False: sorted.
        seed: of the shuffle; the same seed gives the same orders.
        storage_options, retry, backend: as for `TFRecordDataset`.

    Raises:
        FileNotFoundError: nothing matches a pattern.
    """
    patterns = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    access = Access(storage_options, retry, backend)
    names = [name for each in patterns for name in _matches(os.fspath(each), access)]
    names = sorted(set(names))
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(names, tf.string, [len(names)]))
    return dataset.shuffle(max(len(names), 1), seed=seed) if shuffle else dataset


def _matches(pattern: str, access: Access) -> list[str]:
    store, path = access.open(pattern)
    hidden = path.rsplit("/", 1)[-1].startswith(("_", "."))
    names = [
        store.url(info.path)
        for info in store.glob(path)
        if hidden or not info.path.rsplit("/", 1)[-1].startswith(("_", "."))
    ]
    if not names:
        raise FileNotFoundError(f"{redacted(pattern)}: no file matches this pattern")
    return names

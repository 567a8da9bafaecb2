"""`list_files`: `tf.data.Dataset.list_files` for globs on any storage."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage
from tfio_store.tf.dataset.listed import ListedNames

__all__ = ["list_files"]


def list_files(
    pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    shuffle: bool = True,
    seed: int | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> tf.data.Dataset:
    """List the files that match, as a dataset of strings with known cardinality.

    Args:
        pattern (str | PathLike | list): A path or URL with ``*``, ``?`` or ``[…]``, or a list of
            these. Names that begin with "_" or "." match only patterns whose names do.
        shuffle (bool): Another order in each epoch. Default True. False sorts.
        seed (int | None): Of the shuffle. The same seed gives the same orders. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        tf.data.Dataset: Of URLs (tf.string, shape []). They open the files, so they hold the
            user and password of a pattern that has them.

    Raises:
        FileNotFoundError: Nothing matches a pattern.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=3)
        >>> files = tfs.list_files("train-*.tfrecord")
        >>> len(files), len(list(tfs.TFRecordDataset(files)))
        (3, 3)
    """
    patterns = [pattern] if isinstance(pattern, str | os.PathLike) else list(pattern)
    storage = given_storage(storage_options, storage) or Storage()
    names = [name for each in patterns for name in _matches(os.fspath(each), storage)]
    names = sorted(set(names))
    dataset = tf.data.Dataset.from_tensor_slices(tf.constant(names, tf.string, [len(names)]))
    listed = ListedNames(dataset, names, ordered=True)
    return listed.shuffle(max(len(names), 1), seed=seed) if shuffle else listed


def _matches(pattern: str, storage: Storage) -> list[str]:
    store, path = storage.open(pattern)
    hidden = path.rsplit("/", 1)[-1].startswith(("_", "."))
    names = [
        store.address(info.path)
        for info in store.glob(path)
        if hidden or not info.path.rsplit("/", 1)[-1].startswith(("_", "."))
    ]
    if not names:
        raise FileNotFoundError(f"{redacted(pattern)}: no file matches this pattern")
    return names

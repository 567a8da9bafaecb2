"""The ``filenames`` of a dataset: known now, or tensors that are known later, and what a graph
holds of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import tensorflow as tf

from tfio_store.dataset.model import Dataset, DatasetPart, look_at
from tfio_store.errors import DataLossWarning, TruncatedRecordError
from tfio_store.records.texts import warn

__all__ = ["check_sizes", "for_graph", "known_names", "names_dataset", "names_tensor"]


def known_names(filenames: Any) -> list[str | DatasetPart] | None:
    """All the names, and parts of datasets, flat. None if only running the graph shows them.
    TypeError, in TensorFlow's words, if they are no text. ValueError if TensorFlow can't make a
    tensor of them.
    """
    if isinstance(filenames, tf.data.Dataset):
        return None
    names: list[str | DatasetPart] = []
    if isinstance(filenames, Mapping):  # which flattens to its values
        _refuse(filenames)
    for value in tf.nest.flatten(filenames):
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        if isinstance(value, DatasetPart):
            names.append(value)
        elif isinstance(value, str | bytes):
            names.append(os.fsdecode(value))
        elif value is None or isinstance(value, Iterator | Set):
            _refuse(value)
        elif tf.is_tensor(value) and not hasattr(value, "numpy"):
            return None
        else:
            names.extend(_array_names(value))
    return names


def _refuse(value: Any) -> NoReturn:
    raise ValueError(
        "The `filenames` argument takes a string, a list of strings, a string tensor or a dataset "
        f"of strings, not a {type(value).__name__}"
    )


def _array_names(value: Any) -> list[str]:
    array = np.asarray(value.numpy() if tf.is_tensor(value) else value)
    if array.dtype.kind not in "OSU" and array.size:
        raise TypeError(
            "The `filenames` argument must contain `tf.string` elements. Got "
            f"`{array.dtype}` elements."
        )
    return [os.fsdecode(name) for name in array.reshape(-1).tolist()]


def names_dataset(filenames: Any) -> tf.data.Dataset:
    """Names that come at run time, as a dataset of string scalars. TypeError like TensorFlow's."""
    if isinstance(filenames, tf.data.Dataset):
        spec = filenames.element_spec
        if not isinstance(spec, tf.TensorSpec) or spec.dtype != tf.string:
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements. Got a dataset of "
                f"`{spec!r}` elements."
            )
        if not spec.shape.is_compatible_with([]):
            raise TypeError(
                "The `filenames` argument must contain `tf.string` elements of shape [] (i.e. "
                f"scalars). Got a dataset of element shape {spec.shape!r}."
            )
        return filenames
    return tf.data.Dataset.from_tensor_slices(tf.reshape(names_tensor(filenames), [-1]))


def names_tensor(filenames: Any) -> tf.Tensor:
    """Names that come at run time, string [n], or string [] of one. TypeError like TensorFlow's."""
    if tf.is_tensor(filenames) and filenames.dtype == tf.string and filenames.shape.rank == 0:
        return filenames
    flat = [tf.reshape(tf.convert_to_tensor(n), [-1]) for n in tf.nest.flatten(filenames)]
    if any(part.dtype != tf.string for part in flat):
        raise TypeError("The `filenames` argument must contain `tf.string` elements.")
    return flat[0] if len(flat) == 1 else tf.concat(flat, 0)


# The sizes of files that a dataset's graph reads as streams. Knows no TensorFlow.


def check_sizes(dataset: Dataset, *, skip_corrupt: bool) -> None:
    """Check that a manifest's shards are as long as it says, because a stream ends where its file
    does. TruncatedRecordError for the first shorter one. With ``skip_corrupt`` a warning for each.
    """
    counted = [i for i, shard in enumerate(dataset.shards) if shard.records is not None]
    for index, info in look_at(dataset, counted).items():
        shard = dataset.shards[index]
        if info.size >= shard.nbytes:
            continue
        error = TruncatedRecordError(
            f"the file ends before the byte {shard.nbytes} that its manifest says",
            path=shard.url,
            offset=info.size,
        )
        if not skip_corrupt:
            raise error
        warn(f"{error}: skipped", DataLossWarning)


# A long dataset for a graph, which holds the names of all shards and the places of all blocks.
# Knows no TensorFlow.


MOST_BLOCKS = 1 << 24
"""A shuffled block takes about 320 bytes while the dataset is made, and 180 behind that. So many
take 5 and 3 GiB, and half of that in order. Blocks of the usual size hold 16 TB then."""


def for_graph(dataset: Dataset) -> Dataset:
    """The dataset with all its shards and blocks at hand. Those of a long one are read now, many
    tables at once. ValueError if they are more than a graph can be expected to hold."""
    if dataset.paged is None:
        return dataset
    if dataset.paged.blocks > MOST_BLOCKS:
        raise ValueError(
            f"{dataset.summary()}: has {dataset.paged.blocks} blocks, and TFRecordDataset, whose "
            f"graph holds the place of each, takes up to {MOST_BLOCKS}. Read it with "
            "RecordReader(...).shard(index, count), or write larger blocks by block_bytes="
        )
    return replace(dataset, shards=tuple(dataset.shards))

"""A long dataset for a graph, which holds the names of all shards and the places of all blocks.
Knows no TensorFlow."""

from __future__ import annotations

from dataclasses import replace

from tfio_store.dataset.model import Dataset

__all__ = ["MOST_BLOCKS", "for_graph"]

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

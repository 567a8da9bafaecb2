"""Datasets for the tests of Grain, and what it gives of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfio_store as tfs

grain = pytest.importorskip("grain", reason="Grain is not installed")
flags = pytest.importorskip("absl.flags")
flags.FLAGS.mark_as_parsed()  # a program that absl.app.run starts has them parsed; workers ask

COUNT = 503
SCHEMA: dict[str, Any] = {"x": "int64", "tokens": ("int32", (4,))}


def write(url: str, first: int = 0, **options: Any) -> None:
    """Rows whose x counts them from ``first`` on, in three shards of some blocks each."""
    how = {"schema": SCHEMA, "max_shard_records": 200, "block_bytes": 4096, **options}
    with tfs.ShardedWriter(url, **how) as writer:
        for x in range(first, first + COUNT):
            writer.write({"x": x, "tokens": list(range(x, x + 4))})


def xs(elements: Any) -> list[int]:
    """The x of all rows or batches, in their order."""
    return [int(x) for each in elements for x in np.atleast_1d(each["x"])]


def workers_of(dataset: Any, count: int) -> Any:
    """The dataset, read by so many worker processes."""
    options = grain.multiprocessing.MultiprocessingOptions(num_workers=count)
    return dataset.mp_prefetch(options)

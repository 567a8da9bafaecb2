"""Datasets for the tests of loaders, and what loaders give of them."""

from __future__ import annotations

from typing import Any

import pytest

import tfio_store as tfs

torch_data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")

COUNT = 1003


def written(url: str, count: int = COUNT, **options: Any) -> str:
    """A dataset of ``count`` rows, whose x counts them, in four shards of some blocks each."""
    with tfs.ShardedWriter(
        url, num_shards=4, block_bytes=4096, schema={"x": "int64"}, **options
    ) as writer:
        for x in range(count):
            writer.write({"x": x})
    return url


def loader(dataset: Any, workers: int, method: str = "fork", **options: Any) -> Any:
    """A DataLoader of batches that the dataset makes."""
    how = {"multiprocessing_context": method} if workers else {}
    return torch_data.DataLoader(
        dataset, batch_size=None, num_workers=workers, timeout=120 * bool(workers), **how, **options
    )


def numbers(batches: Any) -> list[int]:
    """The x of all rows, in their order."""
    return [x for batch in batches for x in batch["x"].tolist()]

"""A dataset of mappings that a writer learned the columns of, and what is wanted of each door."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import tfio_store as tfs

NAMES = ("number", "name", "score", "pair", "ids", "array", "maybe", "empty")
"""In the order in which a user writes them."""

SCHEMA = tfs.Schema(
    {
        "array": ("float32", (2, 3)),
        "empty": ("unknown", (None,)),
        "ids": ("int64", (None,)),
        "maybe": tfs.Feature("int64", nullable=True),
        "name": "bytes",
        "number": "int64",
        "pair": ("float32", (2,)),
        "score": "float32",
    }
)


def mapping(i: int) -> dict[str, Any]:
    """A record as a user writes it."""
    return {
        "number": i,
        "name": f"n{i}",
        "score": i / 4,
        "pair": [float(i), i + 0.5],
        "ids": list(range(i % 4)),
        "array": np.full((2, 3), i, np.float32),
        "maybe": None if i % 3 else i,
        "empty": [],
    }


def row(i: int) -> dict[str, Any]:
    """The same as plain values, as each door gives it."""
    return mapping(i) | {"name": f"n{i}".encode(), "array": [[float(i)] * 3] * 2}


def write(url: str | os.PathLike[str], count: int) -> None:
    with tfs.ShardedWriter(url, num_shards=3) as writer:
        for i in range(count):
            writer.write(mapping(i))

"""Datasets of robots' episodes that tests write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs

FEATURES: dict[str, Any] = {
    "steps": {
        "observation": {"image": tfs.Feature.image("png"), "state": ("float32", (2,))},
        "action": ("float32", (3,)),
        "is_first": "bool",
        "is_last": "bool",
        "language_instruction": tfs.Feature.text(),
    },
    "episode_metadata": {"file_path": tfs.Feature.text()},
}


def episode(number: int, length: int, pixels: int = 2) -> dict[str, Any]:
    """Actions and pixels tell the episode and the step."""
    steps = [
        {
            "observation": {
                "image": np.full((pixels, pixels, 3), (number * 16 + t) % 256, np.uint8),
                "state": [number, t],
            },
            "action": [number, t, t / 2],
            "is_first": t == 0,
            "is_last": t == length - 1,
            "language_instruction": f"task {number % 3}",
        }
        for t in range(length)
    ]
    return {"steps": steps, "episode_metadata": {"file_path": f"/data/{number}.h5"}}


def written(
    url: str | Path, lengths: Sequence[int], *, num_shards: int = 2, pixels: int = 2, **options: Any
) -> str:
    """The split's URL. Episode i has ``lengths[i]`` steps; they lie shard by shard."""
    with tfs.EpisodeWriter(url, FEATURES, num_shards=num_shards, **options) as writer:
        for number, length in enumerate(lengths):
            writer.write(episode(number, length, pixels))
    return f"{url}/train"

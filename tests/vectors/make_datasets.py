"""Writes the golden datasets of this folder: ``python -m tests.vectors.make_datasets``.

They are committed, so that later versions are held to what this one writes: shards, index and
manifest. Write them anew only if the formats shall change.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import tfio_store as tfs

HERE = Path(__file__).parent / "datasets"

DATASETS: dict[str, dict[str, Any]] = {
    "index-1": {"record_positions": False},
    "index-2": {"record_positions": True},
    "index-1-gzip": {"compression": "GZIP"},
}
"""Options of the writer, by the dataset's name. The digit is the version of its index."""

RAW = ("index-1", "index-2")
"""Those whose bytes no compressor decides."""


def records() -> list[bytes]:
    """The records of each dataset, in the order of its shards."""
    rng = random.Random("datasets")
    return [b"%d " % i + rng.randbytes(rng.choice((0, 1, 90, 1500))) for i in range(60)]


def write(name: str, folder: Path) -> None:
    """Write a dataset ``train``: half of the records in each of two shards, several blocks in
    each."""
    with tfs.ShardedWriter(
        str(folder / "train"),
        num_shards=2,
        block_bytes=4096,
        shard_for=lambda record: int(int(record.split()[0]) >= 30),
        **DATASETS[name],
    ) as writer:
        writer.write_batch(records())


def main() -> None:
    for name in DATASETS:
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir(parents=True)
        write(name, HERE / name)


if __name__ == "__main__":
    main()

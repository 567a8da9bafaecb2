"""Writes the golden datasets of this folder: ``python -m tests.vectors.make_datasets [name …]``.

They are committed, so that later versions are held to what this one writes: shards, index and
manifest. Write them anew only if the formats shall change.
"""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import tfio_store as tfs
import tfio_store.write.parts as parts

HERE = Path(__file__).parent / "datasets"

DATASETS: dict[str, dict[str, Any]] = {
    "index-1": {"record_positions": False},
    "index-2": {"record_positions": True},
    "index-1-gzip": {"compression": "GZIP"},
    "index-3": {"record_positions": True},
    "index-3-gzip": {"compression": "GZIP"},
    "index-4": {"record_positions": False},
    "index-4-positions": {"record_positions": True},
    "index-4-gzip": {"compression": "GZIP"},
}
"""Options of the writer, by the dataset's name. The digit is the version of its index: of those
before 4 the versions before this one wrote the files."""

RAW = ("index-4", "index-4-positions")
"""Those whose bytes nothing but the records decides: neither a compressor nor random names."""

LONG = ("index-3", "index-3-gzip")
"""Those whose list of shards lies apart, as if they were long."""


def records() -> list[bytes]:
    """The records of each dataset, in the order of its shards."""
    rng = random.Random("datasets")
    return [b"%d " % i + rng.randbytes(rng.choice((0, 1, 90, 1500))) for i in range(60)]


def write(name: str, folder: Path) -> None:
    """Write a dataset ``train``: half of the records in each of two shards, several blocks in
    each."""
    most = 0 if name in LONG else parts.MOST_LISTED
    with (
        mock.patch.object(parts, "MOST_LISTED", most),
        tfs.ShardedWriter(
            str(folder / "train"),
            num_shards=2,
            block_bytes=4096,
            shard_for=lambda record: int(int(record.split()[0]) >= 30),
            **DATASETS[name],
        ) as writer,
    ):
        writer.write_batch(records())


def main() -> None:
    for name in sys.argv[1:] or DATASETS:
        shutil.rmtree(HERE / name, ignore_errors=True)
        (HERE / name).mkdir(parents=True)
        write(name, HERE / name)


if __name__ == "__main__":
    main()

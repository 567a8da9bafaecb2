"""Damaged shards: what is lost, and a new dataset of all that is not.

    python examples/salvage.py FOLDER

Writes three shards, damages two of them as disks and broken uploads do, and copies what is sound.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tfio_store as tfs

RECORDS = 3_000


def damage(folder: Path) -> None:
    """A bit of one shard flips, and another shard loses its end."""
    first, second, _ = sorted(folder.glob("train-*.tfrecord"))
    data = bytearray(first.read_bytes())
    data[len(data) // 2] ^= 1
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:-100])


def main(folder: Path) -> None:
    url = str(folder / "train")
    with tfs.ShardedWriter(url, num_shards=3) as writer:
        for i in range(RECORDS):
            writer.write(f"record {i}".encode())
    damage(folder)

    try:
        sum(1 for _ in tfs.RecordReader(url))
    except tfs.CorruptRecordError as error:
        print("a plain reader stops:", error)

    report = tfs.salvage(url, str(folder / "sound"))
    for lost in report.skipped:
        print(f"lost: {Path(lost.path).name} at {lost.offset}, {lost.size}: {lost.reason}")
    kept = sum(1 for _ in tfs.RecordReader(str(folder / "sound")))
    print(f"{kept} of {RECORDS} records are kept")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "salvaged"))

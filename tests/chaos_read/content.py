"""What is read: sources in two generations, as objects by name, and the records that they hold."""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import tfio_store as tfs

__all__ = ["FORMS", "Source", "source"]

FORMS = {
    "raw": None,
    "gzip": "GZIP",
    "zlib": "ZLIB",
    "raw set": None,
    "gzip set": "GZIP",
    "zlib set": "ZLIB",
    "zstd set": "ZSTD",
}
VARIANTS = 4
_POOL = random.Random(0).randbytes(1 << 20)


@dataclass(frozen=True)
class Source:
    """One generation: ``objects`` in the order in which they are written, and in which ``records``
    come. ``named`` is what a reader is given."""

    form: str
    named: str
    objects: dict[str, bytes]
    records: list[bytes]

    @property
    def by_shard(self) -> list[list[bytes]]:
        half = (len(self.records) + 1) // 2
        return [self.records[:half], self.records[half:]] if self.is_set else [self.records]

    @property
    def is_set(self) -> bool:
        return self.form.endswith("set")

    @property
    def shards(self) -> list[str]:
        """The objects that hold records."""
        return [name for name in self.objects if not name.startswith("_")]


@cache
def source(form: str, variant: int, word: str) -> Source:
    """The generations of a variant, told by their ``word``, have records of the same sizes."""
    records = _records(variant, word)
    with tempfile.TemporaryDirectory() as folder:
        if not form.endswith("set"):
            with tfs.TFRecordWriter(f"{folder}/data", FORMS[form]) as writer:
                writer.write_batch(records)
            return Source(form, "data", {"data": Path(f"{folder}/data").read_bytes()}, records)
        with tfs.ShardedWriter(f"{folder}/data", num_shards=2, compression=FORMS[form]) as sharded:
            sharded.write_batch(records)
        paths = sorted(Path(folder).iterdir(), key=lambda path: (path.name[0] == "_", path.name))
        objects = {path.name: path.read_bytes() for path in paths}
        ordered = list(tfs.RecordReader(f"{folder}/data"))
        assert ordered == records[::2] + records[1::2]
        return Source(form, "data", objects, ordered)


def _records(variant: int, word: str) -> list[bytes]:
    dice = random.Random(variant)
    count, most = [(1_200, 1_000), (200, 6_000), (5_000, 100), (120, 60_000)][variant]
    records = []
    for number in range(count):
        at, size = dice.randrange(900_000), dice.randrange(most)
        records.append(f"{word}{number:06d}".encode() + _POOL[at : at + size])
    return records

"""The content of a dataset under test: generations that replace or extend each other."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import tfio_store as tfs
from tests.servers.place import Place
from tfio_store.dataset.folder import Folder, Root

NAME = "ds/train"
CODECS = (None, "GZIP", "ZLIB", "ZSTD")


@dataclass(frozen=True)
class Generation:
    """One writer's work, the same in every process that asks for it."""

    number: int
    if_exists: str
    codec: str | None
    records: int

    @classmethod
    def draw(cls, number: int, dice: random.Random, before: list[Generation]) -> Generation:
        append = before and dice.random() < 0.3
        return cls(
            number,
            "error" if not before else "append" if append else "overwrite",
            before[0].codec if append else dice.choice(CODECS),
            dice.choice((1, 5, 300, 1500)),  # never none: content tells generations apart
        )

    def content(self) -> list[bytes]:
        dice = random.Random(self.number)
        return [b"%d:%d:" % (self.number, i) + dice.randbytes(9000) for i in range(self.records)]

    def write(self, place: Place, **options: Any) -> None:
        """As a rolling writer, a writer of two shards, or a job."""
        options |= {
            "compression": self.codec,
            "level": None if self.codec is None else 1,
            "if_exists": self.if_exists,
            "memory_budget": 16 << 20,  # small parts, so that shards are multipart uploads
        }
        options.setdefault("storage", tfs.Storage(place.storage_options))
        records, url = self.content(), place.url(NAME)
        if self.number % 3 == 2:
            with tfs.WriteJob(url, num_shards=2, **options) as job:
                job.commit([job.write_shard(i, records[i::2]) for i in range(2)])
            return
        shards: dict[str, Any] = (
            {"max_shard_records": 700} if self.number % 3 == 1 else {"num_shards": 2}
        )
        with tfs.ShardedWriter(url, **shards, **options) as writer:
            writer.write_batch(records)

    def in_order(self) -> list[bytes]:
        """The records as the dataset's shards hold them, one shard after the other."""
        content = self.content()
        if self.number % 3 == 1:
            return content
        return [record for i in range(2) for record in content[i::2]]


def check(place: Place, before: list[Generation], tried: Generation) -> list[Generation]:
    """Which generations make up the dataset now. AssertionError if it is not whole."""
    after = [*before, tried] if tried.if_exists == "append" else [tried]
    found = read(place)
    check_globbed(place, before, after)
    if found == expected(before):
        return before
    assert found == expected(after), "the dataset is neither the old one nor the new one"
    return after


def check_globbed(place: Place, *allowed: list[Generation]) -> None:
    """What a reader that knows no manifest finds is a part of one of these, and never of two."""
    names = [name.removeprefix("ds/") for name in place.names()]
    shards = [name for name in names if name.startswith("train-")]
    known = [set(expected(generations) or ()) for generations in allowed]
    found = {
        record
        for name in shards
        for record in tfs.RecordReader(
            place.url(f"ds/{name}"), storage_options=place.storage_options
        )
    }
    assert any(found <= one for one in known), f"a pattern finds records of two: {shards}"


def expected(generations: list[Generation]) -> list[bytes] | None:
    if not generations:
        return None
    return [record for generation in generations for record in generation.in_order()]


def read(place: Place) -> list[bytes] | None:
    """Every record, checked; None when there is no dataset."""
    try:
        stored(place, "_train.manifest.json")
    except FileNotFoundError:
        return None
    reader = tfs.RecordReader(place.url(NAME), storage_options=place.storage_options)
    return list(reader)


def check_objects(place: Place) -> None:
    """After `clean`: the manifest, what it names (with the right CRC), and nothing else."""
    store, folder = place.open("ds")
    names = {name.removeprefix("ds/") for name in place.names()}
    assert not store.pending_uploads(folder)
    if "_train.manifest.json" not in names:
        assert not names
        return
    root = Root(Folder(store, folder), "_train.manifest.json")
    manifest = tfs.DatasetManifest.from_bytes(stored(place, root.name), folder=root)
    assert names == {root.name, *manifest.names()}
    for shard in manifest.shards:
        assert tfs.crc32c(stored(place, shard.name)) == shard.crc32c


def stored(place: Place, name: str) -> bytes:
    store, path = place.open(f"ds/{name}")
    return bytes(store.read(path, 0, store.info(path).size).result())

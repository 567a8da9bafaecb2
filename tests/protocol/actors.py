"""What the actors do: each a small program in the library's public words."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.protocol.store import ask
from tests.protocol.world import DAY, FOLDER
from tfio_store.maintain.clean import clean
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import RecordDecoder
from tfio_store.write.sharded_writer import ShardedWriter
from tfio_store.write.write_job import WriteJob

URL = f"sim://{FOLDER}/train"
BUDGET = 16 << 20
GLOBBED = "train-"

Records = tuple[bytes, ...]


@dataclass(frozen=True)
class Write:
    """A `ShardedWriter` of one or more shards."""

    if_exists: Literal["error", "overwrite", "append"]
    shards: int = 1
    options: dict[str, Any] = field(default_factory=dict)

    def records(self, name: str) -> Records:
        return tuple(f"{name}{number}".encode() for number in range(self.shards))

    def run(self, name: str) -> None:
        with ShardedWriter(
            URL,
            num_shards=self.shards,
            if_exists=self.if_exists,
            memory_budget=BUDGET,
            **self.options,
        ) as writer:
            writer.write_batch(list(self.records(name)))


@dataclass(frozen=True)
class Job:
    """A `WriteJob`, whose driver shows its pickle and its infos to copies, and then commits."""

    if_exists: Literal["error", "overwrite", "append"]
    shards: int = 1
    commits: bool = True
    fixed: bool = True
    """Whether the number of shards is known."""
    options: dict[str, Any] = field(default_factory=dict)

    def records(self, name: str) -> Records:
        return tuple(f"{name}{number}".encode() for number in range(self.shards))

    def run(self, name: str) -> None:
        job = WriteJob(
            URL,
            num_shards=self.shards if self.fixed else None,
            if_exists=self.if_exists,
            memory_budget=BUDGET,
            **self.options,
        )
        with job:
            infos = [
                written(job, number, record) for number, record in enumerate(self.records(name))
            ]
            ask("show", name, pickle.dumps((job, infos)))
            if self.commits:
                job.commit(infos)


@dataclass(frozen=True)
class Copy:
    """A second copy of ``job``: ends it too, or writes a shard late."""

    job: str
    does: Literal["commit", "abort", "write"]

    def run(self, name: str) -> None:
        job, infos = pickle.loads(ask("wait", self.job))
        if self.does == "commit":
            job.commit(infos)
        elif self.does == "abort":
            job.abort()
        else:
            written(job, 0, f"{self.job}0".encode())


def written(job: WriteJob, number: int, record: bytes) -> Any:
    """What a task gives its driver."""
    if job.num_shards is None:
        return job.write([record], order=number)
    return job.write_shard(number, [record])


@dataclass(frozen=True)
class Clean:
    """`clean`, at its default age or another."""

    older_than: float = DAY

    def run(self, name: str) -> None:
        clean(URL, older_than=self.older_than)


@dataclass(frozen=True)
class Read:
    """Open the dataset, and read it later."""

    watches = True

    def run(self, name: str) -> Records:
        reader = RecordReader(URL)
        return tuple(reader)


@dataclass(frozen=True)
class Glob:
    """A reader that knows no manifest: list the shards by a pattern, and read them later."""

    watches = True

    def run(self, name: str) -> Records:
        found = [info.path for info in ask("glob", f"{FOLDER}/{GLOBBED}*")]
        return tuple(record for path in found for record in decoded(ask("get", path)[0], path))


def decoded(data: bytes, path: str) -> list[bytes]:
    """The records of a whole file."""
    decoder = RecordDecoder(path=path)
    records = list(map(bytes, decoder.feed(data)))
    decoder.finish()
    return records


@dataclass(frozen=True)
class Night:
    """Nobody: so many seconds pass, when no request is under way."""

    seconds: float = 2 * DAY

    def run(self, name: str) -> None:
        ask("sleep", name, self.seconds)


Program = Write | Job | Copy | Clean | Read | Glob | Night

"""`Dataset`: shards and their blocks as one picklable value.

A compressed stream written elsewhere cannot be cut: its blocks stay unknown.
"""

from __future__ import annotations

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tfio_store.dataset.checks import held
from tfio_store.dataset.inflate.checkpoints import Restart
from tfio_store.dataset.manifest import Growth, Loss
from tfio_store.dataset.shards import Shard, Shards
from tfio_store.errors import ManifestError, printable
from tfio_store.example.schema import Schema
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.texts import html_table
from tfio_store.storage import ObjectInfo, Storage, Store
from tfio_store.storage.redaction import redacted
from tfio_store.storage.store import LOOKS_AT_ONCE, listed
from tfio_store.storage.threads import mapped

__all__ = [
    "Block",
    "Dataset",
    "DatasetPart",
    "Limits",
    "Shard",
    "Shards",
    "Told",
    "common_told",
    "facts_of",
    "hold_versions",
    "look_at",
]


# What a manifest says about a dataset's records, beside where they are.


class Told(NamedTuple):
    """``schema`` (as JSON) and ``metadata`` hold for all records; each is None if it is unknown.
    ``generation`` is the manifest's, and so are the records that were ``lost``, and the
    ``growth`` of the schema: None if several sources differ in it. ``values``: the records that it
    counts, and how many values lists of numbers have in these."""

    schema: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    generation: str | None = None
    lost: Loss | None = None
    growth: tuple[Growth, ...] | None = ()
    values: tuple[int, Mapping[str, int]] | None = None


def common_told(told: Sequence[Told]) -> Told:
    """The facts that several sources share."""
    each = zip(*told, strict=True)
    return Told(*(said[0] if said.count(said[0]) == len(said) else None for said in each))


@dataclass(frozen=True, slots=True)
class Block:
    """A run of whole consecutive records of one shard.

    ``start`` and ``stop`` are bytes of the stored object, ``raw_start`` and ``raw_stop`` the same
    in the decompressed stream. Only ``records`` of it are meant: those ``before`` and ``behind``
    them are decoded, checked and dropped. ``sums`` are those of `BlockTable` before it and up to
    its end.
    """

    shard: int
    start: int
    stop: int
    raw_start: int
    raw_stop: int
    records: int
    before: int = 0
    behind: int = 0
    sums: tuple[int, int] | None = None
    restart: Restart | None = None
    """How it is inflated, if it lies in a stream that others compressed."""

    def part(self, first: int, stop: int) -> Block:
        """This block, with records ``first:stop`` of those that are meant."""
        before, behind = self.before + first, self.behind + self.records - stop
        return replace(self, records=stop - first, before=before, behind=behind)


MEMORY_BUDGET = 256 << 20
"""Bytes of memory that a reader or a writer takes, if the caller does not say."""

TASK_BUDGET = 64 << 20
"""Those of a task of an engine, many of which share a machine."""

CACHE_BUDGET = 64 << 20
"""Bytes of blocks that a source of single records keeps, if the caller does not say."""


class Limits(NamedTuple):
    """The limits of whoever opens a source. Files without an index are walked within them, where
    that is needed to cut the files."""

    memory_budget: int = MEMORY_BUDGET
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES


class DatasetPart(ABC):
    """A value that stands for a dataset, or for a part of one. Functions take it as a source."""

    @abstractmethod
    def _open(self, storage: Storage | None, compression: str | None, limits: Limits) -> Dataset:
        """Its shards and blocks. The arguments are those of `open_dataset`."""

    def _reached(self) -> Storage | None:
        """How its storage is reached, if it knows."""
        return None

    def _whole(self) -> object:
        """The source that was opened, or of which this is a part, if it was named. Else None."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Its name in errors, without secrets."""


@dataclass(frozen=True)
class Dataset(DatasetPart):
    """Shards in order, and how to reach them. It pickles as names and numbers, never as handles."""

    shards: Shards
    storage: Storage = field(default_factory=Storage)
    told: tuple[Told, ...] = field(default=(), compare=False, repr=False)
    """The facts in the manifest of each source that was named. Empty if there is no manifest."""
    named: object = field(default=None, compare=False, repr=False)
    """The source, if it is one name or one part."""

    def open(self, shard: int) -> tuple[Store, str]:
        """The store of a shard and the shard's path there."""
        return self.storage.open(self.shard(shard).address)

    def shard(self, number: int) -> Shard:
        """One shard, of a long dataset without its block table."""
        return self.shards.at(number)

    @property
    def num_records(self) -> int | None:
        """The records of all shards. None where the count of one is not known."""
        return self.shards.records

    @property
    def nbytes(self) -> int:
        """The bytes of all shards, as they are stored. Of a part of a shard, those of its
        blocks."""
        return self.shards.nbytes

    @property
    def schema(self) -> Schema | None:
        """The schema of all records, as the manifests say."""
        schema = common_told(self.told).schema
        return None if schema is None else _schema_of(self, schema)

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata that the manifests have in common."""
        return common_told(self.told).metadata

    @property
    def lost(self) -> Loss | None:
        """The records that all sources together lack since they were salvaged."""
        return Loss.all_of(told.lost for told in self.told)

    @property
    def growth(self) -> tuple[Growth, ...]:
        """The appends that changed the schema, of one source, which counts their records."""
        return (self.told[0].growth or ()) if len(self.told) == 1 else ()

    @property
    def values(self) -> dict[str, int]:
        """How many values lists of numbers have in all records, of those that are known for each
        source. Nothing of a part of one."""
        known = [told.values for told in self.told if told.values is not None]
        whole = len(known) == len(self.told) and sum(n for n, _ in known) == self.num_records
        if not whole or not known:
            return {}
        names = [name for name in known[0][1] if all(name in values for _, values in known)]
        return {name: sum(values[name] for _, values in known) for name in names}

    def held(self) -> str:
        """How many shards there are, and how many records, if that is known."""
        return held(self.num_records, len(self.shards))

    def summary(self) -> str:
        """The number of records and shards, and where the first shard lies."""
        return printable(f"{self.held()}, {self.shard(0).url}") if self.shards else self.held()

    @property
    def has_blocks(self) -> bool:
        """Whether every shard's blocks are known."""
        return self.shards.have_blocks

    def block(self, shard: int, number: int) -> Block:
        """Block ``number`` of one shard."""
        table = self.shards.table(shard)
        return Block(
            shard,
            int(table.offsets[number]),
            int(table.stops[number]),
            int(table.raw_offsets[number]),
            int(table.raw_offsets[number + 1]),
            int(table.records[number + 1] - table.records[number]),
            table.before if number == 0 else 0,
            table.behind if number == len(table) - 1 else 0,
            None if table.sums is None else (int(table.sums[number]), int(table.sums[number + 1])),
            None if table.checkpoints is None else table.checkpoints[number],
        )

    def with_shards(self, known: Mapping[int, Shard]) -> Dataset:
        """This dataset, with what is known now of some of its shards."""
        return replace(self, shards=self.shards.known(known)) if known else self

    def without_checkpoints(self) -> Dataset:
        """This dataset, with whole streams that others compressed in place of their blocks."""
        shards = self.shards.without_checkpoints()
        return self if shards is self.shards else replace(self, shards=shards)

    def _open(self, storage: Storage | None, compression: str | None, limits: Limits) -> Dataset:
        del limits  # what they limit was done when it was opened
        dataset = self if storage is None else replace(self, storage=storage)
        return dataset if compression == "auto" else dataset._of_codec(codec_name(compression))

    def _of_codec(self, codec: str | None) -> Dataset:
        """This dataset, of files that were not checked to be of this codec.
        ValueError if one is known to be of another."""
        unseen: dict[int, Shard] = {}
        for number, known in enumerate(self.shards.codecs):
            if known == "auto":
                unseen[number] = self.shard(number).known(compression=codec)
            elif known != codec:
                raise ValueError(
                    f"compression={codec!r}: {self.shard(number).url} was opened as "
                    f'{known or "raw"}; leave it at "auto"'
                )
        return self.with_shards(unseen)

    def _reached(self) -> Storage:
        return self.storage

    def _whole(self) -> object:
        return self.named

    def _repr_html_(self) -> str:
        return html_table("Dataset", facts_of(self))

    def __hash__(self) -> int:
        return hash((len(self.shards), self.shard(0).url if self.shards else ""))

    def __str__(self) -> str:
        if isinstance(self.named, str | os.PathLike):
            return redacted(os.fspath(self.named))
        return self.summary() if self.named is None else str(self.named)


def _schema_of(dataset: Dataset, told: Mapping[str, Any]) -> Schema:
    """The schema that a manifest tells. ManifestError for what is none."""
    try:
        return Schema.from_json(told)
    except ValueError as error:
        raise ManifestError(
            f"{redacted(str(dataset))}: the schema in its manifest cannot be used: {error}; "
            "pass a schema to who reads"
        ) from error


def facts_of(dataset: Dataset) -> list[tuple[str, str]]:
    """The rows that a notebook shows of a dataset, without secrets. Nothing is read."""
    count, told = dataset.num_records, common_told(dataset.told)
    rows = [
        ("source", redacted(str(dataset))),
        ("records", "not known without reading" if count is None else f"{count:,}"),
        ("bytes", f"{dataset.nbytes:,}"),
        ("shards", f"{len(dataset.shards):,}"),
    ]
    if told.generation is not None:
        rows.append(("generation", told.generation))
    if told.schema is not None:
        rows.append(("features", ", ".join(_schema_of(dataset, told.schema))))
    return rows


# The versions of a dataset's objects, learnt before anything is read of them.


def hold_versions(dataset: Dataset) -> None:
    """Learn the versions that are unknown yet, which are those of a manifest's shards.

    A graph is read by several processes, so none of them may find out by itself. And a cache cannot
    know what it has before the version is known. What can't be looked at is left unknown: reading
    it says why.
    """
    look_at(dataset, [i for i, each in enumerate(dataset.shards) if each.version.etag is None])


def look_at(dataset: Dataset, shards: list[int]) -> dict[int, ObjectInfo]:
    """Ask the store about these shards' objects, if they exist. Their versions are kept."""

    listed: dict[str, ObjectInfo] = {}
    found: dict[int, ObjectInfo] = {}

    def look(index: int) -> None:
        store, path = dataset.open(index)
        with contextlib.suppress(OSError):
            info = found[index] = listed.get(path) or store.info(path)
            dataset.shards[index].version.hold(info.etag, store.url(path))

    remote = [i for i in shards if "://" in dataset.shards[i].url]
    if remote:
        listed = _listed(dataset, remote)
    far = [i for i in remote if dataset.open(i)[1] not in listed]
    for index in sorted(set(shards) - set(far)):  # a thread costs more than the answer
        look(index)
    for _ in mapped(look, far, LOOKS_AT_ONCE):
        pass
    return found


def _listed(dataset: Dataset, shards: list[int]) -> dict[str, ObjectInfo]:
    """The metadata that a listing has of these shards, by path, if they lie in one place."""
    opened = [dataset.open(i) for i in shards]
    store, _ = opened[0]
    if any(one is not store for one, _ in opened):
        return {}
    return listed(store, [path for _, path in opened], among=len(dataset.shards))

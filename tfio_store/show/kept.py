"""The source of a report, opened, and the records of its sample that stay at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.model import Dataset, Limits, common_told
from tfio_store.dataset.source import Source, is_one, names_of, open_dataset, repeatable
from tfio_store.dataset.tfds import tfds_features
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.show.model import Place
from tfio_store.show.reading import Piece
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted

__all__ = ["Kept", "Opened", "open_source"]


# The source of a report: opened, with the facts of its manifest.


@dataclass(frozen=True, slots=True)
class Opened:
    """A source. ``name`` is what to call it, without secrets. ``schema`` and ``generation`` are the
    manifest's, or None; ``schema`` may be what TensorFlow Datasets wrote beside its files."""

    name: str
    dataset: Dataset
    schema: Schema | None
    generation: str | None
    has_manifest: bool


def open_source(
    source: Source,
    storage: Storage | None,
    *,
    compression: str | None = "auto",
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Opened:
    """Find the shards of a source, and its manifest. No record is read.

    Raises as `open_dataset`.
    """
    source = repeatable(source)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    if not dataset.told:
        features = tfds_features(source, storage)
        return Opened(
            source_name(source), dataset, Schema(features) if features else None, None, False
        )
    generation = common_told(dataset.told).generation
    return Opened(source_name(source), dataset, dataset.schema, generation, True)


def source_name(source: Source) -> str:
    """The name of a source, without secrets."""
    if isinstance(source, (str, os.PathLike)):
        return redacted(os.fspath(source))
    if is_one(source):
        return str(source)
    names = names_of(source)
    if not names:
        return "an empty list"
    first = source_name(names[0])
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"


# Where records of a sample lie: its rows.
#
# Where a sample has more records than may be rows, each has the same chance.


MOST_ROWS = 200_000


class Places(Sequence[Place]):
    """Where the rows lie, row by row."""

    def __init__(self, columns: npt.NDArray[np.int64], at: npt.NDArray[np.float64]) -> None:
        self._columns = columns
        self._at = at

    def __len__(self) -> int:
        return len(self._at)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> list[Place]: ...
    def __getitem__(self, index: int | slice) -> Place | list[Place]:
        if isinstance(index, slice):
            return [self._place(row) for row in range(*index.indices(len(self)))]
        return self._place(range(len(self))[index])

    def _place(self, row: int) -> Place:
        shard, number, offset, _ = self._columns[:, row].tolist()
        return Place(row, shard, None if number < 0 else number, offset, float(self._at[row]))

    @property
    def sizes(self) -> Int64Array:
        """int64 [n]: the bytes of each record."""
        sizes: Int64Array = self._columns[3]
        return sizes


class Kept:
    """Takes pieces, and keeps the places of their records."""

    def __init__(self, *, seed: int) -> None:
        self._chance = np.random.default_rng([seed, 1])
        self._columns: list[npt.NDArray[np.int64]] = []
        self._at: list[npt.NDArray[np.float64]] = []
        self.count = 0
        self._places: Places | None = None

    def add(
        self,
        piece: Piece,
        numbers: Int64Array,
        at: npt.NDArray[np.float64],
        progress: float,
    ) -> Int64Array:
        """Keep a part of the piece's records. ``numbers`` count the source's records. ``progress``:
        how much of the sample has been read with this piece, 0 to 1. Returns the row of each
        record, -1 for one that is not kept."""
        batch = piece.batch
        chosen = self._chosen(len(batch), progress)
        rows = np.full(len(batch), -1, np.int64)
        rows[chosen] = self.count + np.arange(len(chosen))
        shards = np.full(len(chosen), piece.shard, np.int64)
        row = [shards, numbers[chosen], piece.offsets[chosen], batch.lengths[chosen]]
        self._columns.append(np.stack(row))
        self._at.append(at[chosen])
        self.count += len(chosen)
        return rows

    def _chosen(self, records: int, progress: float) -> Int64Array:
        room = max(0, min(int(MOST_ROWS * progress) + 1, MOST_ROWS) - self.count)
        every = np.arange(records, dtype=np.int64)
        if room >= records:
            return every
        return np.sort(self._chance.choice(every, room, replace=False)).astype(np.int64)

    @property
    def places(self) -> Places:
        """Of all rows so far."""
        if self._places is None or len(self._places) != self.count:
            none = np.zeros((4, 0), np.int64)
            at = np.concatenate([np.zeros(0), *self._at])
            self._places = Places(np.concatenate([none, *self._columns], axis=1), at)
        return self._places

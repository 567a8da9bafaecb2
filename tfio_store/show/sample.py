"""`take_sample`: looks at a part of a dataset that stands for all of it.

One pass reads, counts, and keeps: facts about all that was read are counted while it
goes by (`tallies`, `gallery`). The places of a part of the records stay, as the rows of the
sample.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import check_from_1, counted
from tfio_store.dataset.model import Dataset, Limits, common_told
from tfio_store.dataset.source import Source, is_one, names_of, open_dataset, repeatable
from tfio_store.dataset.tfds import tfds_features
from tfio_store.example.schema import Schema
from tfio_store.records.arrays import Int64Array
from tfio_store.records.framing import (
    DEFAULT_MAX_RECORD_BYTES,
    FRAME_OVERHEAD,
    RecordBatch,
)
from tfio_store.show.gallery import Gallery
from tfio_store.show.model import Damage, Place, Scope, SizeAt
from tfio_store.show.reading import Piece, Reading
from tfio_store.show.strata import Plan, chosen
from tfio_store.show.tally import MOST_NAMES, Tallies
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.write.progress import OnProgress, Progress

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


class Places:
    """Where the rows lie, row by row."""

    def __init__(self, columns: npt.NDArray[np.int64], at: npt.NDArray[np.float64]) -> None:
        self._columns = columns
        self._at = at

    def __len__(self) -> int:
        return len(self._at)

    def __iter__(self) -> Iterator[Place]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, row: int) -> Place:
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


# `take_sample`: one pass over a part of a source.


_MOST_RECORDS = 1 << 20
"""Records of a sample, of which each block gives as many at most."""

_MOST_SIZES = 512
_MOST_DAMAGE = 1000


class Sample:
    """The part of a source that was read. Its rows are the records whose places stay: ``len``,
    `places`."""

    def __init__(self, opened: Opened, plan: Plan, *, seed: int, full: bool) -> None:
        self.opened = opened
        self.dataset: Dataset = opened.dataset
        self.kept = Kept(seed=seed)
        self.records = 0
        """How many were looked at."""
        self.nbytes = 0
        """Of these."""
        self.sizes: list[SizeAt] = []
        self.damage: list[Damage] = []
        self.unreadable: dict[int, OSError] = plan.unreadable
        """Shards of which nothing could be read."""
        self.wrong_index: dict[int, str] = {}
        """Shards of which an index says what is not so."""
        self.codecs = plan.codecs
        """Of the files without a manifest that were looked at."""
        self.left_out: list[str] = list(plan.left_out)
        self.tallies = Tallies(opened.schema, seed)
        self.gallery = Gallery(opened.schema, seed)
        self.counted: dict[int, int] = {}
        """Records of files that were read whole."""
        self.blocks = 0
        """How many blocks or spots were read."""
        self._plan, self._full, self._seed = plan, full, seed

    @property
    def scope(self) -> Scope:
        """The part that was looked at."""
        return Scope(
            blocks=self.blocks,
            of_blocks=self._plan.of_blocks,
            spots=self._plan.spots,
            records=self.records,
            of_records=self.of_records,
            nbytes=self.nbytes,
            full=self._full,
            seed=self._seed,
            left_out=tuple(self.left_out),
        )

    @property
    def of_records(self) -> int | None:
        """The records of the source: as the manifest says, or because all were read."""
        known = self.dataset.num_records
        if known is None and len(self.counted) == len(self.dataset.shards):
            return sum(self.counted.values())
        return known

    def __len__(self) -> int:
        """Of how many records the places stay."""
        return self.kept.count

    @property
    def places(self) -> Places:
        """Where the rows lie: row i at index i."""
        return self.kept.places

    def look(self, batch: RecordBatch, rows: Int64Array, progress: float) -> None:
        """Count a batch, and collect what there is to see; ``rows`` are its records' own, or
        -1."""
        strings, odd = self.tallies.add(batch, rows)
        self.gallery.add(batch, strings, rows, progress)
        self.gallery.add_odd(batch, odd, rows)


def take_sample(
    opened: Opened,
    *,
    blocks: int = 256,
    full: bool = False,
    seed: int = 0,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> Sample:
    """Look at one block by chance of each of ``blocks`` equal parts of a source, or at all of it.

    Damage, shards that can't be read and whatever features hold is reported by the sample, and not
    raised.

    Raises:
        OSError: Nothing of the source can be read.
        ManifestError: An index can't be read.
        ValueError: ``blocks`` is below 1.
    """
    check_from_1("blocks", blocks)
    plan = chosen(opened.dataset, blocks=blocks, seed=seed, full=full)
    sample = Sample(opened, plan, seed=seed, full=full)
    _Pass(sample, plan, seed, full, max_record_bytes).run(on_progress)
    return sample


class _Pass:
    """Reads a plan, and fills a sample."""

    def __init__(self, sample: Sample, plan: Plan, seed: int, full: bool, limit: int) -> None:
        self._sample = sample
        self._plan = plan
        self._full = full
        self._chance = np.random.default_rng([seed, 2])
        dataset = sample.dataset
        self._reading = Reading(dataset, max_record_bytes=limit, unreadable=plan.unreadable)
        self._before, self._total = _bytes_before(dataset)
        self._counts = _Counts(dataset, self._reading.whole)
        self._thinned = 0
        self._expected = max(1, plan.count)
        self._most = max(1, _MOST_RECORDS // self._expected)
        """Records of a block that are looked at."""

    def run(self, on_progress: OnProgress | None) -> None:
        sample, framed = self._sample, 0
        whole = sample.dataset.num_records if self._full else None
        for piece in self._reading.pieces(self._plan.picks):
            self._take(piece)
            sample.blocks += piece.last
            framed = sample.nbytes + FRAME_OVERHEAD * sample.records
            if on_progress is not None:
                on_progress(Progress(sample.records, framed, 0, whole))
        self._finish()

    def _take(self, piece: Piece) -> None:
        sample = self._sample
        if not len(piece.batch):
            return
        if not self._full and len(piece.batch) > self._most:
            piece = self._part(piece)
        at = self._at(piece)
        self._size(piece, at)
        sample.records += len(piece.batch)
        sample.nbytes += piece.batch.nbytes
        progress = min(1.0, (sample.blocks + piece.share) / self._expected)
        rows = sample.kept.add(piece, self._counts.of(piece), at, progress)
        sample.look(piece.batch, rows, progress)

    def _part(self, piece: Piece) -> Piece:
        """Some of a block's records by chance: of tiny records a block holds very many."""
        self._thinned += 1
        rows = np.sort(self._chance.choice(len(piece.batch), self._most, replace=False))
        return replace(
            piece,
            batch=piece.batch.take(rows),
            numbers=piece.numbers[rows],
            offsets=piece.offsets[rows],
        )

    def _at(self, piece: Piece) -> npt.NDArray[np.float64]:
        """How far into the source's stored bytes each record lies. Of compressed records it is a
        guess, between the ends of what was decompressed."""
        first = float(self._before[piece.shard]) + piece.begin
        base, last = int(piece.offsets[0]), int(piece.offsets[-1])
        span = max(1, last - base)
        share = (piece.offsets - base) / span * max(0, piece.end - piece.begin - 1)
        found: npt.NDArray[np.float64] = (first + share) / max(1, self._total)
        return np.clip(found, 0.0, 1.0)

    def _size(self, piece: Piece, at: npt.NDArray[np.float64]) -> None:
        lengths = piece.batch.lengths
        found = SizeAt(
            float(at[0]),
            piece.shard,
            int(lengths.min()),
            float(np.median(lengths)),
            int(lengths.max()),
        )
        self._sample.sizes.append(found)
        if len(self._sample.sizes) > 2 * _MOST_SIZES:
            del self._sample.sizes[::2]

    def _finish(self) -> None:
        sample, reading = self._sample, self._reading
        sizes = sample.sizes
        while len(sizes) > _MOST_SIZES:
            del sizes[1::2]
        for shard, region in reading.damage[:_MOST_DAMAGE]:
            known = sample.dataset.shard(shard)
            name = redacted(known.url)
            sample.damage.append(
                Damage(
                    shard,
                    name,
                    region.offset,
                    region.length,
                    region.reason,
                    region.kind,
                    known.nbytes,
                )
            )
        if len(reading.damage) > _MOST_DAMAGE:
            more = len(reading.damage) - _MOST_DAMAGE
            sample.left_out.append(f"{counted(more, 'damaged region')} more")
        sample.wrong_index = reading.wrong_index
        sample.counted = reading.whole
        self._say_what_is_left_out()

    def _say_what_is_left_out(self) -> None:
        sample, reading = self._sample, self._reading
        if self._thinned:
            what = "of 1 block" if self._thinned == 1 else f"of each of {self._thinned:,} blocks"
            sample.left_out.append(
                f"all but {self._most:,} records {what}, which are chosen by chance"
            )
        if reading.empty_spots:
            sample.left_out.append(
                f"{counted(reading.empty_spots, 'spot')} at which no record was found"
            )
        if sample.tallies.more:
            more = counted(len(sample.tallies.more), "feature")
            more = f"{more} or more" if len(sample.tallies.more) == MOST_NAMES else more
            sample.left_out.append(f"{more} beyond the first 1,000")
        if sample.tallies.too_long:
            long = counted(sample.tallies.too_long, "list")
            sample.left_out.append(f"the values of {long} of millions")
        for reason, count in sample.gallery.passed_over.items():
            sample.left_out.append(f"{counted(count, 'image')}: {reason}")
        if len(sample) < sample.records:
            rows = f"{sample.records - len(sample):,} of {counted(sample.records, 'record')}"
            sample.left_out.append(f"{rows}: they count, and are not kept to be looked up")


class _Counts:
    """Numbers the records of a source. A number is known if it is known how many records each
    shard before has."""

    def __init__(self, dataset: Dataset, whole: dict[int, int]) -> None:
        (self._records,) = dataset.shards.columns("records")
        self._whole = whole

    def of(self, piece: Piece) -> Int64Array:
        first = self._first(piece.shard)
        return (
            np.where(piece.numbers < 0, -1, piece.numbers + first)
            if first >= 0
            else (np.full(len(piece.numbers), -1, np.int64))
        )

    def _first(self, shard: int) -> int:
        for number, count in self._whole.items():
            if self._records[number] < 0:
                self._records[number] = count
        before = self._records[:shard]
        return -1 if (before < 0).any() else int(before.sum())


def _bytes_before(dataset: Dataset) -> tuple[Int64Array, int]:
    """The stored bytes of all shards before each, less those before a part of a shard; and of
    all."""
    (nbytes,) = dataset.shards.columns("nbytes")
    before = np.cumsum(nbytes) - nbytes - dataset.shards.begins()
    return before, int(nbytes.sum())

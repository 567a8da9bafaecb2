"""The contents of a report, as plain values. A page and a notebook draw the same ones.

The parts are made in this order: `Sample` (records, and where they lie) → `FeatureFacts`,
`ShardBar`, `Item` → `Finding`. All lists here are bounded, whatever the dataset: `Scope.left_out`
says what they leave out.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.model import Dataset
from tfio_store.errors import Reason
from tfio_store.records.arrays import Int64Array
from tfio_store.storage.redaction import redacted

# Numbers in the sentences of a report.


def number(count: int) -> str:
    """``1,024``."""
    return f"{count:,}"


def percent(part: float) -> str:
    """``38 %``, ``0.1 %``; never 0 or 100 unless it is exactly that."""
    value = 100 * part
    if value in (0, 100):
        return f"{value:.0f} %"
    if value < 0.01:
        return "under 0.01 %"
    if value > 99:
        return "over 99 %" if value > 99.9 else f"{value:.1f} %"
    if value < 1:
        return f"{value:.2g} %"
    return f"{value:.0f} %"


def size(nbytes: float) -> str:
    """``1.5 MiB``, as the page's ``format.js`` says it."""
    if nbytes < 1024:
        return f"{nbytes:,.0f} B"
    units = ["KiB", "MiB", "GiB", "TiB", "PiB"]
    value = nbytes / 1024
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.1f} {units[0]}" if value < 10 else f"{value:,.0f} {units[0]}"


_SINGULAR = {"are": "is", "end": "ends", "hold": "holds", "look": "looks"}


def verb(count: int, plural: str) -> str:
    """The verb of so many things: ``verb(1, "are")`` is "is"."""
    return _SINGULAR[plural] if count == 1 else plural


Level = Literal["error", "warning", "note"]

_EXACT_IN_A_BROWSER = 1 << 53


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record lies. ``row`` is its number in the sample; ``number`` that in the source, if
    an index has it; ``offset`` is of its frame, in bytes of the uncompressed stream; ``at`` is
    how far into the source's stored bytes that is, 0 to 1."""

    row: int
    shard: int
    number: int | None
    offset: int
    at: float


@dataclass(frozen=True, slots=True)
class Scope:
    """The part that was looked at. ``of_blocks`` and ``of_records`` are None where unknown; a file
    without an index is looked at in spots, and ``spots`` is then true: a block is a spot."""

    blocks: int
    of_blocks: int | None
    spots: bool
    records: int
    of_records: int | None
    nbytes: int
    """Of records."""
    full: bool
    seed: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Header:
    """The facts about the source. ``source`` has no secret in it. ``codec`` is "none", "GZIP", ...,
    or "GZIP, none" where files differ. ``schema`` is of (name, what it holds)."""

    source: str
    records: int | None
    nbytes: int
    shards: int
    codec: str
    schema: tuple[tuple[str, str], ...]
    schema_source: Literal["manifest", "sample", "none"]
    generation: str | None
    written: str | None
    """When the last shard was written, if its store has that. ISO 8601, UTC."""
    made: str
    """When this was looked at. ISO 8601, UTC."""
    version: str
    """Of tfio_store."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something odd.

    Attributes:
        kind (str): What it is, for programs: "shard-size", "rare-class", "cut-length", "damage",
            and others that `docs/report.md` lists.
        level (str): "error" (records are lost or can't be read), "warning" (training would likely
            suffer) or "note".
        text (str): A sentence with its numbers: "3 of 1,024 shards are over 5x the median".
        feature (str | None): The feature it is about. Default None.
        shards (tuple[int]): The shards it is about, at most 100. Default ().
        rows (tuple[int]): Records of the sample that show it, at most 100. Default ().

    Example:
        >>> _ = tfs.write_table({"x": [1.0, float("nan")] * 50}, "train")
        >>> finding = tfs.report("train").findings[0]
        >>> finding.kind, finding.level, finding.feature
        ('not-finite', 'warning', 'x')
    """

    kind: str
    level: Level
    text: str
    feature: str | None = None
    shards: tuple[int, ...] = ()
    rows: tuple[int, ...] = ()


_MOST_NAMED = 100


def finding(
    kind: str,
    level: Level,
    text: str,
    feature: str | None = None,
    *,
    shards: Iterable[int] = (),
    rows: Iterable[int] = (),
) -> Finding:
    """A `Finding`, which names the first of these shards and rows."""
    some = (tuple(int(each) for each in islice(all_, _MOST_NAMED)) for all_ in (shards, rows))
    return Finding(kind, level, text, feature, *some)


@dataclass(frozen=True, slots=True)
class Histogram:
    """``edges`` are one more than ``counts``; the last bin holds its upper edge too. ``log`` says
    that the edges grow by a factor."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    log: bool = False


@dataclass(frozen=True, slots=True)
class Top:
    """A value that occurs often. Bytes that are no text are hexadecimal: ``0x89504e47…``."""

    value: str
    count: int


@dataclass(frozen=True, slots=True)
class FeatureFacts:
    """The facts of the sample about one feature.

    ``role`` is what it is drawn as. ``lengths`` counts values for each record that has the feature,
    or bytes of each value for byte strings. ``quantiles`` are those of 0, 1, 5, 25, 50, 75, 95, 99
    and 100 percent (numpy's "inverted_cdf"). ``exact`` is false where the values were too many to
    hold, so that quantiles and histogram are of a part by chance. NaN and infinite values count in
    ``nans`` and ``infinite`` only.
    """

    name: str
    dtype: str
    role: Literal["image", "audio", "text", "bytes", "class", "number", "time", "empty"]
    records: int
    present: int
    values: int
    nans: int
    infinite: int
    zeros: int
    least: int | float | None
    """Exact, if the values are integers; `Facts.to_json` says how large ones are kept."""
    most: int | float | None
    mean: float | None
    std: float | None
    quantiles: tuple[int | float, ...]
    histogram: Histogram | None
    lengths: Histogram | None
    length_least: int
    length_most: int
    length_mean: float
    distinct: int | None
    """None for more than could be held."""
    top: tuple[Top, ...]
    exact: bool
    unit: str = ""
    """Of numbers that are times: numpy's unit, as "ms". Drawn values are these integers."""


@dataclass(frozen=True, slots=True)
class ShardBar:
    """A shard, or where there are too many, ``shards`` neighbours: ``nbytes`` and ``records`` are
    then of the largest of them, which ``first`` names. ``factor`` is nbytes over the median."""

    first: int
    shards: int
    name: str
    nbytes: int
    records: int | None
    factor: float
    odd: bool


@dataclass(frozen=True, slots=True)
class SizeAt:
    """The sizes of records of one block: how far into the dataset it lies (0 to 1), and its
    smallest, median and largest record, in bytes."""

    at: float
    shard: int
    least: int
    median: float
    most: int


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged region that the sample met. ``nbytes`` is None for compressed bytes that do not
    decompress. ``shard_nbytes`` is the file's length."""

    shard: int
    name: str
    offset: int
    nbytes: int | None
    reason: str
    kind: Reason
    shard_nbytes: int


@dataclass(frozen=True, slots=True)
class Item:
    """Something to see, hear or read. ``captions`` are (feature, value) of the same record.
    ``data`` is an image or audio file whose first bytes say that it is of ``media_type``; it is
    empty for a text. ``nbytes`` is the length of the feature's whole value; ``shortened`` says that
    ``data`` (a thumbnail) or ``text`` is not all of it."""

    kind: Literal["image", "audio", "text"]
    feature: str
    place: Place
    captions: tuple[tuple[str, str], ...]
    nbytes: int
    shortened: bool
    media_type: str = ""
    data: bytes = b""
    width: int = 0
    height: int = 0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a report says."""

    header: Header
    scope: Scope
    findings: tuple[Finding, ...]
    features: tuple[FeatureFacts, ...]
    shards: tuple[ShardBar, ...]
    shards_median: float
    sizes: tuple[SizeAt, ...]
    damage: tuple[Damage, ...]
    items: tuple[Item, ...]
    places: tuple[Place, ...]
    """Of the records that findings and items name."""

    def to_json(self) -> dict[str, Any]:
        """Plain values for JSON. Bytes of items become base64 texts; numbers that JSON can't hold
        (NaN, infinite) become None. Integers beyond 2**53, which a browser would round, become
        texts of their digits."""
        plain: dict[str, Any] = _plain(self)
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and abs(value) > _EXACT_IN_A_BROWSER:
        return str(value)
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return value


# The shards as bars: their sizes, and which are out of the ordinary.


MANY = 5
"""A shard of more than so many times the median is out of the ordinary, and one of less than one
of so many."""

_MOST_BARS = 512
_LEAST_SHARDS = 3


@dataclass(frozen=True, slots=True)
class ShardSizes:
    """Of every shard: int64 arrays [n]; ``records`` is -1 where unknown."""

    nbytes: Int64Array
    records: Int64Array

    @property
    def median(self) -> float:
        """Of the bytes of shards that have some."""
        filled = self.nbytes[self.nbytes > 0]
        return float(np.median(filled)) if len(filled) else 0.0

    @property
    def large(self) -> Int64Array:
        """The shards that are much larger than most, the largest first."""
        return self._sorted(self.nbytes > MANY * self.median, -self.nbytes)

    @property
    def small(self) -> Int64Array:
        """The shards that are much smaller than most, but for the last one, which takes the
        rest."""
        small = (self.nbytes > 0) & (self.nbytes * MANY < self.median)
        if len(small):
            small[-1] = False
        return self._sorted(small, self.nbytes)

    @property
    def empty(self) -> Int64Array:
        """The shards without a record. Compressed ones have bytes all the same."""
        return np.flatnonzero((self.nbytes == 0) | (self.records == 0))

    def _sorted(self, odd: npt.NDArray[np.bool_], by: Int64Array) -> Int64Array:
        if len(self.nbytes) < _LEAST_SHARDS:
            return np.zeros(0, np.int64)
        found = np.flatnonzero(odd)
        ordered: Int64Array = found[np.argsort(by[found], kind="stable")]
        return ordered


def shard_sizes(dataset: Dataset, counted: dict[int, int]) -> ShardSizes:
    """From the list of shards. ``counted``: records of shards that were read whole."""
    sizes = ShardSizes(*dataset.shards.columns("nbytes", "records"))
    for shard, records in counted.items():
        if sizes.records[shard] < 0:
            sizes.records[shard] = records
    return sizes


def shard_bars(dataset: Dataset, sizes: ShardSizes) -> tuple[ShardBar, ...]:
    """One for each shard; of very many, one for some neighbours, which is their largest."""
    count = len(sizes.nbytes)
    each = -(-count // _MOST_BARS) if count else 1
    odd = set(sizes.large.tolist()) | set(sizes.small.tolist())
    median = sizes.median
    bars = []
    for start in range(0, count, each):
        stop = min(start + each, count)
        first = start + int(np.argmax(sizes.nbytes[start:stop]))
        nbytes, records = int(sizes.nbytes[first]), int(sizes.records[first])
        bar = ShardBar(
            first,
            stop - start,
            redacted(dataset.shard(first).url),
            nbytes,
            None if records < 0 else records,
            nbytes / median if median else 0.0,
            not odd.isdisjoint(range(start, stop)),
        )
        bars.append(bar)
    return tuple(bars)

"""`stats`: what the values of each feature are like, in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.header_walk import codec_of
from tfio_store.dataset.model import Dataset, Limits
from tfio_store.dataset.source import Source, of_source, open_dataset, repeatable
from tfio_store.errors import SchemaError
from tfio_store.example import Nullable, Ragged, decode_examples
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.example.ragged import valid_rows
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.records.damage import looks_like
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.records.texts import warn
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.held_numbers import Budget, Held, quantiles
from tfio_store.tables.media_types import image_size, is_image, is_text, media_type
from tfio_store.tables.rows import LITTLE, slices_of
from tfio_store.tables.texts import iso_texts
from tfio_store.write.progress import OnProgress, Progress, check_on_progress

# Keeps count of one feature's values, batch by batch, in bounded memory.


_MOST_DISTINCT = 10_000
_MOST_CLASSES = 1000
_LOOKED_AT = 16
_QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True, slots=True)
class FeatureStats:
    """The statistics of one feature.

    Attributes:
        dtype (str): The dtype, as in a `Schema`.
        present (int): How many records have it.
        values (int): How many values it has in all of them.
        counts (tuple[int, int]): The least and the most values that one record has.
        least (int | float | str | None): The smallest number; of byte strings, the shortest length;
            of times and durations, ISO 8601 texts. None without values.
        quantiles (tuple[float | str]): A quarter, the half and three quarters of them are not above
            these. Empty without values.
        most (int | float | str | None): The largest number, or the longest length.
        nans (int): How many values are NaN or NaT. All else passes them by.
        distinct (int | None): How many values differ. None for more than 10,000.
        looks_like (str): What it may be: "10 classes", "text", "JPEG 640x480". Default "".

    Example:
        >>> _ = tfs.write_table({"x": [5, 7, 7, 9]}, "train")
        >>> found = tfs.stats("train").features["x"]
        >>> found.present, found.least, found.quantiles, found.most, found.distinct
        (4, 5, (5.0, 7.0, 7.0), 9, 3)
    """

    dtype: str
    present: int
    values: int
    counts: tuple[int, int]
    least: int | float | str | None
    quantiles: tuple[float | str, ...]
    most: int | float | str | None
    nans: int
    distinct: int | None
    looks_like: str = ""


@dataclass
class FeatureTally:
    """The values of one feature so far. All features share the ``budget``."""

    dtype: str
    budget: Budget
    present: int = 0
    values: int = 0
    nats: int = 0
    distinct: set[Any] | None = field(default_factory=set)
    """None once there are too many."""
    examples: list[bytes] = field(default_factory=list)
    unit: Any = None
    """The numpy dtype of datetimes and timedeltas."""

    def __post_init__(self) -> None:
        self.counts = Held(self.budget, 0)
        """Values of each record that has it."""
        self.numbers = Held(self.budget, 0, tells_infinite=True)
        """The values; of byte strings their lengths."""

    def add(self, column: Any) -> None:
        """Count a decoded column."""
        counts, values = _flat(column)
        self.present += len(counts)
        self.values += len(values)
        self.counts.add(counts)
        if values.dtype.kind in "mM":
            self._add_times(values)
        elif values.dtype.kind == "O":
            self._add_strings(values.tolist())
        else:
            self._add_numbers(values)

    def _add_strings(self, values: list[Any]) -> None:
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        self.examples += encoded[: _LOOKED_AT - len(self.examples)]
        self._note({hash(value) for value in encoded})
        self.numbers.add(np.array([len(value) for value in encoded], np.int64))

    def _add_times(self, values: npt.NDArray[Any]) -> None:
        """They count as their integers. NaT is passed by."""
        self.unit = values.dtype
        missing = np.isnat(values)
        self.nats += int(missing.sum())
        self._add_numbers(values[~missing].view(np.int64))

    def _add_numbers(self, values: npt.NDArray[Any]) -> None:
        if self.distinct is not None:
            self._note(set(np.unique(values[values == values]).tolist()))  # without NaN
        self.numbers.add(values)

    def _note(self, found: set[Any]) -> None:
        if self.distinct is not None:
            self.distinct |= found
            if len(self.distinct) > _MOST_DISTINCT:
                self.distinct = None

    def found(self) -> FeatureStats:
        """The answer, from all that was counted."""
        parts = quantiles(np.sort(self.numbers.values), _QUANTILES)
        return FeatureStats(
            self.dtype,
            self.present,
            self.values,
            (int(self.counts.least or 0), int(self.counts.most or 0)),
            self._shown(self.numbers.least),
            tuple(map(float, parts)) if self.unit is None else tuple(map(self._shown, parts)),
            self._shown(self.numbers.most),
            self.nats + self.numbers.nans,
            None if self.distinct is None else len(self.distinct),
            _guess(self),
        )

    def _shown(self, value: Any) -> Any:
        """Times and durations as ISO 8601 texts, all else as it is."""
        if value is None or self.unit is None:
            return value
        return iso_texts(np.array(value).view(self.unit))


def _flat(column: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """How many values each record has that has the feature; and the values."""
    if isinstance(column, Nullable):
        counts, values = _flat(column.values)
        if not isinstance(column.values, Ragged):
            values = values.reshape(len(column), -1)[column.valid].reshape(-1)
        return counts[column.valid], values
    if isinstance(column, Ragged):
        counts, inner = column.row_lengths, column.values
        while isinstance(inner, Ragged):
            inner = inner.values
        return counts, np.asarray(inner).reshape(-1)
    rows = np.asarray(column)
    if isinstance(column, np.ma.MaskedArray):
        rows = rows[valid_rows(column)]
    width = int(np.prod(rows.shape[1:]))
    return np.full(len(rows), width), rows.reshape(-1)


def _guess(tally: FeatureTally) -> str:
    """In a few words, what it may be."""
    if tally.examples:
        image = _image(tally.examples)
        if image:
            return image
        names = {looks_like(value) for value in tally.examples}
        if len(names) == 1 and None not in names and names != {"plain text"}:
            return str(names.pop())
    elif tally.distinct is None or not ("int" in tally.dtype or tally.dtype == "bool"):
        return ""
    distinct = len(tally.distinct) if tally.distinct is not None else 0
    if 0 < distinct <= _MOST_CLASSES and 2 * distinct <= tally.values:
        return f"{distinct} classes" if distinct > 1 else "one value"
    return "text" if tally.examples and all(map(is_text, tally.examples)) else ""


def _image(values: list[bytes]) -> str:
    """As "JPEG 640x480"; "" if one is no image."""
    kinds = {media_type(value) for value in values}
    if not all(map(is_image, kinds)):
        return ""
    kind = "/".join(sorted(str(name).removeprefix("image/").upper() for name in kinds))
    sizes = {image_size(value) for value in values}
    size = sizes.pop() if len(sizes) == 1 else None
    return f"{kind} images" if size is None else f"{kind} {size[0]}x{size[1]}"


# In how many records each feature is.


@dataclass(frozen=True, slots=True)
class Presence:
    """The features of the first records. ``features``: how many of the ``records`` have each of
    them."""

    records: int
    features: dict[str, int]


def presence(
    source: Source,
    storage: Storage | None,
    *,
    sample: int | None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Presence:
    """Look at the first ``sample`` records that are sound, None for all; a warning counts the
    others.

    CorruptRecordError for one that is no Example.
    """
    found: Counter[str] = Counter()
    records = 0
    with RecordReader(
        source,
        on_corrupt="skip",
        memory_budget=LITTLE,
        max_record_bytes=max_record_bytes,
        storage=storage,
    ) as reader:
        for record in islice(reader, sample):
            records += 1
            found.update({**infer_features(record), **infer_feature_lists(record)}.keys())
    return Presence(records, dict(sorted(found.items())))


_SAMPLE = 256 << 20
_SEED = 0
_MOST_FEATURES = 10_000
"""Each takes some kilobytes, and a record of one byte per feature can name any number."""


@dataclass(frozen=True, slots=True)
class DatasetStats:
    """The statistics of the records that were looked at.

    Attributes:
        records (int): How many records were looked at.
        nbytes (int): Their bytes.
        whole (bool): Whether that is all of the source.
        features (dict[str, FeatureStats]): What is known of each feature.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> found = tfs.stats("train")
        >>> found.records, found.whole, found.features["x"].most
        (3, True, 3)
    """

    records: int
    nbytes: int
    whole: bool
    features: dict[str, FeatureStats]


def stats(
    source: Source,
    *,
    sample_bytes: int | None = _SAMPLE,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    on_progress: OnProgress | None = None,
) -> DatasetStats:
    """Measure each feature: how many records have it, its range, quantiles and distinct values.

    Larger sources are sampled: random blocks are read, the same ones each time. If there are
    millions of values, quantiles are those of a random part of them. Only the first 10,000 features
    are measured; a warning says so if there are more.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        sample_bytes (int | None): About how many bytes of records to look at. None: all. Default
            256 MiB.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        on_progress (Callable | None): Called with the `Progress` so far. Default None.

    Returns:
        DatasetStats: What the records hold.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged, or no Example.
        TruncatedRecordError: A file ends inside a record.
        SchemaError: A record does not hold what the manifest's schema says, or a feature has values
            of two dtypes.
        ValueError: ``sample_bytes`` is below 1.

    Example:
        >>> _ = tfs.write_table({"label": [0, 1, 1, 0], "w": [0.5, 1.0, 1.5, 2.0]}, "train")
        >>> found = tfs.stats("train").features
        >>> found["w"].least, found["w"].most, found["label"].distinct
        (0.5, 2.0, 2)
    """
    if sample_bytes is not None and sample_bytes < 1:
        raise ValueError(f"sample_bytes must be at least 1, or None for all, got {sample_bytes}")
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    source = repeatable(source)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    known = dataset.schema
    tallies: dict[str, FeatureTally] = {}
    budget = Budget()
    records = nbytes = 0
    whole, more = True, False
    with RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader:
        sampled = sample_bytes is not None and not _fits(dataset, sample_bytes)
        for batch in (reader.shuffle(_SEED, window=1) if sampled else reader).batches():
            if sample_bytes is not None and nbytes >= sample_bytes:
                whole = False
                break
            for begin, part, schema in slices_of(batch, source, records, known) if batch else ():
                with of_source(source, records + begin):
                    more |= _count(tallies, part, schema, budget)
            records, nbytes = records + len(batch), nbytes + batch.nbytes
            if on_progress is not None:
                on_progress(Progress(records, nbytes, 0, None if sampled else dataset.num_records))
    if more:
        warn(
            f"there are more than {_MOST_FEATURES:,} features: those that came after the first "
            "ones are left out"
        )
    found = {name: tally.found() for name, tally in sorted(tallies.items())}
    return DatasetStats(records, nbytes, whole, found)


def _fits(dataset: Dataset, nbytes: int) -> bool:
    """Whether the source is surely as small. The size of compressed files is unknown."""
    if dataset.nbytes > nbytes:
        return False
    return all(codec_of(dataset, i) is None for i in range(len(dataset.shards)))


def _count(
    tallies: dict[str, FeatureTally], batch: RecordBatch, schema: Schema, budget: Budget
) -> bool:
    """Count the features of some records. Whether some are left out, for there are too many."""
    room = _MOST_FEATURES - len(tallies)
    new = [name for name in schema if name not in tallies]
    left_out = set(new[max(0, room) :])
    wanted = schema.select([n for n in schema if n not in left_out]) if left_out else schema
    for name, column in decode_examples(batch, wanted).items():
        dtype = schema[name].dtype
        tally = tallies.get(name)
        if tally is None:
            tally = tallies[name] = FeatureTally(dtype, budget)
        if tally.dtype != dtype:
            reason = f"holds {dtype} values, and {tally.dtype} elsewhere"
            raise SchemaError(reason, feature=name, record=0)
        tally.add(column)
    return bool(left_out)

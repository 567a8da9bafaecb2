"""`infer_schema`: the schema of a source's Examples, from its manifest, from TensorFlow
Datasets, or by a look.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from os import PathLike
from typing import Any, TypeGuard, cast

from tfio_store.dataset.model import Dataset, Shards, Told
from tfio_store.dataset.source import Source, of_source
from tfio_store.dataset.tfds import tfds_features
from tfio_store.errors import CorruptRecordError, NoRecordsError, SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.codec import Records, infer_feature_lists, infer_features
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema, schema_to_read
from tfio_store.read.reader import RecordReader
from tfio_store.records.damage import not_an_example, placed
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted
from tfio_store.storage.storage import given_storage

# Finds the schema that Examples or SequenceExamples have in common, by what each one holds.


EMPTY_EXAMPLES = {b"", b"\n\0", b"\x12\0", b"\n\0\x12\0"}
"""Examples and SequenceExamples without a feature."""


@dataclass
class _Seen:
    """The facts about one feature, or one feature list, so far."""

    first: int
    """The first record that has it."""
    dtype: str | None = None
    counts: set[int] = field(default_factory=set)
    """The numbers of values: in a record, or in a step of a feature list."""
    records: int = 0
    nested: bool = True
    """Whether each record's values can be those of rows of NAME/row_lengths."""

    def note(self, name: str, record: int, dtype: str | None, counts: set[int]) -> None:
        """SchemaError if the values are of another dtype than the earlier ones."""
        if dtype is not None and self.dtype not in (None, dtype):
            reason = f"holds {dtype} values, and {self.dtype} elsewhere"
            raise SchemaError(reason, feature=name, record=record)
        self.dtype = self.dtype or dtype
        self.counts |= counts


def schema_of_records(
    records: Iterable[Any], source: object = None, *, empty: bool = False
) -> Schema:
    """The schema that all of these records have; see `infer_schema`. Errors name the ``source``.
    ``empty``: also the features that
    have a value in none of them."""
    with of_source(source):
        return _schema_of(records, source, empty)


def _schema_of(records: Iterable[Any], source: object, empty: bool) -> Schema:
    where = f" of {redacted(str(source))}" if isinstance(source, (str, PathLike)) else ""
    context: dict[str, _Seen] = {}
    lists: dict[str, _Seen] = {}
    total = 0
    for total, record in enumerate(records, 1):
        found, found_lists = _described(record, total - 1)
        for name, (dtype, count) in found.items():
            seen = context.setdefault(name, _Seen(total - 1))
            seen.note(name, total - 1, dtype, {count})
            seen.records += 1
        _note_nested(context, record, found)
        for name, kinds in found_lists.items():
            seen = lists.setdefault(name, _Seen(total - 1))
            for dtype, counts in kinds:
                seen.note(name, total - 1, dtype, counts)
            seen.records += 1
    if not total:
        raise NoRecordsError(f"there are no records{where} to infer a schema from")
    features = _context_features(context, total)
    sequences = {n: _sequence(seen, total) for n, seen in lists.items() if seen.dtype}
    for name in sorted(features.keys() & sequences.keys()):
        reason = (
            "is a feature of the context and a feature list too; name one of them by schema=, a "
            "feature list as Feature(..., sequence=True)"
        )
        number = max(context[name].first, lists[name].first)
        raise SchemaError(reason, feature=name, record=number)
    features |= sequences
    if empty:
        none = Feature("unknown", (None,), nullable=True)
        features |= {n: none for n, seen in context.items() if not seen.dtype and n not in features}
    return Schema({name: features[name] for name in sorted(features)})._of_records(total)


def _described(record: Any, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The features and the feature lists of one record. CorruptRecordError if it is something
    else."""
    try:
        found, lists = infer_features(record), infer_feature_lists(record)
        if not found and not lists and bytes(record[:5]) not in EMPTY_EXAMPLES:
            # Protobuf takes fields that it does not know. So other messages, such as the events of
            # a log, parse as Examples without features.
            raise not_an_example(
                f"it has {len(record)} bytes and no feature; read it with RecordReader"
            )
    except CorruptRecordError as error:
        raise placed(error, "<buffer>", number, offset=0) from None
    return found, lists


def _context_features(seen: dict[str, _Seen], total: int) -> dict[str, Feature]:
    features = {name: _feature(name, seen, total) for name in seen if seen[name].dtype}
    for name in [name for name, feature in features.items() if feature.nested]:
        del features[name + ROW_LENGTHS]
    return features


def _note_nested(seen: dict[str, _Seen], record: Any, found: Mapping[str, Any]) -> None:
    """Row lengths are those of a feature if they add up to its values in every record."""
    for name in [name for name in seen if name.endswith(ROW_LENGTHS)]:
        of = name.removesuffix(ROW_LENGTHS)
        if not seen[name].nested or seen[name].dtype not in (None, "int64"):
            continue
        lengths = decode_examples([bytes(record)], {name: ("int64", (None,))})[name].values
        values = found.get(of, (None, 0))[1]
        whole = (lengths >= 0).all() and int(lengths.sum()) == values
        seen[name].nested = bool(whole) and (name in found) == (of in found)


def _feature(name: str, seen: dict[str, _Seen], total: int) -> Feature:
    this, lengths = seen[name], seen.get(name + ROW_LENGTHS)
    assert this.dtype is not None
    nullable = this.records < total
    if (
        lengths is not None
        and lengths.dtype == "int64"
        and lengths.nested
        and lengths.records == this.records
    ):
        return Feature(this.dtype, (None, None), nullable=nullable)
    count = next(iter(this.counts)) if len(this.counts) == 1 else None
    return Feature(this.dtype, () if count == 1 else (count,), nullable=nullable)


def _sequence(seen: _Seen, total: int) -> Feature:
    """The feature of a feature list whose steps have these counts of values."""
    assert seen.dtype is not None
    count = next(iter(seen.counts)) if len(seen.counts) == 1 else None
    # Steps of no values each have no fixed shape: their number would be lost.
    step = () if count == 1 else (count or None,)
    nullable = seen.records < total
    return Feature(seen.dtype, (None, *step), nullable=nullable, sequence=True)


# Joins what records show of their features with what TensorFlow Datasets wrote of them.


def schema_of_source(
    batches: Iterable[Records],
    source: object,
    storage: Storage | None,
    *,
    numbered: bool = True,
) -> Schema:
    """The schema of a source's records, with the dtypes, shapes and kinds of its ``features.json``,
    if it has one. Where these records show another thing, they count. Errors do not name the source
    if its records are not ``numbered`` from the first one on."""
    described = tfds_features(source, storage)
    records = chain.from_iterable(_compared(batches, described))
    seen = schema_of_records(records, source if numbered else None)
    found = {n: _joined(seen[n], described[n]) if n in described else seen[n] for n in seen}
    return Schema(found)._of_records(seen.records_seen)


def _compared(batches: Iterable[Records], described: dict[str, Feature]) -> Iterator[Records]:
    """The batches. A feature that can't be read as it is described is dropped from
    ``described``."""
    for batch in batches:
        while described:
            # The number of rows is not known of a file yet, nor whether they have the feature.
            rows = {
                n: replace(f, shape=(None, *f.row_shape)) for n, f in described.items() if _odd(f)
            }
            try:
                decode_examples(batch, rows)
            except SchemaError as error:
                del described[error.feature]
                continue
            except CorruptRecordError:
                pass  # who reads the batch says it better
            break
        yield batch


def _odd(feature: Feature) -> bool:
    """Whether values of the right wire type may misfit."""
    plain = feature.dtype in ("bytes", feature.wire)
    return feature.kind is None and not (plain and feature.width == 1)


def _joined(seen: Feature, described: Feature) -> Feature:
    if seen.wire != described.wire or seen.sequence:
        return seen
    return replace(seen, dtype=described.dtype, shape=_shape(seen, described), kind=described.kind)


def _shape(seen: Feature, described: Feature) -> tuple[int | None, ...]:
    """Records show numbers of values only, and the first of them may have the same by chance."""
    if seen.nested or described.nested:
        return seen.shape
    if described.ragged:
        return described.shape
    return described.shape if not seen.ragged and seen.width == described.width else seen.shape


_SHARDS = 8
"""So many shards are looked into, spread over all of them."""

FIRST = 1000
"""So many records decide what the features of a source without a manifest are."""

_READ_AHEAD = 8 << 20
"""Bytes in flight for who wants few records of a shard."""


def infer_schema(
    source: Source | RecordBatch | Sequence[bytes],
    *,
    sample: int = 1000,
    full: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Schema:
    """Find the schema of a dataset: from its manifest, or else from some of its records.

    These are the first ones of up to 8 shards, spread over the dataset. ``Schema.records_seen``
    says how many they were. A manifest knows, and nothing is read.

    From records, a feature that always holds one value becomes a scalar, and one that always holds
    n values gets shape (n,), since a record does not distinguish (2, 3) from (6,). One that varies
    gets shape (None,). One that is absent from some of the records is nullable. Strings become
    "bytes". A feature that never holds a value has no dtype, and is left out. A feature list of a
    SequenceExample becomes a feature with ``sequence``: of shape (None,) if each step holds one
    value, (None, n) if each holds n, and (None, None) if they vary. In a folder that TensorFlow
    Datasets wrote, ``features.json`` adds dtypes, shapes, text, images, and the names of classes.

    Args:
        source (str | PathLike | list | RecordBatch | list[bytes]): As for `RecordReader`; or
            records in memory.
        sample (int): How many records to look at. Default 1000.
        full (bool): Look at all of them. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        Schema: For `decode_examples`, `TFRecordDataset` and others.

    Raises:
        NoRecordsError: There are no records.
        ValueError: ``sample`` is below 1.
        SchemaError: One feature holds values of two kinds, or is in the context and in the feature
            lists.
        CorruptRecordError: A record is neither an Example nor a SequenceExample.
        ManifestError: A manifest or a ``features.json`` cannot be read.

    Example:
        >>> records = [tfs.encode_example({"x": x, "ids": [0] * x}) for x in (2, 1)]
        >>> tfs.infer_schema(records)
        Schema of 2 records:
          feature  dtype  shape    default
          ids      int64  (None,)
          x        int64  ()
    """
    if sample < 1:
        raise ValueError(f"sample must be at least 1, got {sample}")
    wanted = None if full else sample
    if _is_records(source):
        return schema_of_records(islice(source, wanted))
    storage = given_storage(storage_options, storage)
    with RecordReader(
        cast(Source, source), max_record_bytes=max_record_bytes, storage=storage
    ) as reader:
        dataset = reader.dataset
        known = dataset.schema
        if known is not None:
            return known
        if full:
            return schema_of_source(reader.batches(), source, storage)
        if dataset.shards.long or len(dataset.shards) < 2:
            return schema_of_source([list(islice(reader, sample))], source, storage)
    return _Sample(dataset, max_record_bytes).schema(sample, source, storage)


def first_schema(dataset: Dataset, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> Schema:
    """As `infer_schema`, by the first records, however they lie in shards."""
    if dataset.schema is not None:
        return dataset.schema
    with RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader:
        return schema_of_source([list(islice(reader, FIRST))], dataset, dataset.storage)


@dataclass
class _Sample:
    """Records of several shards. Errors name the shard, and count its records."""

    dataset: Dataset
    max_record_bytes: int
    runs: list[tuple[str, int]] = field(default_factory=list)
    """The file of each run of records, and how many there are."""

    def schema(self, sample: int, source: object, storage: Storage | None) -> Schema:
        try:
            return schema_of_source(self._batches(sample), source, storage, numbered=False)
        except SchemaError as error:
            url, number = self._place(error.record)
            raise placed(error, url, number) from error.__cause__
        except CorruptRecordError as error:
            if error.path != "<buffer>" or error.record is None:
                raise
            url, number = self._place(error.record)
            raise placed(error, url, number) from error.__cause__

    def _batches(self, sample: int) -> Iterator[list[bytes]]:
        """The same number of each shard. Those of the other shards come where these have too
        few."""
        count = len(self.dataset.shards)
        spread = sorted({i * (count - 1) // (_SHARDS - 1) for i in range(_SHARDS)})
        others = (i for i in range(count) if i not in spread)
        left = sample
        for each in spread:
            wanted = min(left, -(-sample // len(spread)))
            found = self._first(each, wanted)
            left -= len(found)
            yield found
        while left and (one := next(others, None)) is not None:
            found = self._first(one, left)
            left -= len(found)
            yield found

    def _first(self, number: int, wanted: int) -> list[bytes]:
        shard = self.dataset.shard(number)
        one = replace(self.dataset, shards=Shards([shard]))
        with RecordReader.of(
            one, memory_budget=_READ_AHEAD, max_record_bytes=self.max_record_bytes
        ) as reader:
            found = list(islice(reader, wanted))
        self.runs.append((shard.url, len(found)))
        return found

    def _place(self, record: int) -> tuple[str, int]:
        for url, count in self.runs:
            if record < count:
                return url, record
            record -= count
        raise AssertionError("there was no such record")


def named_schema(schema: object) -> Schema | None:
    """The schema that ``schema=`` of a reader names. None where the source is to tell it."""
    return None if schema is None or schema == "auto" else schema_to_read(schema)


def telling(dataset: Dataset, schema: object = None) -> Dataset:
    """The dataset, whose ``schema`` says what to decode also where no manifest does: where
    TensorFlow Datasets wrote the folder, and where ``schema=`` is "auto". None: whole records. The
    same dataset where ``schema=`` names another one."""
    if not (schema is None or schema == "auto"):
        return dataset
    if dataset.schema is not None or (dataset.told and schema is None):
        return dataset
    if schema is None and not (dataset.shards and tfds_features(dataset, None)):
        return dataset
    return replace(dataset, told=(Told(infer_schema(dataset).to_json()),))


def read_by(schema: object, dataset: Dataset) -> Schema | None:
    """The features to decode of a dataset by ``schema=``. None: nothing names any."""
    named = named_schema(schema)
    return telling(dataset, schema).schema if named is None else named


def _is_records(source: object) -> TypeGuard[RecordBatch | Sequence[bytes]]:
    if isinstance(source, (list, tuple)):
        return bool(source) and isinstance(source[0], bytes)
    return isinstance(source, RecordBatch)

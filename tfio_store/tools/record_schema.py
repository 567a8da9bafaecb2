"""Finds the schema that Examples or SequenceExamples have in common, by what each one holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from tfio_store.errors import CorruptRecordError, NoRecordsError, SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema
from tfio_store.storage.redaction import redacted
from tfio_store.tools.source_errors import of_source

__all__ = ["EMPTY_EXAMPLES", "schema_of_records"]

EMPTY_EXAMPLES = {b"", b"\n\0", b"\x12\0", b"\n\0\x12\0"}
"""Examples and SequenceExamples without a feature."""


@dataclass
class _Seen:
    """What is known of one feature, or of one feature list, so far."""

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
    records: Iterable[Any], source: object = None, first: int = 0, *, empty: bool = False
) -> Schema:
    """The schema that all of these records have; see `infer_schema`. Errors name the ``source``.
    ``first`` is the number of the first of them in the source. ``empty``: also the features that
    have a value in none of them."""
    with of_source(source):
        return _schema_of(records, source, first, empty)


def _schema_of(records: Iterable[Any], source: object, first: int, empty: bool) -> Schema:
    where = f" of {redacted(str(source))}" if isinstance(source, (str, PathLike)) else ""
    context: dict[str, _Seen] = {}
    lists: dict[str, _Seen] = {}
    total = 0
    for total, record in enumerate(records, 1):
        found, found_lists = _described(record, f"record {first + total - 1}{where}")
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


def _described(record: Any, which: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The features and the feature lists of one record. CorruptRecordError if it is something
    else."""
    what = f"{which} is neither a tf.train.Example nor a SequenceExample"
    try:
        found, lists = infer_features(record), infer_feature_lists(record)
    except CorruptRecordError as error:
        reason = f"{what}: {error.reason.removeprefix('not a tf.train.Example: ')}"
        raise CorruptRecordError(reason, path="<buffer>", offset=0) from None
    if not found and not lists and bytes(record[:5]) not in EMPTY_EXAMPLES:
        # Protobuf takes fields that it does not know. So other messages, such as the events of a
        # log, parse as Examples without features.
        reason = f"{what}: it has {len(record)} bytes and no feature; read it with RecordReader"
        raise CorruptRecordError(reason, path="<buffer>", offset=0)
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

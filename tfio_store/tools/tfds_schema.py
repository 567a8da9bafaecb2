"""Joins what records show of their features with what TensorFlow Datasets wrote of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain

from tfio_store.dataset.tfds_features import tfds_features
from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.codec import Records
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.storage import Storage
from tfio_store.tools.record_schema import schema_of_records

__all__ = ["schema_of_source"]


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
    told = tfds_features(source, storage)
    records = chain.from_iterable(_compared(batches, told))
    seen = schema_of_records(records, source if numbered else None)
    found = {n: _joined(seen[n], told[n]) if n in told else seen[n] for n in seen}
    return Schema(found)._of_records(seen.records_seen)


def _compared(batches: Iterable[Records], told: dict[str, Feature]) -> Iterator[Records]:
    """The batches. A feature whose values can't be read as it was told is told no more."""
    for batch in batches:
        while told:
            # The number of rows is not known of a file yet, nor whether they have the feature.
            rows = {n: replace(f, shape=(None, *f.row_shape)) for n, f in told.items() if _odd(f)}
            try:
                decode_examples(batch, rows)
            except SchemaError as error:
                del told[error.feature]
                continue
            except CorruptRecordError:
                pass  # who reads the batch says it better
            break
        yield batch


def _odd(feature: Feature) -> bool:
    """Whether values of the right wire type may misfit."""
    plain = feature.dtype in ("bytes", feature.wire)
    return feature.kind is None and not (plain and feature.width == 1)


def _joined(seen: Feature, told: Feature) -> Feature:
    if seen.wire != told.wire or seen.sequence:
        return seen
    return replace(seen, dtype=told.dtype, shape=_shape(seen, told), kind=told.kind)


def _shape(seen: Feature, told: Feature) -> tuple[int | None, ...]:
    """Records show numbers of values only, and the first of them may have the same by chance."""
    if seen.nested or told.nested:
        return seen.shape
    if told.ragged:
        return told.shape
    return told.shape if not seen.ragged and seen.width == told.width else seen.shape

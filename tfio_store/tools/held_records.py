"""Holds records to the schema of the dataset that they are appended to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.source import Source
from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.source_errors import of_source

__all__ = ["held_to"]

_WHOSE = "; the dataset to append to has this schema"


def held_to(
    kept: DatasetManifest | None, batches: Iterable[RecordBatch], source: Source
) -> Iterator[RecordBatch]:
    """The same batches. SchemaError for a record that readers of the dataset could not decode, or
    that holds a feature that they would not see."""
    if kept is None or kept.schema is None:
        yield from batches
        return
    schema = Schema.from_json(kept.schema)
    first = 0
    for batch in batches:
        with of_source(source, first):
            _check(batch, schema)
        yield batch
        first += len(batch)


def _check(batch: RecordBatch, schema: Schema) -> None:
    known = {*schema, *(name + ROW_LENGTHS for name, of in schema.items() if of.nested)}
    try:
        decode_examples(batch, schema)
        for number, record in enumerate(batch):
            for name in {**infer_features(record), **infer_feature_lists(record)}:
                if name not in known:
                    raise SchemaError("is not in the schema", feature=name, record=number)
    except SchemaError as error:
        raise SchemaError(
            error.reason + _WHOSE, feature=error.feature, record=error.record
        ) from error

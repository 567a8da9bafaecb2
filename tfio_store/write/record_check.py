"""Checks that dict records are what their dataset's schema says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples, encode_example
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.write.runs import Run

__all__ = ["RecordCheck"]


class RecordCheck:
    """Checks records before they are written. SchemaError for a mapping that readers could not
    decode by the schema, or that holds a feature that the schema lacks. Records that are bytes pass
    unchecked. Without a schema all records do."""

    def __init__(self, schema: object) -> None:
        self._schema = None if schema is None else Schema.of(schema)
        features = self._schema or Schema({})
        nested = [name + ROW_LENGTHS for name, feature in features.items() if feature.nested]
        self._known = {*features, *nested}

    def each(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs, each checked."""
        for run in runs:
            if self._schema is not None and not isinstance(run, RecordBatch):
                self._check(run, self._schema)
            yield run

    def one(self, record: object) -> None:
        if self._schema is not None:
            self._check([record], self._schema)

    def _check(self, run: list[Any], schema: Schema) -> None:
        numbered = [(i, each) for i, each in enumerate(run) if isinstance(each, Mapping)]
        for i, record in numbered:
            for name in record.keys() - self._known:
                raise SchemaError("is not in the schema", feature=str(name), record=i)
        try:
            decode_examples([encode_example(record) for _, record in numbered], schema)
        except SchemaError as error:
            number = numbered[error.record][0]
            raise SchemaError(error.reason, feature=error.feature, record=number) from None

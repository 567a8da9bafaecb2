"""Holds dict records to their dataset's schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.feature import ROW_LENGTHS
from tfio_store.example.record_fit import fit_record
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.write.runs import Run, encoded

__all__ = ["RecordCheck"]


class RecordCheck:
    """Fits records to the schema before they are written. SchemaError for a mapping that readers
    could not decode by the schema, or that holds a feature that the schema lacks. Records that are
    bytes pass unchecked. Without a schema all records do."""

    def __init__(self, schema: object) -> None:
        self._schema = None if schema is None else Schema.of(schema)
        features = self._schema or Schema({})
        nested = [
            name + ROW_LENGTHS
            for name, feature in features.items()
            if feature.nested and not feature.sequence
        ]
        self._known = {*features, *nested}

    def each(self, runs: Iterable[Run]) -> Iterator[Run]:
        """The same runs, fitted."""
        first = 0
        for run in runs:
            if self._schema is None or isinstance(run, RecordBatch):
                yield run
            else:
                yield self._fit(run, self._schema, first)
            first += len(run)

    def one(self, record: Any) -> Any:
        """The same record, fitted."""
        return record if self._schema is None else self._fit([record], self._schema)[0]

    def _fit(self, run: list[Any], schema: Schema, first: int = 0) -> list[Any]:
        """``first``: the number of the first record, for errors."""
        fit, numbers = list(run), []
        for i, record in enumerate(run):
            if not isinstance(record, Mapping):
                continue
            for name in record.keys() - self._known:
                raise SchemaError("is not in the schema", feature=str(name), record=first + i)
            fit[i] = fit_record(record, schema, first + i)
            numbers.append(i)
        try:
            decode_examples([encoded(fit[i]) for i in numbers], schema)
        except SchemaError as error:
            number = first + numbers[error.record]
            raise SchemaError(error.reason, feature=error.feature, record=number) from None
        return fit

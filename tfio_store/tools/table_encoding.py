"""The rows of a table that comes in parts, as Examples of one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfio_store.example.arrow_types import without_open
from tfio_store.example.codec import encode_rows
from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.table_parts import Part, Types
from tfio_store.tools.table_schema import TableSchema

__all__ = ["TableEncoder"]

_SLICE_BYTES = 4 << 20


class TableEncoder:
    """Encodes one part after another. The first one tells the columns. ``chosen`` features are
    heeded, and the ``kept`` ones are those of the dataset that the table is appended to."""

    def __init__(self, first: Part, chosen: Schema, kept: Mapping[str, Feature]) -> None:
        self._schema = TableSchema(first, chosen, kept)
        self._types = Types(self._schema.without_types)
        self._rows = 0

    @property
    def features(self) -> Schema:
        """What the parts so far show."""
        return self._schema.now

    @property
    def schema(self) -> Schema:
        """The same with the Arrow types of the columns."""
        types = self._types.packed()
        decided = self._schema.now.keys() - self._schema.undecided
        return Schema(self._schema.now, arrow=types and without_open(types, decided))

    @property
    def undecided(self) -> set[str]:
        """The columns that held nothing yet that tells of their type."""
        return self._schema.undecided

    def batches(self, part: Part) -> Iterator[RecordBatch]:
        """The records of a part, some MiB at a time. Errors count rows from the first part's
        first."""
        self._types.heed(part)
        self._schema.heed(part)
        columns, untyped = part.columns, self._schema.untyped(part)
        exact = self._schema.exact
        rows = max((len(column) for column in columns.values()), default=0)
        step = max(1, _SLICE_BYTES * rows // max(1, sum(map(_nbytes, columns.values()))))
        for start in range(0, max(rows, 1), step):  # a part without rows is held to the schema too
            some = {name: column[start : start + step] for name, column in columns.items()}
            first = self._rows + start
            yield encode_rows(some, self.features, first_row=first, exact=exact, untyped=untyped)
        self._rows += rows


def _nbytes(column: Any) -> int:
    """About how much memory a column's values take."""
    if isinstance(column, Ragged):
        return int(column.row_splits.nbytes) + _nbytes(column.values)
    if isinstance(column, list):
        return sum(map(len, column)) + 8 * len(column)
    if isinstance(column, Nullable):
        return column.valid.nbytes + _nbytes(column.values)
    return int(column.nbytes)

"""The rows of a table that comes in parts, as Examples of one schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from tfio_store.example.arrow_types import without_open
from tfio_store.example.codec import SchemaLike, encode_rows
from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable, apart
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema, WholeRecords, written_schema
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.table_parts import Part, Types
from tfio_store.tools.table_schema import TableSchema

__all__ = ["RecordEncoder", "TableEncoder", "chosen_schema", "encoder_of"]

_SLICE_BYTES = 4 << 20


def chosen_schema(schema: SchemaLike | Literal["bytes"] | None) -> Schema:
    """What a writer of tables is told by ``schema=``: "bytes", or as `written_schema`."""
    if isinstance(schema, str) and schema == "bytes":
        return WholeRecords()
    return written_schema({} if schema is None else schema)


def encoder_of(
    first: Part, chosen: Schema, kept: Mapping[str, Feature], *, exact: bool = False
) -> TableEncoder | RecordEncoder:
    """What makes records of tables like the ``first`` part."""
    if isinstance(chosen, WholeRecords):
        return RecordEncoder()
    return TableEncoder(first, chosen, kept, exact=exact)


class RecordEncoder:
    """Takes records that are there already out of tables of one column. It tells no schema, as
    nobody looks into them."""

    features = schema = None
    undecided: frozenset[str] = frozenset()

    def batches(self, part: Part) -> Iterator[RecordBatch]:
        """The records of a part. ValueError or TypeError for other columns."""
        if not part.columns:
            return
        if len(part.columns) > 1:
            raise ValueError(
                f'schema="bytes" writes one column of bytes as records; there are '
                f"{', '.join(map(repr, part.columns))}"
            )
        ((name, column),) = part.columns.items()
        values, valid = apart(column)
        if valid is not None and not valid.all():
            raise ValueError(f"column {name!r}: row {int(valid.argmin())} is null, and no record")
        if not isinstance(values, RecordBatch | list):
            values = [values]  # which are no bytes
        if isinstance(values, RecordBatch):
            yield values
            return
        if len(values) and not all(isinstance(value, bytes | bytearray) for value in values):
            raise TypeError(f'column {name!r}: schema="bytes" writes a column of bytes as records')
        yield RecordBatch.from_records(values)


class TableEncoder:
    """Encodes one part after another. The first one tells the columns. ``chosen`` features are
    heeded, and the ``kept`` ones are those of the dataset that the table is appended to."""

    def __init__(
        self, first: Part, chosen: Schema, kept: Mapping[str, Feature], *, exact: bool = False
    ) -> None:
        self._schema = TableSchema(first, chosen, kept, exact=exact)
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
        self._schema.heed(part)
        self._types.heed(part, self._schema.narrowed)
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

"""What a training loader gives of records: their bytes, or the features that a schema names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tfio_store.example import decode_examples
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.joining import joined_columns
from tfio_store.example.schema import Schema, column_names, schema_to_read
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.loader_source import Reader, known_schema
from tfio_store.tools.source_errors import of_source

__all__ = ["LoaderContent", "wanted_schema"]


def wanted_schema(
    reader: Reader | RecordSource, schema: SchemaToRead | None, columns: Sequence[str] | None
) -> Schema | None:
    """What to decode, by ``schema=`` and ``columns=``. None: records come as they are. ValueError,
    KeyError or TypeError for what cannot be given."""
    columns = None if columns is None else column_names(columns)
    if schema is None or schema == "auto":
        found = known_schema(reader, schema)
    elif schema == "bytes":
        found = None
    else:
        found = schema_to_read(schema)
    if found is not None and columns is not None:
        found = found.select(columns)
    elif columns is not None:
        raise ValueError(
            f"columns={list(columns)!r}: nothing tells which features the records hold; pass "
            "schema=, for example what tfio_store.infer_schema finds"
        )
    if found is not None and not found:
        raise ValueError("columns= and schema= leave no feature to decode")
    return found


@dataclass(frozen=True, slots=True)
class LoaderContent:
    """``schema`` None: the records themselves, as bytes."""

    schema: Schema | None
    source: str | None = None
    """What errors of a record name."""

    def decode(self, records: RecordBatch | Iterable[bytes]) -> Any:
        """The columns of records, in which `cut` and `joined` take parts."""
        if self.schema is None:
            return records
        with of_source(self.source):
            return dict(decode_examples(records, self.schema))

    @staticmethod
    def cut(decoded: Any, start: int, stop: int) -> Any:
        """Some of the rows, without a copy."""
        if not isinstance(decoded, dict):
            return decoded[start:stop]
        return {name: column[start:stop] for name, column in decoded.items()}

    def joined(self, parts: list[Any]) -> Any:
        """Parts end to end: a dict of columns, or a list of bytes."""
        if self.schema is None:
            return [record for part in parts for record in part]
        return {name: joined_columns([part[name] for part in parts]) for name in self.schema}

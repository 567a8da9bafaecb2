"""Spark's types, Arrow's and a schema's. Spark takes Arrow batches only if every type is the one
that it has chosen itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema

__all__ = ["arrow_schema", "features_of", "is_bytes", "spark_schema"]


def spark_schema(types: Any) -> Any:
    """The Spark schema (StructType) for columns of these Arrow types. All columns take nulls."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    found = StructType()
    for of in types:
        known = pa.field(of.name, _known_to_spark(pa, of.name, of.type))
        with _of_column(of.name, of.type):
            found.add(from_arrow_schema(pa.schema([known])).fields[0])
    return found


def arrow_schema(schema: Any) -> Any:
    """The Arrow schema that Spark demands for its own. ValueError for a column that it has none
    for."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    # Spark 4.0 and 4.1 have UTC without being told.
    how = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    fields = []
    for field in schema.fields:
        with _of_column(field.name, field.dataType.simpleString()):
            fields.append(to_arrow_schema(StructType([field]), **how).field(0))
    return pa.schema(fields)


@contextmanager
def _of_column(name: str, kind: object) -> Iterator[None]:
    """Spark's errors do not tell the column."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} is {kind}, which does not go from Arrow to Spark and back: {error}"
        ) from error


def _known_to_spark(pa: Any, name: str, kind: Any) -> Any:
    """The nearest type that Spark has and that holds every value."""
    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return _known_to_spark(pa, name, kind.storage_type)
    if types.is_dictionary(kind):
        return _known_to_spark(pa, name, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_known_to_spark(pa, name, kind.value_type))
    wider = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.float16(): pa.float32(),
        pa.string_view(): pa.string(),
        pa.binary_view(): pa.binary(),
        pa.date64(): pa.date32(),
        pa.time32("s"): pa.time64("ns"),
        pa.time32("ms"): pa.time64("ns"),
    }
    return wider.get(kind, kind)


def is_bytes(schema: Any) -> bool:
    """Whether there is one column, of binary."""
    return [field.dataType.typeName() for field in schema.fields] == ["binary"]


def features_of(schema: Any, record_type: str | None, *, every: bool = True) -> Schema:
    """What records hold whose columns have Spark's types. Every column may lack in a record.
    ValueError for a type that no feature has; such columns are left out if not ``every`` one
    counts."""
    found = {field.name: _feature(field.dataType, record_type) for field in schema.fields}
    for field in schema.fields:
        if every and found[field.name] is None:
            raise ValueError(
                f"column {field.name!r} is {field.dataType.simpleString()}, which no feature is; "
                f"there are {', '.join(_DTYPES)}, and arrays of these"
            )
    return Schema({name: feature for name, feature in found.items() if feature is not None})


def _feature(kind: Any, record_type: str | None) -> Feature | None:
    depth = 0
    while kind.typeName() == "array":
        kind, depth = kind.elementType, depth + 1
    dtype = _DTYPES.get(kind.typeName())
    if dtype is None or depth > 2:
        return None
    steps = record_type == "SequenceExample" and depth == 2
    return Feature(dtype, (None,) * depth, nullable=True, sequence=steps)


_DTYPES: Mapping[str, str] = {
    "long": "int64",
    "integer": "int32",
    "short": "int16",
    "byte": "int8",
    "boolean": "bool",
    "float": "float32",
    "double": "float64",
    "string": "str",
    "binary": "bytes",
}

"""Spark's types of a schema, and the casts between them and Arrow's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import signature
from typing import Any

from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema


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

    # Spark 4.0 and 4.1 have UTC anyway.
    how = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    fields = []
    for field in schema.fields:
        with _of_column(field.name, field.dataType.simpleString()):
            fields.append(to_arrow_schema(StructType([field]), **how).field(0))
    return pa.schema(fields)


@contextmanager
def _of_column(name: str, kind: object) -> Iterator[None]:
    """Spark's errors do not name the column."""
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
    """The schema of records whose columns have Spark's types. Any column may be missing in a
    record. ValueError for a type that no feature has; such columns are left out if not ``every``
    one counts."""
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


# A record batch of the types that Spark demands. What would lose something, or is a matter of
# opinion, is an error: a zone that was not given, the unit of a number that is to be a time.


def spark_batch(columns: Sequence[Any], types: Any, rows: int) -> Any:
    """ValueError, with the column's name, if values do not fit the types."""
    import pyarrow as pa

    if not len(types):  # a batch of no columns still has a number of rows
        return pa.RecordBatch.from_struct_array(pa.Array.from_buffers(pa.struct([]), rows, [None]))
    made = [_cast(pa, of, column) for of, column in zip(types, columns, strict=True)]
    return pa.RecordBatch.from_arrays(made, schema=types)


def check_casts(found: Any, types: Any) -> None:
    """ValueError for a column of a type that `spark_batch` makes nothing of, whatever it holds."""
    for of in types:
        _check_cast(of, _plain(found.field(of.name).type))


def _cast(pa: Any, of: Any, column: Any) -> Any:
    plain = column.storage if isinstance(column, pa.ExtensionArray) else column
    _check_cast(of, plain.type)
    try:
        made = plain.cast(of.type)
    except pa.ArrowException as error:
        raise ValueError(f"column {of.name!r} can't become {of.type}: {error}") from None
    if made.null_count and not of.nullable:
        raise ValueError(f"column {of.name!r} has nulls, and schema() says that it has none")
    if made.type != plain.type:
        _check_values(of, _leaves(plain), _leaves(made))
    return made


def _check_cast(of: Any, found: Any) -> None:
    """Times come of the same kind of times alone, or of text that has them."""
    from pyarrow import types

    one, other = _leaf_type(found), _leaf_type(of.type)
    as_text = types.is_string(one) or types.is_large_string(one) or types.is_string(other)
    if _kind_of_time(one) != _kind_of_time(other) and not as_text and not types.is_null(one):
        raise ValueError(
            f"column {of.name!r} is {found}, and schema() says {of.type}: nothing says the unit, "
            "or the zone, to make one of the other by; name its own type, and cast it in Spark"
        )


def _kind_of_time(kind: Any) -> str | None:
    from pyarrow import types

    if not types.is_temporal(kind):
        return None
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz is None else "timestamp with a zone"
    return "date" if types.is_date(kind) else "time" if types.is_time(kind) else "duration"


def _check_values(of: Any, found: Any, made: Any) -> None:
    """ValueError for what a cast changes without a word."""
    import pyarrow.compute as pc
    from pyarrow import types

    is_number = types.is_integer(found.type) or types.is_floating(found.type)
    if types.is_boolean(made.type) and is_number and not made.cast(found.type).equals(found):
        raise ValueError(
            f"column {of.name!r} can't become {of.type}: it holds other numbers than 0 and 1"
        )
    is_narrower = types.is_float32(made.type) and types.is_float64(found.type)
    if is_narrower and not pc.is_inf(made).equals(pc.is_inf(found)):
        raise ValueError(f"column {of.name!r} can't become {of.type}: a number is too large")


def _plain(kind: Any) -> Any:
    return getattr(kind, "storage_type", kind)


def _leaf_type(kind: Any) -> Any:
    """The type of the items of its lists, or of lists of these."""
    from pyarrow import types

    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        kind = kind.value_type
    return kind.value_type if types.is_dictionary(kind) else kind


def _leaves(array: Any) -> Any:
    """All values of lists, or of lists in these."""
    from pyarrow import types

    while types.is_nested(array.type):
        array = array.flatten()
    return array

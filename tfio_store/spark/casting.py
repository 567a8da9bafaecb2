"""A record batch of the types that Spark demands. What would lose something, or is a matter of
opinion, is an error: a zone that nobody told, the unit of a number that is to be a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["check_casts", "spark_batch"]


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
    """Times come of the same kind of times alone, or of text that tells them."""
    from pyarrow import types

    one, other = _leaf_type(found), _leaf_type(of.type)
    as_text = types.is_string(one) or types.is_large_string(one) or types.is_string(other)
    if _kind_of_time(one) != _kind_of_time(other) and not as_text and not types.is_null(one):
        raise ValueError(
            f"column {of.name!r} is {found}, and schema() says {of.type}: nothing tells the unit, "
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
    """What is in lists of it, or in lists of these."""
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

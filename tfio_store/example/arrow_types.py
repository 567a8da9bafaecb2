"""The Arrow types that a table's columns had. A manifest keeps them, so that the same table comes
back.

They are an Arrow IPC stream of the table without its rows. This holds names, types, the values of
dictionaries, and the metadata of the schema and its fields, where pandas keeps its dtypes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from tfio_store.example.decoding import MOST_ROOM

_MOST_DICTIONARY = 1 << 20
"""Bytes of a dictionary that are kept. Of a longer one the values that occur come back."""


def packed(fields: Mapping[str, Any], dictionaries: Mapping[str, Any], metadata: Any) -> bytes:
    """The stream. ``dictionaries`` are by column name."""
    import pyarrow as pa

    empty, kept = [], []
    for field in fields.values():
        empty.append(_no_rows(pa, field.type, dictionaries.get(field.name)))
        widened = pa.types.is_dictionary(field.type)
        kept.append(field.with_type(empty[-1].type) if widened else field)
    schema = pa.schema(kept, metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(empty, schema=schema))
    return bytes(sink.getvalue())


def _no_rows(pa: Any, kind: Any, dictionary: Any) -> Any:
    if not pa.types.is_dictionary(kind):
        return pa.array([], kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind)
    index = kind.index_type
    if dictionary is None:
        dictionary = pa.array([], kind.value_type)
    elif dictionary.nbytes > _MOST_DICTIONARY:  # parts will have dictionaries that must be joined
        dictionary, index = pa.array([], kind.value_type), pa.int32()
    else:
        index = _index_type(pa, kind, len(dictionary))
    return pa.DictionaryArray.from_arrays(pa.array([], index), dictionary, ordered=kind.ordered)


def _index_type(pa: Any, kind: Any, size: int) -> Any:
    """The type's own, or a wider one if there are too many values for it."""
    bits = kind.index_type.bit_width - pa.types.is_signed_integer(kind.index_type)
    return kind.index_type if size <= 1 << bits else pa.int32()


def with_room(kind: Any) -> Any:
    """The type, whose dictionaries inside lists have an index for the values of any rows."""
    import pyarrow as pa

    if not is_list(pa, kind):
        return kind
    inner = kind.value_type
    if pa.types.is_dictionary(inner):
        inner = pa.dictionary(pa.int32(), inner.value_type, inner.ordered)
    return lists_of(pa, kind, kind.value_field.with_type(with_room(inner)))


def is_list(pa: Any, kind: Any) -> bool:
    """Whether it is a type of lists, of any length or of a fixed one."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def lists_of(pa: Any, kind: Any, items: Any) -> Any:
    """The type of lists, with other items."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(items, kind.list_size)
    return pa.large_list(items) if pa.types.is_large_list(kind) else pa.list_(items)


def joined(known: Any, new: Any) -> Any:
    """A dictionary of all values of two, those of the first one first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_null(known.type):
        return new
    new = new.cast(known.type)
    missing = new.filter(pc.invert(pc.is_in(new, value_set=known)))
    return pa.concat_arrays([known, missing])


def unpacked(data: bytes) -> tuple[Any, dict[str, Any]]:
    """The Arrow schema, and the dictionaries by column name. ValueError if it is no stream."""
    schema, dictionaries = _unpacked(data)
    return schema, dict(dictionaries)


@lru_cache(maxsize=8)  # each batch of a table asks for the same
def _unpacked(data: bytes) -> tuple[Any, dict[str, Any]]:
    import pyarrow as pa

    try:
        with pa.ipc.open_stream(data) as stream:
            batch = stream.read_next_batch()
        batch.validate(full=True)
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"not the Arrow types of a table: {error}") from None
    found = zip(batch.schema.names, batch.columns, strict=True)
    return batch.schema, {
        name: column.dictionary for name, column in found if pa.types.is_dictionary(column.type)
    }


def zoned(data: bytes) -> set[str]:
    """The names of the columns of times that have a zone: their numbers count from UTC."""
    import pyarrow as pa

    def has_zone(kind: Any) -> bool:
        if pa.types.is_dictionary(kind) or is_list(pa, kind):
            return has_zone(kind.value_type)
        return bool(pa.types.is_timestamp(kind) and kind.tz is not None)

    schema, _ = unpacked(data)
    return {field.name for field in schema if has_zone(field.type)}


def united(kept: bytes, new: bytes) -> bytes:
    """The stream for the rows of two streams. TypeError where a column has types that differ."""
    import pyarrow as pa

    schema, dictionaries = unpacked(kept)
    other, more = unpacked(new)
    fields = {field.name: field for field in schema}
    for field in other:
        known = fields.get(field.name, field)
        fields[field.name] = common_field(known, field)
    coded = [name for name, field in fields.items() if pa.types.is_dictionary(field.type)]
    for name in more.keys() & dictionaries.keys():
        more[name] = joined(dictionaries[name], more[name])
    values = dictionaries | more
    return packed(fields, {name: values[name] for name in coded}, schema.metadata)


def without_open(data: bytes, decided: Collection[str]) -> bytes | None:
    """The stream without the types of those ``decided`` columns that hold only nulls, or lists of
    an unknown type. None if no column is left."""
    import pyarrow as pa

    schema, dictionaries = unpacked(data)
    fields = {
        field.name: field
        for field in schema
        if field.name not in decided or not _is_open(pa, field.type)
    }
    if len(fields) == len(schema):
        return data
    kept = {name: values for name, values in dictionaries.items() if name in fields}
    return packed(fields, kept, schema.metadata) if fields else None


def _is_open(pa: Any, kind: Any) -> bool:
    """Whether the type of the values is unknown: there was none."""
    if pa.types.is_dictionary(kind) or is_list(pa, kind):
        return _is_open(pa, kind.value_type)
    return bool(pa.types.is_null(kind))


def narrowed_type(kind: Any) -> Any:
    """The type with float32 in the place of float64."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        return narrowed_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return narrowed_type(kind.value_type)
    if not is_list(pa, kind):
        return pa.float32() if pa.types.is_float64(kind) else kind
    return lists_of(pa, kind, kind.value_field.with_type(narrowed_type(kind.value_type)))


def common_field(known: Any, new: Any) -> Any:
    """The Arrow field of a column whose parts have these. TypeError where they are of two kinds."""
    kind = _common_type(known.type, new.type)
    if kind is None:
        raise TypeError(
            f"feature {new.name!r}: a part has the Arrow type {new.type}, where earlier parts have "
            f"{known.type}"
        )
    field = new if str(known.type) == "null" else known.with_type(kind)
    return field.with_nullable(known.nullable or new.nullable)


def _common_type(known: Any, new: Any) -> Any:
    """The known type, or a wider one that takes the rows of both. What has no values has no type,
    and lists that are not of one length are of any. None where types are of two kinds."""
    import pyarrow as pa

    types = pa.types
    if known.equals(new) or types.is_null(new):
        return known
    if types.is_null(known):
        return new
    if is_list(pa, known) and is_list(pa, new):
        return _common_list(pa, known, new)
    if types.is_dictionary(known) and types.is_dictionary(new):
        inner = _common_type(known.value_type, new.value_type)
        return None if inner is None else new if types.is_null(known.value_type) else known
    return known if _family(known) == _family(new) else None


def _common_list(pa: Any, known: Any, new: Any) -> Any:
    inner = _common_type(known.value_type, new.value_type)
    if inner is None:
        return None
    items = known.value_field.with_type(inner)
    fixed = [pa.types.is_fixed_size_list(kind) for kind in (known, new)]
    if all(fixed) and known.list_size == new.list_size:
        return pa.list_(items, known.list_size)
    of_any_length = new if fixed[0] else known
    return pa.large_list(items) if pa.types.is_large_list(of_any_length) else pa.list_(items)


def _family(kind: Any) -> str:
    """The part of a type that parts of one column must share. Sizes and widths are not in it:
    these the schema holds together."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _family(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return str(kind)
    if is_list(pa, kind):
        return f"list of {_family(kind.value_type)}"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "numbers"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind):
        return "bytes"
    return str(kind)


def as_type(column: Any, kind: Any, dictionary: Any = None) -> Any:
    """A decoded column as an array of the type that it was written from. ArrowException if it holds
    what the type can't."""
    import pyarrow as pa

    if column.type.equals(kind):
        return column
    if isinstance(kind, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(kind, as_type(column, kind.storage_type))
    if pa.types.is_dictionary(kind):
        return _dictionary(pa, as_type(column, kind.value_type), kind, dictionary)
    if pa.types.is_null(kind):
        if column.null_count < len(column):
            raise pa.ArrowInvalid("a column of nulls alone has values")
        return pa.nulls(len(column))
    if pa.types.is_time(kind):
        return column.view(kind)
    if pa.types.is_fixed_size_list(kind):
        _check_nulls(column, kind)
    if not hasattr(kind, "value_type") or _castable(pa, kind.value_type):
        return column.cast(kind)
    return _lists(pa, column, kind)


def _check_nulls(column: Any, kind: Any) -> None:
    """MemoryError for nulls that would take much room as lists of a fixed size, which comes from a
    file."""
    room = column.null_count * kind.list_size * np.dtype(np.int64).itemsize
    if room > MOST_ROOM:
        raise MemoryError(
            f"{column.null_count} nulls as {kind} would take {room} bytes; read fewer records at "
            "once, or leave the column out"
        )


def _castable(pa: Any, kind: Any) -> bool:
    """Whether Arrow's own cast leads to the type."""
    if pa.types.is_null(kind) or pa.types.is_dictionary(kind) or pa.types.is_time(kind):
        return False
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):  # not in lists with nulls
        return False
    if isinstance(kind, pa.BaseExtensionType):
        return False
    return _castable(pa, kind.value_type) if hasattr(kind, "value_type") else True


def _lists(pa: Any, column: Any, kind: Any) -> Any:
    """Lists of what Arrow does not cast: the items are made by `as_type`."""
    mask = column.is_null() if column.null_count else None
    if pa.types.is_fixed_size_list(kind):
        fixed = pa.types.is_fixed_size_list(column.type)
        values = column.values if fixed else _evenly(pa, column, kind)
        items = as_type(values, kind.value_type)
        kind = pa.list_(kind.value_field.with_type(items.type), kind.list_size)
        return pa.FixedSizeListArray.from_arrays(items, type=kind, mask=mask)
    items = as_type(column.values, kind.value_type)
    large = pa.types.is_large_list(kind)
    made, list_of = (pa.LargeListArray, pa.large_list) if large else (pa.ListArray, pa.list_)
    offsets = column.offsets.cast(pa.int64() if large else pa.int32())
    # The items' own type: a dictionary may have grown out of the index that it had.
    kind = list_of(kind.value_field.with_type(items.type))
    return made.from_arrays(offsets, items, type=kind, mask=mask)


def _evenly(pa: Any, column: Any, kind: Any) -> Any:
    """The items of lists, as many for each row as the fixed-size type has: nulls in null rows.
    ArrowInvalid if a row has not as many."""
    import pyarrow.compute as pc

    size, valid = kind.list_size, column.is_valid().to_numpy(zero_copy_only=False)
    if pc.any(pc.not_equal(pc.list_value_length(column), size)).as_py():
        raise pa.ArrowInvalid(f"not all rows have {size} items")
    places = np.full((len(column), size), -1, np.int64)
    places[valid] = np.arange(int(valid.sum()) * size).reshape(-1, size)
    flat = places.ravel()
    return column.flatten().take(pa.array(flat, mask=flat < 0))


def _dictionary(pa: Any, values: Any, kind: Any, dictionary: Any) -> Any:
    """The values as indices into the dictionary. Values that it lacks are put behind its own."""
    import pyarrow.compute as pc

    if dictionary is None:
        dictionary = pa.array([], kind.value_type)
    known = joined(dictionary, pc.unique(values).drop_null())
    indices = pc.index_in(values, value_set=known).cast(_index_type(pa, kind, len(known)))
    return pa.DictionaryArray.from_arrays(indices, known, ordered=kind.ordered)

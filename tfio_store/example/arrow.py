"""Decoded columns to pyarrow and pandas, and back from pyarrow, without Python per row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfio_store.errors import SchemaError
from tfio_store.example.arrow_types import as_type, is_list, lists_of, unpacked
from tfio_store.example.decoding import record_of
from tfio_store.example.feature import Feature
from tfio_store.example.ragged import Nullable, Ragged, Text, spread, valid_rows
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch


def to_arrow(columns: Mapping[str, Any], schema: Schema, wanted: Any = None) -> Any:
    """A Table. Fixed dimensions become fixed-size lists, ragged ones large lists. The types are
    then those of ``wanted``, or of the table that was written, if that is known."""
    pa = needed_pyarrow()
    rows = _rows(columns, schema)
    arrays = {}
    for name, column in columns.items():
        try:
            arrays[name] = _array(pa, column, schema[name], rows)
        except pa.ArrowInvalid:
            _check_text(name, column, schema[name])
            raise
        except pa.ArrowTypeError as error:
            raise TypeError(
                f"feature {name!r}: {error}; of images, Arrow takes the encoded bytes, which come "
                "without decode_images="
            ) from None
    if wanted is not None:
        return _typed(pa, arrays, wanted, {})
    if schema.arrow is None:
        return pa.table(arrays)
    types, dictionaries = unpacked(schema.arrow)
    return _typed(pa, arrays, _with_null_flags(pa, types, schema), dictionaries)


def _with_null_flags(pa: Any, types: Any, schema: Schema) -> Any:
    """The Arrow types, which take nulls wherever the schema says that there are some. Later rows
    may have brought them than those that the types are of."""
    fields = [
        field.with_nullable(
            field.nullable or (field.name in schema and schema[field.name].nullable)
        )
        for field in types
    ]
    return pa.schema(fields, metadata=types.metadata)


def _typed(pa: Any, arrays: dict[str, Any], wanted: Any, dictionaries: Mapping[str, Any]) -> Any:
    """A table of the wanted types. Columns that it has none for stay as they are."""
    fields = []
    for name, array in arrays.items():
        found = wanted.get_field_index(name)
        fields.append(pa.field(name, array.type) if found < 0 else wanted.field(found))
        try:
            arrays[name] = as_type(array, fields[-1].type, dictionaries.get(name))
        except pa.ArrowException as error:
            raise ValueError(f"feature {name!r} can't become {fields[-1].type}: {error}") from None
        fields[-1] = fields[-1].with_type(arrays[name].type)  # of a longer dictionary
    schema = pa.schema(fields, metadata=wanted.metadata)
    return pa.Table.from_arrays(list(arrays.values()), schema=schema)


def needed_pyarrow() -> Any:
    """The package. ImportError that says how to install it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("pyarrow is needed: pip install 'tfio_store[arrow]'") from error
    return pyarrow


def _check_text(name: str, column: Any, feature: Feature) -> None:
    """SchemaError for the first byte string of a batch that is not the text that it should be."""
    values, splits = column.values if isinstance(column, Nullable) else column, None
    while isinstance(values, Ragged):
        splits = values.row_splits if splits is None else values.row_splits[splits]
        values = values.values
    if feature.dtype != "str" or not isinstance(values, RecordBatch):
        return
    for index, value in enumerate(values):
        try:
            value.decode()
        except UnicodeDecodeError as error:
            record = record_of(index, splits, feature.width)
            reason = f"is not UTF-8: {error}; decode it as dtype 'bytes'"
            raise SchemaError(reason, feature=name, record=record) from None


def _rows(columns: Mapping[str, Any], schema: Schema) -> int:
    """How many rows there are. A batch of byte strings does not show it if a row has none."""
    for name, column in columns.items():
        values = column.values if isinstance(column, Nullable) else column
        if not isinstance(values, RecordBatch):
            return len(column)
        if schema[name].width:
            return len(values) // schema[name].width
    return 0


def _array(pa: Any, column: Any, feature: Feature, rows: int) -> Any:
    if isinstance(column, Nullable):
        values = _array(pa, column.values, feature, rows)
        each = max(1, len(column) // max(1, len(values)))  # flags of one row
        return _with_nulls(pa, values, column.valid[::each])
    if isinstance(column, np.ma.MaskedArray):
        return _with_nulls(pa, _array(pa, np.asarray(column), feature, rows), valid_rows(column))
    if isinstance(column, Ragged):
        items = replace(feature, shape=feature.row_shape, default=None, sequence=False)
        splits = column.row_splits
        if isinstance(column.values, RecordBatch):  # which is flat
            splits = splits // feature.width
        values = _array(pa, column.values, items, int(splits[-1]))
        return pa.LargeListArray.from_arrays(pa.array(splits), values)
    text = pa.large_string() if feature.dtype == "str" else pa.large_binary()
    if isinstance(column, RecordBatch):
        return _fixed_lists(pa, column.to_arrow().cast(text), (rows, *feature.shape))
    flat = column.reshape(-1)
    if column.dtype.kind in "cV":
        raise TypeError(f"dtype {column.dtype} has no Arrow type; read the column as arrays")
    flat = pa.array(flat, text) if column.dtype == object else pa.array(flat)
    return _fixed_lists(pa, flat, column.shape)


def _fixed_lists(pa: Any, flat: Any, shape: tuple[Any, ...]) -> Any:
    """``flat`` in fixed-size lists, one for each dimension but the first."""
    for level in range(len(shape) - 1, 0, -1):
        kind = pa.list_(flat.type, shape[level])
        flat = pa.Array.from_buffers(kind, math.prod(shape[:level]), [None], children=[flat])
    return flat


def _with_nulls(pa: Any, array: Any, valid: Any) -> Any:
    """The array, which has no nulls and begins at its memory's start, with some: over its own
    memory, but for a bit for each row."""
    if valid.all():
        return array
    nested = None
    if pa.types.is_fixed_size_list(array.type):  # whose null rows have items, which no cast may see
        nested = [_with_nulls(pa, array.values, np.repeat(valid, array.type.list_size))]
    elif array.type.num_fields:
        nested = [array.values]
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    memory = array.buffers()[1 : array.type.num_buffers]
    return pa.Array.from_buffers(array.type, len(array), [bits, *memory], children=nested)


def from_arrow(name: str, column: Any) -> Any:
    """An array, `RecordBatch` or `Ragged` over the column's memory, or a copy where chunks must be
    joined or nulls left out; a `Nullable` if there are nulls. ValueError for nulls inside lists,
    TypeError for types that a feature can't hold."""
    pa = needed_pyarrow()
    if pa.types.is_struct(column.type):
        raise TypeError(
            f"feature {name!r}: Arrow type {column.type} can't be encoded; write_table(..., "
            "flatten=True) makes columns of its fields"
        )
    try:
        return _from_column(pa, name, column)
    except pa.ArrowNotImplementedError as error:
        raise TypeError(
            f"feature {name!r}: Arrow type {column.type} can't be encoded: {error}"
        ) from None


def _from_column(pa: Any, name: str, column: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.unify_dictionaries().combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # what does not fit one array of 32-bit offsets
        raise ValueError(f"feature {name!r}: too large for its type; use the large_ one")
    if isinstance(column, pa.DictionaryArray):
        column = column.dictionary_decode()
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    column = column.cast(_without_views(pa, column.type))
    if not column.null_count:
        return _from_array(pa, name, column)
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return Nullable(spread(_from_array(pa, name, column.drop_null()), valid), valid)


def _without_views(pa: Any, kind: Any) -> Any:
    """The same type with strings of the older layout. Arrow does little with the newer one."""
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    return lists_of(pa, kind, _without_views(pa, kind.value_type)) if is_list(pa, kind) else kind


def _items(name: str, column: Any) -> Any:
    if column.null_count:
        raise ValueError(
            f"feature {name!r}: {column.null_count} nulls inside its lists; a row is null as a "
            "whole, or not at all"
        )
    return _from_column(needed_pyarrow(), name, column)


def _from_array(pa: Any, name: str, column: Any) -> Any:
    kind, types = column.type, pa.types
    if types.is_list(kind) or types.is_large_list(kind):
        splits = column.offsets.to_numpy().astype(np.int64)
        start, stop = int(splits[0]), int(splits[-1])
        return Ragged(_items(name, column.values[start:stop]), splits - start)
    if types.is_fixed_size_list(kind):
        return _fixed_rows(column, _items(name, column.flatten()))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_decimal(kind):
        return Text(_binary(column.cast(pa.large_string())))
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return _binary(column.cast(pa.large_binary()))
    if types.is_time(kind):
        return column.view(pa.int32() if types.is_time32(kind) else pa.int64()).to_numpy()
    if types.is_null(kind):
        return []
    if types.is_boolean(kind) or (types.is_primitive(kind) and not types.is_interval(kind)):
        return column.to_numpy(zero_copy_only=False)
    raise TypeError(f"feature {name!r}: Arrow type {kind} can't be encoded")


def _fixed_rows(column: Any, items: Any) -> Any:
    size = column.type.list_size
    if isinstance(items, np.ndarray):
        return items.reshape(len(column), size, *items.shape[1:])
    if isinstance(items, Ragged):
        return Ragged(items, np.arange(len(column) + 1, dtype=np.int64) * size)
    texts = np.empty(len(column) * size, object)
    texts[:] = [item.decode() for item in items.batch] if isinstance(items, Text) else list(items)
    return texts.reshape(len(column), size)


def _binary(column: Any) -> RecordBatch:
    """Arrow's own layout of byte strings: offsets into one buffer."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    return RecordBatch(data if data is not None else b"", ends[:-1], np.diff(ends))


# Decoded columns as a pandas data frame.


def to_pandas(columns: Mapping[str, Any], schema: Schema) -> Any:
    """A DataFrame, as the one that was written, if one was. Else what is not one value per row
    becomes one object per row."""
    import pandas

    typed = {name: columns[name] for name in _typed_names(schema) if name in columns}
    if not typed:
        return pandas.DataFrame({name: _column(pandas, columns[name]) for name in columns})
    table = to_arrow(typed, schema)
    if b"pandas" in (table.schema.metadata or {}):
        return _in_order(pandas, columns, typed, _frame(pandas, columns, table))
    made = {
        name: table[name].to_pandas()
        if name in typed and not _is_numbers(column)
        else _column(pandas, column)
        for name, column in columns.items()
    }
    return pandas.DataFrame(made)


def _typed_names(schema: Schema) -> list[str]:
    """The columns whose Arrow types are known, if pyarrow is there to make them."""
    if schema.arrow is None:
        return []
    try:
        return list(unpacked(schema.arrow)[0].names)
    except ImportError:
        return []


def _in_order(pandas: Any, columns: Mapping[str, Any], typed: Any, frame: Any) -> Any:
    """The frame of the typed columns, with the others at their places."""
    columns = {name: columns[name] for name in columns if name in frame or name not in typed}
    if all(name in typed for name in columns):
        return frame[list(columns)]
    rows = frame.reset_index(drop=True)
    parts = {
        name: rows[name] if name in typed else _column(pandas, column)
        for name, column in columns.items()
    }
    return pandas.DataFrame(parts).set_axis(frame.index)


def _frame(pandas: Any, columns: Mapping[str, Any], table: Any) -> Any:
    """The frame of a table. What pandas had as objects is objects again, integers among nulls keep
    their digits, and NaN beside NA stays NaN."""
    frame = table.to_pandas(integer_object_nulls=True)
    for column in table.schema.pandas_metadata["columns"]:
        name, dtype = column["name"], column["numpy_type"]
        if name not in frame:
            continue
        if dtype == "object" and frame[name].dtype != object:
            made = frame[name].astype(object)
            made[table[name].is_null().to_numpy()] = None
            frame[name] = made
        elif dtype in ("Float32", "Float64"):
            values = columns[name]
            frame[name] = _nullable(pandas, np.asarray(values), ~np.ma.getmaskarray(values))
    return frame


def _is_numbers(column: Any) -> bool:
    """Whether pandas has a nullable dtype for them, and Arrow's way to it would give NaN."""
    return (
        isinstance(column, np.ma.MaskedArray) and column.ndim == 1 and column.dtype.kind in "iubf"
    )


def _column(pandas: Any, column: Any) -> Any:
    if isinstance(column, np.ma.MaskedArray):
        valid = valid_rows(column)
        values = np.asarray(column)
        return (
            _nullable(pandas, values, valid)
            if column.ndim == 1
            else _row_lists(pandas, values, valid)
        )
    if isinstance(column, Nullable):
        return _row_lists(pandas, column.values, column.valid)
    return list(column) if getattr(column, "ndim", 2) > 1 else column


def _nullable(pandas: Any, values: Any, valid: Any) -> Any:
    """An array of one of pandas' nullable dtypes, where it has one for the numbers."""
    arrays = pandas.arrays
    kind = values.dtype.kind
    if kind in "iu":
        return arrays.IntegerArray(values, ~valid)
    if kind == "b":
        return arrays.BooleanArray(values, ~valid)
    if kind == "f":
        wide = values.astype(np.float32) if values.dtype.itemsize < 4 else values
        return arrays.FloatingArray(wide, ~valid)
    if kind in "mM":
        return np.where(valid, values, np.array("NaT", values.dtype))
    return _row_lists(pandas, values, valid)


def _row_lists(pandas: Any, values: Any, valid: Any) -> Any:
    rows = np.empty(len(valid), object)
    for i, has in enumerate(valid.tolist()):
        rows[i] = values[i] if has else None
    return pandas.Series(rows, dtype=object)

"""Takes tables of any kind apart: columns that can be sliced and encoded, and their Arrow types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfio_store.example.arrow_types import common_field, joined, narrowed_type, packed
from tfio_store.example.codec import Examples
from tfio_store.example.columns import nan_as_nulls, normal_column, plain_row
from tfio_store.example.feature import Feature


@dataclass
class Part:
    """A table, or some rows of one."""

    columns: dict[str, Any] = field(default_factory=dict)
    """In the forms of `normal_column`."""
    types: dict[str, Any] = field(default_factory=dict)
    """The Arrow fields of the columns that have one."""
    dictionaries: dict[str, Any] = field(default_factory=dict)
    metadata: Any = None
    features: Mapping[str, Feature] = field(default_factory=dict)
    """The schema of decoded columns. It knows those that have nothing but nulls."""
    flat: bool = False
    """Whether structs become a column for each field."""

    @property
    def rows(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def add(self, name: Any, column: Any) -> None:
        """TypeError for a name that is no str; ValueError for one that is there."""
        if not isinstance(name, str):
            raise TypeError(
                f"table= has a column {name!r}; names must be str, not {type(name).__name__} "
                "(frame.rename(columns=str) makes them so)"
            )
        if name in self.columns:
            raise ValueError(f"table= has two columns {name!r}")
        self.columns[name] = normal_column(name, column)

    def add_typed(self, name: Any, column: Any, of: Any) -> None:
        """A column with the Arrow field ``of``."""
        import pyarrow as pa

        if self.flat and isinstance(name, str) and pa.types.is_struct(of.type):
            self._add_fields(name, column, of)
            return
        self.add(name, column)
        self.types[name] = of
        if pa.types.is_dictionary(of.type):
            self.dictionaries[name] = _dictionary(pa, column)

    def _add_fields(self, name: str, column: Any, of: Any) -> None:
        """The fields of a struct, as columns. A null struct is a null in each."""
        if not of.type.num_fields:
            raise TypeError(f"feature {name!r}: a struct without fields makes no column")
        for child, values in zip(of.type, column.flatten(), strict=True):
            named = child.with_name(f"{name}.{child.name}")
            self.add_typed(named.name, values, named.with_nullable(of.nullable or child.nullable))


class Types:
    """The Arrow types of a table's columns, as its parts show them."""

    def __init__(self, without: Collection[str]) -> None:
        self._without = without
        self._first: Part | None = None
        self._fields: dict[str, Any] = {}
        self._dictionaries: dict[str, Any] = {}

    def heed(self, part: Part, narrowed: Collection[str]) -> None:
        """TypeError if the part's types are not those of earlier parts. Floats of ``narrowed``
        columns come back as float32."""
        self._first = self._first or part
        for name, new in part.types.items():
            if name in self._without:
                continue
            if name in narrowed:
                new = new.with_type(narrowed_type(new.type))
            self._fields[name] = common_field(self._fields.get(name, new), new)
            self._add_dictionary(name, part.dictionaries.get(name))

    def _add_dictionary(self, name: str, new: Any) -> None:
        known = self._dictionaries.get(name)
        if known is None or new is None:
            self._dictionaries[name] = new if known is None else known
        elif not known.equals(new):
            self._dictionaries[name] = joined(known, new)

    def packed(self) -> bytes | None:
        """For `Schema`; None if no column has an Arrow type."""
        if self._first is None or not self._fields:
            return None
        return packed(self._fields, self._dictionaries, self._first.metadata)


def parts_of(table: Any, *, nan_as_null: bool, flatten: bool) -> Iterator[Part]:
    """The parts of one table, or of several."""
    for each in _tables(table):
        part = _part(each, Part(flat=flatten))
        if nan_as_null:
            part.columns = {name: nan_as_nulls(part.columns[name]) for name in part.columns}
        yield part


def is_one_table(table: Any) -> bool:
    """Whether it has a length: it is no stream, and no iterable of tables."""
    return isinstance(table, Mapping) or _is_arrow(table) or _is_frame(table)


def _tables(table: Any) -> Iterable[Any]:
    if is_one_table(table):
        return [table]
    column = getattr(table, "ndim", 2) == 1  # a Series or an array
    if hasattr(table, "__arrow_c_stream__") and not column:
        return _batches(table)
    if isinstance(table, Iterable) and not isinstance(table, (str, bytes)) and not column:
        return table
    hint = ""
    if hasattr(table, "to_frame"):
        hint = "; give its to_frame()"
    elif getattr(getattr(table, "dtype", None), "names", None):
        hint = "; give {name: array[name] for name in array.dtype.names}"
    elif column:
        hint = "; give a dict that names it"
    raise TypeError(
        "table= takes a dict of columns, a pandas DataFrame, a pyarrow Table, anything with "
        f"__arrow_c_stream__, or an iterable of these, not {type(table).__name__}{hint}"
    )


def _batches(table: Any) -> Iterator[Any]:
    """The batches of an Arrow stream; a table without rows if it has none."""
    import pyarrow as pa

    with pa.RecordBatchReader.from_stream(table) as stream:
        yield stream.schema.empty_table()
        yield from stream


def _part(table: Any, part: Part) -> Part:
    """The part, which is empty, with the columns of a table."""
    if isinstance(table, Mapping):
        return _of_mapping(table, part)
    if _is_arrow(table):
        return _of_arrow(table, part)
    if _is_frame(table):
        return _of_frame(table, part)
    if hasattr(table, "__arrow_c_stream__"):
        import pyarrow as pa

        return _of_arrow(pa.table(table), part)
    raise TypeError(f"table= holds a {type(table).__name__}, which has no columns")


def _is_arrow(table: Any) -> bool:
    return hasattr(table, "schema") and hasattr(table, "column")


def _is_frame(table: Any) -> bool:
    return hasattr(table, "iloc") and hasattr(table, "columns")


def _of_mapping(table: Mapping[Any, Any], part: Part) -> Part:
    part.features = table.schema if isinstance(table, Examples) else {}
    for name, column in table.items():
        if type(column).__module__.startswith("pyarrow"):
            import pyarrow as pa

            part.add_typed(name, column, pa.field(str(name), column.type))
        else:
            part.add(name, column)
    return part


def _of_arrow(table: Any, part: Part) -> Part:
    _check_columns(len(table.schema), table.num_rows)
    part.metadata = table.schema.metadata
    for of, column in zip(table.schema, table.columns, strict=True):
        part.add_typed(of.name, column, of)
    return part


def _of_frame(frame: Any, part: Part) -> Part:
    """Numbers go as numpy has them, since Arrow would take their NaNs for nulls. The rest goes by
    Arrow, if it is installed and has a type for it."""
    _check_columns(len(frame.columns), len(frame))
    for i, name in enumerate(frame.columns):
        series = frame.iloc[:, i]
        found = _arrow_of(series)
        if found is None:
            part.add(name, series)
            continue
        import pyarrow as pa

        plain = isinstance(series.dtype, np.dtype) and series.dtype.kind in "biuf"
        part.add_typed(name, series if plain else found, pa.field(str(name), found.type))
    part.metadata = _pandas_metadata(frame, [name for name in part.types if name in frame])
    return part


def _check_columns(columns: int, rows: int) -> None:
    if rows and not columns:
        raise ValueError(f"table= has {rows} rows and no columns: nothing could be written of them")


def _arrow_of(series: Any) -> Any:
    """None without pyarrow, and where it has no type."""
    try:
        import pyarrow as pa
    except ImportError:
        return None
    # from_pandas= makes nulls of the NaNs inside arrays too, and of those beside pandas' own NA.
    values, nan_is_null = series, isinstance(series.dtype, np.dtype)
    if series.dtype == object and any(isinstance(r, (list, tuple, np.ndarray)) for r in series):
        name, nulls = str(series.name), series.isna().tolist()
        values = [None if nulls[i] else plain_row(name, i, row) for i, row in enumerate(series)]
        nan_is_null = False
    try:
        found = pa.array(values, from_pandas=nan_is_null)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, NotImplementedError):
        return None
    inner = found.type
    while pa.types.is_list(inner):
        inner = inner.value_type
    # Arrow makes bytes of text that stands among bytes.
    return None if pa.types.is_binary(inner) and _has_text(values) else found


def _has_text(values: Iterable[Any]) -> bool:
    return any(
        isinstance(value, str) or (isinstance(value, (list, np.ndarray)) and _has_text(value))
        for value in values
    )


def _pandas_metadata(frame: Any, names: list[str]) -> Any:
    """The dtypes as pyarrow keeps them."""
    if not names:
        return None
    import pyarrow as pa

    return pa.Schema.from_pandas(frame[names].head(0), preserve_index=False).metadata


def _dictionary(pa: Any, column: Any) -> Any:
    """None if there is no chunk to have one."""
    if not isinstance(column, pa.ChunkedArray):
        return column.dictionary
    return column.unify_dictionaries().chunk(0).dictionary if column.num_chunks else None

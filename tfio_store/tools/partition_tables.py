"""What engines read of a partition: Arrow batches of its Examples, or of its records as bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfio_store.example.schema import RECORD, Schema, column_names
from tfio_store.records.framing import RecordBatch
from tfio_store.tools.partition import Partition
from tfio_store.tools.table_stream import arrow_types, rows_of

__all__ = ["RECORD", "row_batches", "row_types", "rows_maker"]


def row_types(schema: Schema | None, columns: Sequence[str] | None = None) -> Any:
    """The Arrow schema of the rows. KeyError if there is no such column, TypeError of one name."""
    names = None if columns is None else column_names(columns)
    if schema is not None:
        return arrow_types(schema if names is None else schema.select(names))
    import pyarrow as pa

    for name in names or ():
        if name != RECORD:
            raise KeyError(
                f"no column {name!r}: no schema tells what the records hold, so that they are "
                f"bytes in the column {RECORD!r}; pass schema=, for example what "
                "tfio_store.infer_schema(source) finds"
            )
    return pa.schema([(RECORD, pa.large_binary()) for _ in {*(names or (RECORD,))}])


def row_batches(
    partition: Partition,
    schema: Schema | None,
    columns: Sequence[str] | None,
    how: Mapping[str, Any],
) -> Iterator[Any]:
    """The rows as Arrow record batches of `row_types`. ``schema`` is that of the partition if there
    is no other; ``how`` are options of `Partition.batches`."""
    known = partition.schema if schema is None else schema
    if known is not None:
        yield from partition.arrow_batches(known, columns, **how)
        return
    types = row_types(None, columns)
    for batch in partition.batches(**how):
        yield _whole_records(batch, types)


def rows_maker(
    schema: Schema | None, columns: Sequence[str] | None, source: object
) -> Callable[[RecordBatch], Iterator[Any]]:
    """What makes Arrow record batches of `row_types` of one batch of records. Errors name the
    ``source``."""
    types = row_types(schema, columns)
    if schema is None:
        return lambda batch: iter([_whole_records(batch, types)])
    wanted = schema if columns is None else schema.select(columns)
    return lambda batch: rows_of(batch, wanted, types, source)


def _whole_records(batch: RecordBatch, types: Any) -> Any:
    import pyarrow as pa

    if len(types):
        arrays = [batch.to_arrow().cast(of.type) for of in types]
        return pa.RecordBatch.from_arrays(arrays, schema=types)
    empty = pa.Array.from_buffers(pa.struct([]), len(batch), [None])
    return pa.RecordBatch.from_struct_array(empty)

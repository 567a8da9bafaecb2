"""What engines read of a partition: Arrow batches of its Examples, or of its records as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfio_store.example.schema import Schema
from tfio_store.tools.partition import Partition
from tfio_store.tools.table_stream import arrow_types

__all__ = ["RECORD", "row_batches", "row_types"]

RECORD = "record"
"""The column of whole records, where no schema tells what they hold."""


def row_types(schema: Schema | None, columns: Sequence[str] | None = None) -> Any:
    """The Arrow schema of the rows. KeyError if there is no such column."""
    if schema is not None:
        return arrow_types(schema if columns is None else schema.select(tuple(columns)))
    import pyarrow as pa

    for name in columns or ():
        if name != RECORD:
            raise KeyError(
                f"no column {name!r}: no schema tells what the records hold, so that they are "
                f"bytes in the column {RECORD!r}; pass schema=, for example what "
                "tfio_store.infer_schema(source) finds"
            )
    return pa.schema([(RECORD, pa.large_binary()) for _ in {*(columns or (RECORD,))}])


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
    import pyarrow as pa

    types = row_types(None, columns)
    for batch in partition.batches(**how):
        arrays = [batch.to_arrow().cast(of.type) for of in types]
        if arrays:
            yield pa.RecordBatch.from_arrays(arrays, schema=types)
        else:
            empty = pa.Array.from_buffers(pa.struct([]), len(batch), [None])
            yield pa.RecordBatch.from_struct_array(empty)

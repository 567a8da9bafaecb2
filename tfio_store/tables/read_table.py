"""`read_table` and `iter_tables`: a dataset of Examples as columns, decoded by threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, Generic, TypeAlias, TypeVar

from tfio_store.dataset.model import MEMORY_BUDGET, Limits
from tfio_store.dataset.source import Source, of_source, open_dataset
from tfio_store.example import Examples, decode_examples
from tfio_store.example.arrow import to_arrow
from tfio_store.example.arrow_types import as_type, with_room
from tfio_store.example.codec import SchemaToRead, Strings, decode_columns
from tfio_store.example.decoding import Nulls, most_room
from tfio_store.example.kinds import Labels
from tfio_store.example.ragged import joined_columns
from tfio_store.example.schema import RECORD, Schema, column_names, schema_to_read
from tfio_store.read.decode import OnCorrupt, check_policy
from tfio_store.read.plan import RECORD_COST
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.cores import cores, workers
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import read_by, schema_of_source, telling

# Batches of records decoded by threads, in order and a few ahead.


_MOST_BYTES = 24 << 20
"""Bytes of records that are decoded ahead of what is asked for. With what is made of them, and what
threads need meanwhile, they take three times as much."""

_READ_AHEAD = MEMORY_BUDGET // 2
"""Bytes that are read ahead of these. What is made of records takes as much again."""

_MOST_ROOM = 1 << 30
"""Bytes that nulls and defaults may take in what is made of these records."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T]):
    """A result to be, and what its records take."""

    made: Future[T]
    records: int
    nbytes: int


def decoded(
    batches: Iterable[RecordBatch],
    decode: Callable[[RecordBatch], T],
    source: object = None,
    *,
    room: int = 0,
) -> Generator[T, None, None]:
    """``decode`` of each batch, in order. An error of reading or decoding comes in its
    place, behind all that was right; one of a record names the ``source``.

    A record without any values may take ``room`` bytes when it is decoded. Few bytes of records
    then make large results, and fewer batches are decoded ahead, down to one at a time.
    """
    most = cores()
    waiting: deque[_Waiting[T]] = deque()
    try:
        for made in _submitted(batches, decode, source):
            waiting.append(made)
            while len(waiting) > most or _too_large(waiting, room):
                yield waiting.popleft().made.result()
        while waiting:
            yield waiting.popleft().made.result()
    finally:
        for left in waiting:
            left.made.cancel()


def _too_large(waiting: Iterable[_Waiting[T]], room: int) -> bool:
    nbytes = sum(each.nbytes for each in waiting)
    return nbytes > _MOST_BYTES or room * sum(each.records for each in waiting) > _MOST_ROOM


def _submitted(
    batches: Iterable[RecordBatch],
    decode: Callable[[RecordBatch], T],
    source: object,
) -> Iterator[_Waiting[T]]:
    pool = workers()
    first = 0
    try:
        for batch in batches:
            made = pool.submit(_decode, decode, batch, source, first)
            yield _Waiting(made, len(batch), batch.nbytes + RECORD_COST * len(batch))
            first += len(batch)
    except Exception as error:
        failed: Future[T] = Future()
        failed.set_exception(error)
        yield _Waiting(failed, 0, 0)


def _decode(
    decode: Callable[[RecordBatch], T], batch: RecordBatch, source: object, first: int
) -> T:
    with of_source(source, first):
        return decode(batch)


def read_table(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    schema: SchemaToRead | None = None,
    strings: Strings = "object",
    nulls: Nulls = "mask",
    labels: Labels = "numbers",
    decode_images: bool = False,
    on_corrupt: OnCorrupt = "raise",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Examples:
    """Read a whole dataset of Examples as columns, with the rows in the order of the shards.

    Of SequenceExamples, feature lists are columns beside those of the context.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        schema (Schema | dict | str | None): What the records hold. "bytes": one column, ``record``,
            of the records as they are. "auto": what the manifest says, or else what `infer_schema`
            finds in some records; what these lack is not read. Default None: what the manifest
            says, or else what all records show.
        strings (str): See `decode_examples`. Default "object".
        nulls (str): See `decode_examples`. Default "mask".
        labels (str): See `decode_examples`. Default "numbers".
        decode_images (bool): See `decode_examples`. Default False.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        Examples: A dict of columns, shaped as by `decode_examples`. ``.to_arrow()`` and
        ``.to_pandas()`` make a table of it.

    Raises:
        CorruptRecordError: A record is damaged, or is neither an Example nor a SequenceExample.
        KeyError: There is no such column.
        SchemaError: A record is not as the schema says.
        NoRecordsError: There are no records to infer a schema from.
        OSError: The storage fails.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2], "name": ["ada", "bob"]}, "train")
        >>> tfs.read_table("train").to_pandas().shape
        (2, 2)
    """
    storage = given_storage(storage_options, storage)
    with RecordReader(
        source,
        on_corrupt=on_corrupt,
        storage=storage,
        memory_budget=_READ_AHEAD,
        max_record_bytes=max_record_bytes,
    ) as reader:
        full = reader.dataset.schema if schema is None else read_by(schema, reader.dataset)
        batches: Iterable[RecordBatch] = reader.batches()
        if full is None:
            # A feature may be missing, or of one length, in all records but the last.
            batches = list(batches)
            full = schema_of_source(batches, source, storage)
        wanted = full if columns is None else full.select(columns)
        how: Any = {
            "strings": strings,
            "nulls": nulls,
            "labels": labels,
            "decode_images": decode_images,
        }
        decode = partial(decode_examples, schema=wanted, **how)
        room = most_room(wanted.values())
        with closing(decoded(batches, decode, source, room=room)) as made:
            parts = list(made)
    parts = parts or [decode_examples([], wanted, **how)]
    joined = {name: joined_columns([part[name] for part in parts]) for name in wanted}
    return Examples(joined, parts[0].schema)


Read: TypeAlias = Callable[[], RecordReader]
"""Makes a reader from the beginning."""


def iter_tables(
    source: Source,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int | None = None,
    schema: SchemaToRead | None = None,
    on_corrupt: OnCorrupt = "raise",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Any:
    """Read a dataset of Examples as Arrow record batches, one after another. Needs pyarrow.

    Threads decode, a few batches ahead. It holds these and the reader's read-ahead in memory, and
    makes no Python object of a value.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        batch_rows (int | None): The rows of each batch but the last. Default None: those of a
            block, about 1 MiB of records.
        schema (Schema | dict | str | None): See `read_table`. Default None: what the manifest says.
            Without a manifest, what all records show: they are read twice.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        pyarrow.RecordBatchReader: Its types are those of the table that `write_table` wrote; see
        `Examples.to_arrow`.

    Raises:
        ImportError: pyarrow is not installed.
        KeyError: There is no such column.
        SchemaError: A record is not as the schema says. This comes with its batch.
        ValueError: ``batch_rows`` is below 1, or there are no records to infer a schema from.
        OSError: The storage fails.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3], "name": ["a", "b", "c"]}, "train", num_shards=1)
        >>> [batch.num_rows for batch in tfs.iter_tables("train", columns=["x"], batch_rows=2)]
        [2, 1]
    """
    if batch_rows is not None and batch_rows < 1:
        raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, given_storage(storage_options, storage), limits=limits)
    within: Any = {"memory_budget": _READ_AHEAD, "max_record_bytes": max_record_bytes}
    read = partial(RecordReader.of, dataset, **within)
    # what is damaged is told of once, by the batches
    passed_by: OnCorrupt = "raise" if check_policy(on_corrupt) == "raise" else lambda region: None
    full = whole_schema(partial(read, on_corrupt=passed_by), source, schema)
    read = partial(read, on_corrupt=on_corrupt)
    wanted = full if columns is None else full.select(columns)
    types = arrow_types(wanted)
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(
        types, table_batches(read, source, wanted, types, batch_rows)
    )


def whole_schema(read: Read, source: Source, schema: SchemaToRead | None) -> Schema:
    """The schema that was given, or that of the manifest, or else of all records."""
    if schema is not None and schema != "auto":
        return schema_to_read(schema)
    with read() as reader:
        known = reader.dataset.schema if schema is None else telling(reader.dataset, schema).schema
        if known is not None:
            return known
        return schema_of_source(reader.batches(), source, reader.dataset.storage)


def arrow_types(wanted: Schema) -> Any:
    """The Arrow schema of the batches of a whole stream."""
    types = decode_examples([], wanted, strings="batch").to_arrow().schema
    import pyarrow as pa

    return pa.schema([of.with_type(with_room(of.type)) for of in types], types.metadata)


def table_batches(
    read: Read, source: Source, wanted: Schema, types: Any, rows: int | None
) -> Generator[Any, None, None]:
    """The batches, of so many ``rows`` or of a block each. Errors name the ``source``. Nobody reads
    before the first one is asked for, nor once the iterator is dropped."""
    import pyarrow as pa

    if not wanted:
        return _without_columns(pa, types, _lengths(read), rows)
    tables = _tables(read, source, wanted, types)
    if rows is not None:
        return _of_rows(pa, tables, rows)
    return (batch for table in tables for batch in table.to_batches())


def _tables(read: Read, source: Source, wanted: Schema, types: Any) -> Iterator[Any]:
    table = partial(_table, wanted=wanted, types=types)
    room = most_room(wanted.values())
    with (
        read() as reader,
        closing(decoded(reader.batches(), table, source, room=room)) as made,
    ):
        yield from made


def _table(batch: RecordBatch, wanted: Schema, types: Any) -> Any:
    """The columns of a batch, of the stream's types. A table alone has the smallest index that it
    needs."""
    nulls: dict[str, Nulls] = dict.fromkeys(wanted, "mask")
    table = to_arrow(decode_columns(batch, wanted, "batch", nulls), wanted)
    if table.schema.equals(types):
        return table
    import pyarrow as pa

    made = [
        column if column.type.equals(of.type) else as_type(column.combine_chunks(), of.type)
        for of, column in zip(types, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(made, schema=types)


def _rows_of(batch: RecordBatch, wanted: Schema, types: Any, source: object) -> Iterator[Any]:
    """The rows of one batch of records, as Arrow record batches of `arrow_types`. Errors name the
    ``source``."""
    import pyarrow as pa

    if not wanted:
        yield from _without_columns(pa, types, iter([len(batch)]), None)
        return
    with of_source(source):
        yield from _table(batch, wanted, types).to_batches()


def _lengths(read: Read) -> Iterator[int]:
    """The numbers of records of the blocks."""
    with read() as reader:
        for batch in reader.batches():
            yield len(batch)


def _without_columns(
    pa: Any, types: Any, lengths: Iterator[int], rows: int | None
) -> Generator[Any, None, None]:
    """Batches that say only how many rows there are. A table has no number of its own."""
    for count in lengths if rows is None else _evenly(lengths, rows):
        empty = pa.Array.from_buffers(pa.struct([]), count, [None])
        yield pa.RecordBatch.from_struct_array(empty).replace_schema_metadata(types.metadata)


def _evenly(lengths: Iterator[int], rows: int) -> Iterator[int]:
    held = 0
    for length in lengths:
        held += length
        for _ in range(held // rows):
            yield rows
        held %= rows
    if held:
        yield held


def _of_rows(pa: Any, tables: Iterator[Any], rows: int) -> Generator[Any, None, None]:
    """Batches of as many rows, put together from tables and cut of them."""
    waiting: list[Any] = []
    for table in chain(tables, [None]):
        waiting += [] if table is None else [table]
        held = sum(each.num_rows for each in waiting)
        if held < rows and not (table is None and held):
            continue
        joined = pa.concat_tables(waiting).combine_chunks()
        start = 0
        while held - start >= rows or (table is None and held > start):
            yield from joined.slice(start, rows).to_batches()
            start += rows
        waiting = [joined.slice(start)]


# The rows of tasks of engines, which read records that may have no schema.


def row_types(schema: Schema | None, columns: Sequence[str] | None = None) -> Any:
    """The Arrow schema of the rows. KeyError if there is no such column, TypeError of one name."""
    names = None if columns is None else column_names(columns)
    if schema is not None:
        return arrow_types(schema if names is None else schema.select(names))
    import pyarrow as pa

    for name in names or ():
        if name != RECORD:
            raise KeyError(
                f"no column {name!r}: no schema says what the records hold, so that they are "
                f"bytes in the column {RECORD!r}; pass schema=, for example what "
                "tfio_store.infer_schema(source) finds"
            )
    return pa.schema([(RECORD, pa.large_binary()) for _ in {*(names or (RECORD,))}])


def rows_maker(
    schema: Schema | None, columns: Sequence[str] | None, source: object
) -> Callable[[RecordBatch], Iterator[Any]]:
    """The function that makes Arrow record batches of `row_types` of one batch of records. Errors
    name the ``source``."""
    types = row_types(schema, columns)
    if schema is None:
        return lambda batch: iter([_whole_records(batch, types)])
    wanted = schema if columns is None else schema.select(columns)
    return lambda batch: _rows_of(batch, wanted, types, source)


def _whole_records(batch: RecordBatch, types: Any) -> Any:
    import pyarrow as pa

    if len(types):
        arrays = [batch.to_arrow().cast(of.type) for of in types]
        return pa.RecordBatch.from_arrays(arrays, schema=types)
    empty = pa.Array.from_buffers(pa.struct([]), len(batch), [None])
    return pa.RecordBatch.from_struct_array(empty)

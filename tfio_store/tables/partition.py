"""Partitions as engines read them: Arrow batches of its Examples, or of its records as bytes."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tfio_store.dataset.listed_shards import pack_shards, unpack_shards
from tfio_store.dataset.model import (
    MEMORY_BUDGET,
    Dataset,
    DatasetPart,
    LazyShards,
    Limits,
    Told,
    common_told,
)
from tfio_store.dataset.source import open_dataset
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import RECORD, Schema, column_names
from tfio_store.read.reader import OnCorrupt, RecordReader
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import read_by
from tfio_store.tables.read_table import arrow_types, rows_of, table_batches

__all__ = ["Partition", "row_batches", "row_types", "rows_maker"]


# `Partition`: a run of a dataset's blocks, which an engine's task reads.


@dataclass(frozen=True, eq=False)
class Partition(DatasetPart):
    """A run of neighbouring blocks of a dataset, as `partitions` makes it.

    It pickles small, and any process reads it, with nothing but the pickle: it holds the names of
    its files, where its own blocks lie, and the ``storage_options`` (also credentials that were
    passed so, which ``repr`` never shows). A file without a manifest that was replaced since, as
    far as its store has versions, is an error. The shards of a dataset with a manifest are never
    written again by this library. Who deletes them by hand, and writes others of the same names and
    sizes, is not noticed. Functions that read take a partition as a source.

    Attributes:
        index (int): Its number among the partitions, from 0 on.
        dataset (Dataset): Its shards, of which the first and the last one may be cut.
        first_record (int | None): The number of its first record in the source. Default None: it is
            not known, because a file before it has no index.

    Example:
        >>> _ = tfs.write_table({"x": list(range(6))}, "train", num_shards=2)
        >>> for part in tfs.partitions("train", num_partitions=2):
        ...     print(part.first_record, part.num_records, len(list(part.reader())))
        0 3 3
        3 3 3
    """

    index: int
    dataset: Dataset = field(repr=False)
    first_record: int | None = None

    @property
    def schema(self) -> Schema | None:
        """The schema of the records that manifests have (Schema | None).

        None if they say nothing, or if those of several sources differ.
        """
        return self.dataset.schema

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata in the manifest (dict | None).

        None if there is none, or if those of several sources differ.
        """
        return self.dataset.metadata

    @property
    def num_records(self) -> int | None:
        """How many records it has (int). None where a file has no index."""
        return self.dataset.num_records

    @property
    def nbytes(self) -> int:
        """The bytes of its blocks, as they are stored (int)."""
        return self.dataset.nbytes

    @property
    def urls(self) -> tuple[str, ...]:
        """The files that it reads of, without secrets (tuple[str])."""
        return tuple(self.dataset.shard(i).url for i in range(len(self.dataset.shards)))

    def reader(
        self,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        storage: Storage | None = None,
    ) -> RecordReader:
        """Open the partition.

        Args:
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.
            storage (Storage | None): How storage is reached. Default None: as `partitions` was
                told.

        Returns:
            RecordReader: Of these records alone. Its states fit readers of this partition only.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> with part.reader() as reader:
            ...     print(len(list(reader)))
            3
        """
        return RecordReader.of(
            open_dataset(self, given_storage(None, storage)),
            verify=verify,
            on_corrupt=on_corrupt,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        )

    def batches(
        self,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> Iterator[RecordBatch]:
        """Read the records in batches.

        Args:
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.

        Yields:
            RecordBatch: About a block of records (1 MiB), not copied.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> [len(batch) for batch in part.batches()]
            [3]
        """
        with self.reader(
            verify=verify,
            on_corrupt=on_corrupt,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        ) as reader:
            yield from reader.batches()

    def arrow_schema(
        self, schema: SchemaToRead | None = None, columns: Sequence[str] | None = None
    ) -> Any:
        """Return the types of `arrow_batches` without reading anything. Needs pyarrow.

        Args:
            schema (Schema | dict | str | None): What the records hold, or "bytes": they are the
                column ``record`` themselves. Default None: what the manifest says.
            columns (list[str] | None): The columns to read. Default None: all of them.

        Returns:
            pyarrow.Schema: The same for each partition of a dataset.

        Raises:
            ValueError: No schema is given, and the manifest has none.
            KeyError: There is no such column.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2], "y": ["a", "b"]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> part.arrow_schema(columns=["y"]).names
            ['y']
        """
        return arrow_types(self._wanted(schema, columns))

    def arrow_batches(
        self,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int | None = None,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> Iterator[Any]:
        """Read Examples as Arrow record batches, as `iter_tables` does. Needs pyarrow.

        The arguments are checked at once, and reading begins with the first batch.

        Args:
            schema (Schema | dict | str | None): What the records hold, or "bytes": they are the
                column ``record`` themselves. Default None: what the manifest says.
            columns (list[str] | None): The columns to read. The others are stepped over undecoded.
                Default None: all of them.
            batch_rows (int | None): The rows of each batch but the last. Default None: those of a
                block, about 1 MiB of records.
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.

        Returns:
            Iterator[pyarrow.RecordBatch]: Of the types of `arrow_schema`.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: No schema is given, and the manifest has none; or ``batch_rows`` is below 1.
            KeyError: There is no such column.
            SchemaError: A record is not as the schema says. This comes with its batch.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> [batch.to_pydict() for batch in part.arrow_batches()]
            [{'x': [1, 2, 3]}]
        """
        if batch_rows is not None and batch_rows < 1:
            raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
        wanted = self._wanted(schema, columns)
        how: dict[str, Any] = {
            "verify": verify,
            "on_corrupt": on_corrupt,
            "memory_budget": memory_budget,
            "max_record_bytes": max_record_bytes,
        }
        read = partial(self.reader, **how)
        batches: Iterator[Any] = table_batches(read, self, wanted, arrow_types(wanted), batch_rows)
        return batches

    def _wanted(self, schema: SchemaToRead | None, columns: Sequence[str] | None) -> Schema:
        full = self.schema if schema is None else read_by(schema, self.dataset)
        if full is None:
            raise ValueError(
                f"{self}: no manifest says what the records hold; pass schema=, for example what "
                "tfio_store.infer_schema(source) finds"
            )
        return full if columns is None else full.select(columns)

    def _open(self, storage: Storage | None, compression: str | None, limits: Limits) -> Dataset:
        del limits  # all is known since the partition was made
        self._check_codec(compression)
        return self.dataset if storage is None else replace(self.dataset, storage=storage)

    def _reached(self) -> Storage:
        return self.dataset.storage

    def _check_codec(self, compression: str | None) -> None:
        """ValueError if somebody asks for another one than that of the files."""
        written = self.dataset.shard(0).compression
        if "auto" not in (compression, written) and codec_name(compression) != written:
            raise ValueError(
                f"compression={compression!r}: {self} was made of files that are "
                f'{written or "raw"}; leave it at "auto"'
            )

    def __str__(self) -> str:
        first = self.dataset.shard(0).url
        more = len(self.dataset.shards) - 1
        return f"partition {self.index} of {first}" + (f" and {more} more" if more else "")

    def __repr__(self) -> str:
        return f"<Partition {self.index}: {self.dataset.summary()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self._facts == other._facts

    def __hash__(self) -> int:
        return hash((self.index, self.first_record, self.dataset.shard(0).url))

    @property
    def _facts(self) -> tuple[Any, ...]:
        return self.index, self.first_record, self.schema, self.metadata, self.dataset

    def __reduce__(self) -> tuple[Any, ...]:
        dataset = self.dataset
        kept = (
            zlib.compress(pickle.dumps(tuple(common_told(dataset.told)))) if dataset.told else b""
        )
        lazy = isinstance(dataset.shards, LazyShards)
        shards = dataset.shards if lazy else pack_shards(dataset.shards)
        return _restored, (self.index, self.first_record, kept, dataset.storage, shards)


def _restored(
    index: int,
    first_record: int | None,
    told: bytes,
    storage: Storage,
    shards: LazyShards | bytes,
) -> Partition:
    known = (Told(*pickle.loads(zlib.decompress(told))),) if told else ()
    unpacked = unpack_shards(shards) if isinstance(shards, bytes) else shards
    return Partition(index, Dataset(unpacked, storage, known), first_record)


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
    """The function that makes Arrow record batches of `row_types` of one batch of records. Errors
    name the ``source``."""
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

"""Reading: a task for each of `partitions`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from tfio_store.dataset.source import open_dataset
from tfio_store.example.schema import RECORD, Schema
from tfio_store.spark.casting import check_casts, spark_batch
from tfio_store.spark.options import ReadOptions
from tfio_store.spark.types import arrow_schema, features_of, is_bytes, spark_schema
from tfio_store.tools.infer import telling
from tfio_store.tools.partition import Partition
from tfio_store.tools.partition_tables import row_types
from tfio_store.tools.partitions import partitions

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["TFRecordSourceReader", "columns_of", "found_schema"]


def found_schema(options: ReadOptions) -> Schema | None:
    """What the options, the manifest or the records tell of these. None if they come as bytes."""
    if options.record_type == "ByteArray":
        return None
    found = options.schema
    if found is None:
        opened = open_dataset(options.source, options.storage, compression=options.compression)
        found = telling(opened, "auto" if options.infer_schema else None).schema
    if found is None and (options.record_type is not None or options.columns is not None):
        raise ValueError(
            f"{options.shown}: no manifest tells what the records hold. Name the columns by "
            'schema("a bigint, b array<float>"), or set the option "inferSchema" to "true" to read '
            'all records first, or "recordType" to "ByteArray" for their bytes'
        )
    return found


def columns_of(schema: Schema | None, options: ReadOptions) -> StructType:
    """The columns of records that a schema tells of; one of bytes without a schema."""
    return spark_schema(row_types(schema, options.columns))


class TFRecordSourceReader(DataSourceReader):  # type: ignore[misc]
    """It goes to each task, as a pickle, beside a partition. ``schema`` is what is known of the
    records so far."""

    def __init__(self, options: ReadOptions, columns: StructType, schema: Schema | None) -> None:
        self._options = options
        self._columns = columns
        self._schema = options.schema if schema is None else schema
        self._as_bytes = options.record_type == "ByteArray"
        _check_names(columns.names, options)
        if self._as_bytes and not is_bytes(columns):
            raise ValueError(
                'recordType "ByteArray" has one column of binary, and schema() names '
                f"{columns.simpleString()}"
            )

    def partitions(self) -> list[InputPartition]:
        """In the order of the source. Spark asks once."""
        options = self._options
        found = partitions(
            options.source,
            target_bytes=options.target_bytes,
            num_partitions=options.num_partitions,
            compression=options.compression,
            storage=options.storage,
        )
        for part in found[:1]:
            if not self._reads_bytes(part):  # what can't be read is told now, and not by each task
                types = part.arrow_schema(self._schema_of(part), self._columns.names)
                check_casts(types, arrow_schema(self._columns))
        return [InputPartition(part) for part in found]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The Arrow batches of one partition."""
        part: Partition | None = partition.value
        if part is None:  # Spark makes one where there is none
            return
        types = arrow_schema(self._columns)
        how: Any = {"on_corrupt": self._options.on_corrupt}
        if self._reads_bytes(part):
            for records in part.batches(**how):
                yield spark_batch([records.to_arrow()], types, len(records))
            return
        for batch in part.arrow_batches(self._schema_of(part), self._columns.names, **how):
            yield spark_batch(batch.columns, types, batch.num_rows)

    def _reads_bytes(self, part: Partition) -> bool:
        if self._options.record_type is not None:
            return self._as_bytes
        unknown = self._schema is None and part.schema is None
        return unknown and is_bytes(self._columns) and self._columns.names == [RECORD]

    def _schema_of(self, part: Partition) -> Schema:
        known = part.schema if self._schema is None else self._schema
        return features_of(self._columns, self._options.record_type) if known is None else known


def _check_names(names: Sequence[str], options: ReadOptions) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"schema() names columns twice: {', '.join(twice)}")
    if options.columns is not None and list(dict.fromkeys(options.columns)) != list(names):
        raise ValueError(
            f"schema() names the columns {', '.join(names)}, and the option 'columns' "
            f"{', '.join(options.columns)}; leave one of the two out"
        )

"""`TFRecordDataSource`: what Spark asks first, on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from tfio_store.dataset.source import open_dataset
from tfio_store.example.schema import RECORD, Schema
from tfio_store.spark.options import ReadOptions, WriteOptions
from tfio_store.spark.types import (
    arrow_schema,
    check_casts,
    features_of,
    is_bytes,
    spark_batch,
    spark_schema,
)
from tfio_store.spark.writing import writer_of
from tfio_store.tables.infer import telling
from tfio_store.tables.partitions import Partition, partitions
from tfio_store.tables.read_table import row_types

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


# Reading: a task for each of `partitions`.


def found_schema(options: ReadOptions) -> Schema | None:
    """The schema that the options, the manifest or the records have. None if records come as
    bytes."""
    if options.record_type == "ByteArray":
        return None
    found = options.schema
    if found is None:
        opened = open_dataset(options.source, options.storage, compression=options.compression)
        found = telling(opened, "auto" if options.infer_schema else None).schema
    if found is None and (options.record_type is not None or options.columns is not None):
        raise ValueError(
            f"{options.shown}: no manifest says what the records hold. Name the columns by "
            'schema("a bigint, b array<float>"), or set the option "inferSchema" to "true" to read '
            'all records first, or "recordType" to "ByteArray" for their bytes'
        )
    return found


def columns_of(schema: Schema | None, options: ReadOptions) -> StructType:
    """The columns of records by a schema; one of bytes without a schema."""
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
            if not self._reads_bytes(
                part
            ):  # what can't be read is an error now, and not in each task
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


def register(spark: SparkSession) -> None:
    """Register the format ``tfio_store`` in a session.

    Spark finds it by itself, unless it first looked for formats before tfio_store was installed.

    Args:
        spark (SparkSession): The session.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.read.format("tfio_store").load("s3://b/train").show()  # doctest: +SKIP
    """
    spark.dataSource.register(TFRecordDataSource)


class TFRecordDataSource(DataSource):  # type: ignore[misc]
    """The format ``tfio_store`` of ``spark.read`` and ``df.write``, by Spark's Python data source.

    A dataset's manifest has its columns. Without a manifest, ``schema("a bigint, b
    array<float>")`` names them, or there is one column ``record`` of bytes. Spark does not
    pass ``select`` to a data source in Python: name the columns that are needed by ``schema(…)`` or
    the option ``columns``, and the others are stepped over undecoded.

    ``mode("append")`` adds to a dataset, or begins it. ``mode("overwrite")`` replaces it. (Spark
    allows no other mode here.) Either is one commit. Tasks may fail, be retried, or run twice.

    | option | |
    | --- | --- |
    | recordType | "Example", "SequenceExample" or "ByteArray" (one column of bytes) |
    | schema | JSON: ``Schema.to_json()``, or feature names to dtypes; "auto" or "bytes" (reading) |
    | storageOptions, retry | JSON: what `RecordReader` takes as dict, and the fields of `Retry` |
    | backend, compression | see `RecordReader`, and `ShardedWriter` |
    | reading: columns | names with commas between, or a JSON list |
    | reading: inferSchema | "true": read all records first, to see what they hold |
    | reading: maxPartitionBytes, numPartitions | see `partitions` |
    | reading: onCorrupt | "raise" or "skip"; see `RecordReader` |
    | writing: ifExists | "error": with ``mode("append")``, refuse a dataset that exists |
    | writing: maxShardBytes | see `WriteJob.open` |
    | writing: level, names, keepReplaced | see `WriteJob` |

    Args:
        options (dict): Spark passes them.

    Example:
        >>> df = spark.range(10)  # doctest: +SKIP
        >>> df.write.format("tfio_store").mode("overwrite").save("s3://b/train")  # doctest: +SKIP
        >>> spark.read.format("tfio_store").load("s3://b/train").count()  # doctest: +SKIP
        10
    """

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._found: Schema | None = None

    @classmethod
    def name(cls) -> str:
        """Return the format's name.

        Returns:
            str: "tfio_store".

        Example:
            >>> TFRecordDataSource.name()  # doctest: +SKIP
            'tfio_store'
        """
        return "tfio_store"

    def schema(self) -> StructType:
        """Find the columns. Spark calls it if the user has named none.

        Returns:
            StructType: Each column takes nulls.

        Raises:
            ValueError: An option is wrong, or nothing says what the columns are.

        Example:
            >>> TFRecordDataSource({"path": "train"}).schema()  # doctest: +SKIP
        """
        options = ReadOptions.of(self.options)
        self._found = found_schema(options)  # Spark pickles it, for `reader`
        return columns_of(self._found, options)

    def reader(self, schema: StructType) -> TFRecordSourceReader:
        """Make what plans the tasks and reads in them.

        Args:
            schema (StructType): The columns.

        Returns:
            TFRecordSourceReader: It pickles.

        Example:
            >>> source = TFRecordDataSource({"path": "train"})  # doctest: +SKIP
            >>> source.reader(source.schema()).partitions()  # doctest: +SKIP
        """
        return TFRecordSourceReader(ReadOptions.of(self.options), schema, self._found)

    def writer(self, schema: StructType, overwrite: bool) -> Any:
        """Begin the job, and make what writes in its tasks, commits and aborts.

        Args:
            schema (StructType): The columns of the data frame.
            overwrite (bool): Whether the mode is "overwrite", not "append".

        Returns:
            DataSourceArrowWriter: It pickles.

        Raises:
            FileExistsError: The option ``ifExists`` is "error", and there is a dataset.
            TypeError: A column has a type that no feature can hold.
            ValueError: An option is wrong, or a column of the dataset to append to is of another
                kind.

        Example:
            >>> TFRecordDataSource({"path": "train"}).writer(df.schema, True)  # doctest: +SKIP
        """
        return writer_of(WriteOptions.of(self.options, overwrite=overwrite), schema)

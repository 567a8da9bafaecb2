"""`TFRecordDataSource`: what Spark asks first, on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from tfio_store.example.schema import Schema
from tfio_store.spark.options import ReadOptions, WriteOptions
from tfio_store.spark.reading import TFRecordSourceReader, columns_of, found_schema
from tfio_store.spark.writing import writer_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["TFRecordDataSource", "register"]


def register(spark: SparkSession) -> None:
    """Tell a session of the format ``tfio_store``.

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

    What a dataset's manifest tells are its columns. Without a manifest, ``schema("a bigint, b
    array<float>")`` names them, or there is one column ``record`` of bytes. Spark tells a data
    source in Python nothing of ``select``: name the columns that are needed by ``schema(…)`` or the
    option ``columns``, and the others are stepped over undecoded.

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
        """Tell the format's name.

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
            ValueError: An option is wrong, or nothing tells the columns.

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
            ValueError: An option is wrong, or the dataset to append to has other columns.

        Example:
            >>> TFRecordDataSource({"path": "train"}).writer(df.schema, True)  # doctest: +SKIP
        """
        return writer_of(WriteOptions.of(self.options, overwrite=overwrite), schema)

"""TFRecord datasets in Spark 4: the format ``tfio_store``. Needs Spark: ``pip install
'tfio_store[spark]'``.

Arrow record batches go both ways. A task reads a run of blocks, also from the middle of a GZIP
shard. What tasks write becomes visible by one commit, or not at all.
"""

from tfio_store.tables.write_table import needs

with needs("spark", "pyspark", "pyarrow"):
    from tfio_store.spark.source import TFRecordDataSource, register

__all__ = ["TFRecordDataSource", "register"]

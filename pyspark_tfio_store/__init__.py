"""Spark imports each top-level package named ``pyspark_…`` and registers its ``DefaultSource``. So
the format ``tfio_store`` is there wherever tfio_store is installed."""

from tfio_store.spark import TFRecordDataSource as DefaultSource

__all__ = ["DefaultSource"]

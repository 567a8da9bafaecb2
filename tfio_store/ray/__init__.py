"""TFRecord datasets in Ray Data. Needs Ray: ``pip install 'tfio_store[ray]'``."""

from tfio_store.tables.write_table import needs

with needs("ray", "pyarrow"):
    from tfio_store.ray.reading import TFRecordDatasource, read_tfrecords
    from tfio_store.ray.writing import TFRecordDatasink, write_tfrecords

__all__ = ["TFRecordDatasink", "TFRecordDatasource", "read_tfrecords", "write_tfrecords"]

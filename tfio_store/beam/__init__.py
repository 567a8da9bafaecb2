"""TFRecord datasets in Apache Beam. Needs Beam: ``pip install 'tfio_store[beam]'``."""

from tfio_store.tables.write_table import needs

with needs("beam", "apache_beam", "pyarrow"):
    from tfio_store.beam.reading import ReadAllFromTFRecord, ReadFromTFRecord
    from tfio_store.beam.writing import WriteToTFRecord

__all__ = ["ReadAllFromTFRecord", "ReadFromTFRecord", "WriteToTFRecord"]

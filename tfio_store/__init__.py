"""TFRecord datasets on any storage, fast and safe, with or without TensorFlow."""

from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    ManifestError,
    RecordTooLargeError,
    TFIOStoreError,
    TruncatedRecordError,
)
from tfio_store.framing import RecordBatch, backend

__version__ = "0.1.0"

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "ManifestError",
    "RecordBatch",
    "RecordTooLargeError",
    "TFIOStoreError",
    "TruncatedRecordError",
    "backend",
]

"""TFRecord datasets on any storage, fast and safe, with or without TensorFlow."""

from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    ManifestError,
    RecordTooLargeError,
    TFIOStoreError,
    TruncatedRecordError,
)

__version__ = "0.1.0"

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "ManifestError",
    "RecordTooLargeError",
    "TFIOStoreError",
    "TruncatedRecordError",
]

"""TFRecord datasets on any storage, fast and safe, with or without TensorFlow."""

import os as _os
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest, ShardInfo
from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    DataLossWarning,
    ManifestError,
    RecordTooLargeError,
    SchemaError,
    TFIOStoreError,
    TruncatedRecordError,
)
from tfio_store.example import (
    Examples,
    Nullable,
    Ragged,
    decode_examples,
    decode_sequence_examples,
    encode_example,
    encode_examples,
    encode_sequence_example,
)
from tfio_store.example.feature import Feature
from tfio_store.example.images import encode_image
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import RecordBatch, backend, crc32c, masked_crc32c
from tfio_store.records.recovery import SkippedRegion
from tfio_store.storage import LocalCache, Retry
from tfio_store.tools.build_index import build_index, write_idx
from tfio_store.tools.clean import Leftovers, clean
from tfio_store.tools.infer import infer_schema
from tfio_store.tools.salvage import VerifyReport, salvage, verify
from tfio_store.tools.table import read_table, write_table
from tfio_store.tools.table_stream import iter_tables
from tfio_store.write.file_writer import TFRecordWriter
from tfio_store.write.progress import Progress
from tfio_store.write.sharded_writer import ShardedWriter
from tfio_store.write.write_job import WriteJob

__version__ = "0.1.0"

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "DataLossWarning",
    "DatasetManifest",
    "Examples",
    "Feature",
    "Leftovers",
    "LocalCache",
    "ManifestError",
    "Nullable",
    "Progress",
    "Ragged",
    "RecordBatch",
    "RecordReader",
    "RecordSource",
    "RecordTooLargeError",
    "Retry",
    "Schema",
    "SchemaError",
    "ShardInfo",
    "ShardedWriter",
    "SkippedRegion",
    "TFIOStoreError",
    "TFRecordDataset",
    "TFRecordWriter",
    "TruncatedRecordError",
    "VerifyReport",
    "WriteJob",
    "backend",
    "build_index",
    "clean",
    "crc32c",
    "decode_examples",
    "decode_sequence_examples",
    "encode_example",
    "encode_examples",
    "encode_image",
    "encode_sequence_example",
    "infer_schema",
    "iter_tables",
    "list_files",
    "load",
    "masked_crc32c",
    "read_table",
    "register_filesystem",
    "salvage",
    "save",
    "verify",
    "write_idx",
    "write_table",
]

_TENSORFLOW = {
    "TFRecordDataset": "tfio_store.tf.dataset.dataset",
    "list_files": "tfio_store.tf.dataset.list_files",
    "load": "tfio_store.tf.saving.save_load",
    "register_filesystem": "tfio_store.tf.filesystem",
    "save": "tfio_store.tf.saving.save_load",
}
"""Names that import TensorFlow when they are first asked for, and the modules that define them."""


def __getattr__(name: str) -> Any:
    module = _TENSORFLOW.get(name)
    if module is None:
        raise AttributeError(f"module 'tfio_store' has no attribute {name!r}")
    from tfio_store.tf.missing import is_missing, stand_in

    if is_missing("tensorflow"):
        return stand_in(name, "tensorflow")
    from importlib import import_module

    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", "errors", "storage"})


if _os.environ.get("TFIO_STORE_FILESYSTEMS"):
    from tfio_store.tf.filesystem.environment import heed_environment as _heed_environment

    _heed_environment()

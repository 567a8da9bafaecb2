"""TFRecord datasets on any storage, fast and safe, with or without TensorFlow.

    import tfio_store as tfs

    with tfs.ShardedWriter("s3://bucket/train@16", compression="GZIP") as writer:
        writer.write({"x": 1, "name": "ada"})
    for record in tfs.RecordReader("s3://bucket/train"):
        ...
    columns = tfs.read_table("s3://bucket/train")

Write     ShardedWriter, TFRecordWriter, WriteJob, write_table, copy, convert
Read      RecordReader, RecordSource, read_table, open, slice, mix, partitions
TensorFlow  TFRecordDataset, list_files, save, load, register_filesystem, accelerate
Examples  encode_example, decode_examples, Schema, infer_schema
Care      verify, salvage, clean, build_index, count, stats, diff, report
Storage   Storage, Retry, LocalCache: pass storage=, or storage_options= with a dict
Doors     tfio_store.torch, .grain, .hf, .ray, .dask, .beam, .spark, .image

A source is a path or URL, a dataset's prefix or folder, a name such as "train@16", "train-*.gz",
"a,b" or "{train,valid}@8", or a list of these. The command line is ``tfio-store --help``.
"""

import os as _os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tfio_store import errors as errors, results as results, storage as storage
    from tfio_store.dataset.manifest import DatasetManifest
    from tfio_store.dataset.slice import slice  # noqa: A004 - read as tfs.slice
    from tfio_store.dataset.source import open  # noqa: A004 - read as tfs.open
    from tfio_store.episodes.episodes import Episodes
    from tfio_store.episodes.writer import EpisodeWriter, write_tfds
    from tfio_store.errors import (
        CorruptRecordError,
        DataLossError,
        ManifestError,
        ReplacedError,
        SchemaError,
        TFIOStoreError,
        TruncatedRecordError,
    )
    from tfio_store.example import (
        Nullable,
        Ragged,
        backend,
        decode_examples,
        decode_sequence_examples,
        encode_example,
        encode_examples,
        encode_sequence_example,
    )
    from tfio_store.example.feature import Feature
    from tfio_store.example.kinds import encode_image
    from tfio_store.example.schema import Schema
    from tfio_store.loader.packing import Packing
    from tfio_store.maintain.build_index import build_index
    from tfio_store.maintain.clean import clean
    from tfio_store.maintain.copy import copy, salvage
    from tfio_store.maintain.diff import diff
    from tfio_store.maintain.info import info
    from tfio_store.maintain.verify import verify
    from tfio_store.read.mixture import mix
    from tfio_store.read.reader import RecordReader
    from tfio_store.read.record_source import RecordSource
    from tfio_store.read.reshard import reshard_state
    from tfio_store.records.framing import RecordBatch, crc32c, masked_crc32c
    from tfio_store.records.recovery import SkippedRegion
    from tfio_store.show.report import report
    from tfio_store.storage import LocalCache, Retry, Storage
    from tfio_store.tables.arrow_dataset import arrow_dataset
    from tfio_store.tables.convert import convert
    from tfio_store.tables.count import count
    from tfio_store.tables.infer import infer_schema
    from tfio_store.tables.partitions import Partition, partitions
    from tfio_store.tables.read_table import iter_tables, read_table
    from tfio_store.tables.stats import stats
    from tfio_store.tables.write_table import write_table
    from tfio_store.tf.accelerate import accelerate
    from tfio_store.tf.dataset.dataset import TFRecordDataset
    from tfio_store.tf.dataset.listed import list_files
    from tfio_store.tf.filesystem import register_filesystem
    from tfio_store.tf.mixing import mix_datasets
    from tfio_store.tf.save_load import load, save
    from tfio_store.write.file_writer import TFRecordWriter
    from tfio_store.write.progress import ProgressBar
    from tfio_store.write.sharded_writer import ShardedWriter
    from tfio_store.write.write_job import WriteJob

__version__ = "0.1.0"

__all__ = [
    "CorruptRecordError",
    "DataLossError",
    "DatasetManifest",
    "EpisodeWriter",
    "Episodes",
    "Feature",
    "LocalCache",
    "ManifestError",
    "Nullable",
    "Packing",
    "Partition",
    "ProgressBar",
    "Ragged",
    "RecordBatch",
    "RecordReader",
    "RecordSource",
    "ReplacedError",
    "Retry",
    "Schema",
    "SchemaError",
    "ShardedWriter",
    "SkippedRegion",
    "Storage",
    "TFIOStoreError",
    "TFRecordDataset",
    "TFRecordWriter",
    "TruncatedRecordError",
    "WriteJob",
    "accelerate",
    "arrow_dataset",
    "backend",
    "build_index",
    "clean",
    "convert",
    "copy",
    "count",
    "crc32c",
    "decode_examples",
    "decode_sequence_examples",
    "diff",
    "encode_example",
    "encode_examples",
    "encode_image",
    "encode_sequence_example",
    "infer_schema",
    "info",
    "iter_tables",
    "list_files",
    "load",
    "masked_crc32c",
    "mix",
    "mix_datasets",
    "open",
    "partitions",
    "read_table",
    "register_filesystem",
    "report",
    "reshard_state",
    "salvage",
    "save",
    "slice",
    "stats",
    "verify",
    "write_table",
    "write_tfds",
]

_HOMES = {
    "CorruptRecordError": "tfio_store.errors",
    "DataLossError": "tfio_store.errors",
    "DatasetManifest": "tfio_store.dataset.manifest",
    "EpisodeWriter": "tfio_store.episodes.writer",
    "Episodes": "tfio_store.episodes.episodes",
    "Feature": "tfio_store.example.feature",
    "LocalCache": "tfio_store.storage",
    "ManifestError": "tfio_store.errors",
    "Nullable": "tfio_store.example",
    "Packing": "tfio_store.loader.packing",
    "Partition": "tfio_store.tables.partitions",
    "ProgressBar": "tfio_store.write.progress",
    "Ragged": "tfio_store.example",
    "RecordBatch": "tfio_store.records.framing",
    "RecordReader": "tfio_store.read.reader",
    "RecordSource": "tfio_store.read.record_source",
    "ReplacedError": "tfio_store.errors",
    "Retry": "tfio_store.storage",
    "Schema": "tfio_store.example.schema",
    "SchemaError": "tfio_store.errors",
    "ShardedWriter": "tfio_store.write.sharded_writer",
    "SkippedRegion": "tfio_store.records.recovery",
    "Storage": "tfio_store.storage",
    "TFIOStoreError": "tfio_store.errors",
    "TFRecordWriter": "tfio_store.write.file_writer",
    "TruncatedRecordError": "tfio_store.errors",
    "WriteJob": "tfio_store.write.write_job",
    "arrow_dataset": "tfio_store.tables.arrow_dataset",
    "backend": "tfio_store.example",
    "build_index": "tfio_store.maintain.build_index",
    "clean": "tfio_store.maintain.clean",
    "convert": "tfio_store.tables.convert",
    "copy": "tfio_store.maintain.copy",
    "count": "tfio_store.tables.count",
    "crc32c": "tfio_store.records.framing",
    "decode_examples": "tfio_store.example",
    "decode_sequence_examples": "tfio_store.example",
    "diff": "tfio_store.maintain.diff",
    "encode_example": "tfio_store.example",
    "encode_examples": "tfio_store.example",
    "encode_image": "tfio_store.example.kinds",
    "encode_sequence_example": "tfio_store.example",
    "infer_schema": "tfio_store.tables.infer",
    "info": "tfio_store.maintain.info",
    "iter_tables": "tfio_store.tables.read_table",
    "masked_crc32c": "tfio_store.records.framing",
    "mix": "tfio_store.read.mixture",
    "open": "tfio_store.dataset.source",
    "partitions": "tfio_store.tables.partitions",
    "read_table": "tfio_store.tables.read_table",
    "report": "tfio_store.show.report",
    "reshard_state": "tfio_store.read.reshard",
    "salvage": "tfio_store.maintain.copy",
    "slice": "tfio_store.dataset.slice",
    "stats": "tfio_store.tables.stats",
    "verify": "tfio_store.maintain.verify",
    "write_table": "tfio_store.tables.write_table",
    "write_tfds": "tfio_store.episodes.writer",
}
"""Names, and the modules that define them. These are imported when a name is first asked for."""

_TENSORFLOW = {
    "TFRecordDataset": "tfio_store.tf.dataset.dataset",
    "accelerate": "tfio_store.tf.accelerate",
    "list_files": "tfio_store.tf.dataset.listed",
    "load": "tfio_store.tf.save_load",
    "mix_datasets": "tfio_store.tf.mixing",
    "register_filesystem": "tfio_store.tf.filesystem",
    "save": "tfio_store.tf.save_load",
}
"""Those that import TensorFlow."""

_ROOMS = ("errors", "results", "storage")
"""Public modules."""

_MOVED: dict[str, Any] = {}
"""Earlier names, each with its `tfio_store._deprecation.Deprecation`: ``use`` is the name now."""


def _imported(module: str) -> Any:
    """The module, and before it each room that it lies in. Python by itself would lock the module
    first, and then wait for a thread that imports the room and wants the module."""
    from importlib import import_module

    package, _, _ = module.rpartition(".")
    if package:
        _imported(package)
    return import_module(module)


if not TYPE_CHECKING:  # to which the names above are known, and no others

    def __getattr__(name: str) -> Any:
        if name in _ROOMS:
            return _imported(f"tfio_store.{name}")
        if name in _MOVED:
            _MOVED[name].warn()
            return globals().get(_MOVED[name].use) or __getattr__(_MOVED[name].use)
        if name in _TENSORFLOW:
            from tfio_store.tf.missing import is_missing, stand_in

            if is_missing("tensorflow"):
                return stand_in(name, "tensorflow", _TENSORFLOW[name])
        elif name not in _HOMES:
            raise AttributeError(f"module 'tfio_store' has no attribute {name!r}")
        try:
            home = _imported(_HOMES.get(name) or _TENSORFLOW[name])
        except RuntimeError as error:
            if "shutdown" not in str(error):
                raise
            raise RuntimeError(
                f"tfio_store.{name}: the interpreter is shutting down and imports no more: name it "
                "before the main thread ends"
            ) from error
        value = getattr(home, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_ROOMS, "__version__"})


if _os.environ.get("TFIO_STORE_FILESYSTEMS"):
    from tfio_store.tf.filesystem import heed_environment as _heed_environment

    _heed_environment()

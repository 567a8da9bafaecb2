"""`infer_schema`: finds the schema of a source's Examples, in the manifest or by a look at some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, TypeGuard, cast

from tfio_store.dataset.source import Source
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Access, Retry
from tfio_store.tools.record_schema import schema_of_records
from tfio_store.tools.tfds_schema import schema_of_source

__all__ = ["infer_schema"]


def infer_schema(
    source: Source | RecordBatch | Sequence[bytes],
    *,
    sample: int = 1000,
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> Schema:
    """Find the schema of a dataset: from its manifest, or else from its first records.

    From records, a feature that always holds one value becomes a scalar, and one that always holds
    n values gets shape (n,), since a record does not tell (2, 3) from (6,). One that varies gets
    shape (None,). One that is absent from some of the records is nullable. Strings become "bytes".
    A feature that never holds a value has no dtype, and is left out. A feature list of a
    SequenceExample becomes a feature with ``sequence``: of shape (None,) if each step holds one
    value, (None, n) if each holds n, and (None, None) if they vary. In a folder that TensorFlow
    Datasets wrote, ``features.json`` adds dtypes, shapes, text, images, and the names of classes.

    Args:
        source (str | PathLike | list | RecordBatch | list[bytes]): As for `RecordReader`; or
            records in memory.
        sample (int): How many records to look at. Default 1000.
        storage_options (dict | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.
        retry (Retry | None): See `RecordReader`. Default None.
        backend (str): See `RecordReader`. Default "fsspec".

    Returns:
        Schema: For `decode_examples`, `TFRecordDataset` and others.

    Raises:
        NoRecordsError: There are no records.
        ValueError: ``sample`` is below 1.
        SchemaError: One feature holds values of two kinds, or is in the context and in the feature
            lists.
        CorruptRecordError: A record is neither an Example nor a SequenceExample.
        ManifestError: A manifest or a ``features.json`` cannot be read.

    Example:
        >>> records = [tfs.encode_example({"x": x, "ids": [0] * x}) for x in (2, 1)]
        >>> tfs.infer_schema(records)
        Schema:
          feature  dtype  shape    default
          ids      int64  (None,)
          x        int64  ()
    """
    if sample < 1:
        raise ValueError(f"sample must be at least 1, got {sample}")
    if _is_records(source):
        return schema_of_records(islice(source, sample))
    access = Access(storage_options, retry, backend)
    with RecordReader(
        cast(Source, source),
        max_record_bytes=max_record_bytes,
        **access.arguments,
    ) as reader:
        known = reader.dataset.schema
        if known is not None:
            return known
        return schema_of_source([list(islice(reader, sample))], source, access)


def _is_records(source: object) -> TypeGuard[RecordBatch | Sequence[bytes]]:
    if isinstance(source, (list, tuple)):
        return bool(source) and isinstance(source[0], bytes)
    return isinstance(source, RecordBatch)

"""`infer_schema`: finds the schema of a source's Examples, in the manifest or by a look at some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeGuard, cast

from tfio_store.dataset.model import Dataset, LazyShards
from tfio_store.dataset.source import Source
from tfio_store.dataset.tfds_features import tfds_features
from tfio_store.dataset.told import Told
from tfio_store.errors import CorruptRecordError, SchemaError
from tfio_store.example.schema import Schema, schema_to_read
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tools.record_schema import schema_of_records
from tfio_store.tools.tfds_schema import schema_of_source

__all__ = ["first_schema", "infer_schema", "read_by", "telling"]

_SHARDS = 8
"""So many shards are looked into, spread over all of them."""

_FIRST = 1000

_READ_AHEAD = 8 << 20
"""Bytes in flight for who wants few records of a shard."""


def infer_schema(
    source: Source | RecordBatch | Sequence[bytes],
    *,
    sample: int = 1000,
    full: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Schema:
    """Find the schema of a dataset: from its manifest, or else from some of its records.

    These are the first ones of up to 8 shards, spread over the dataset. ``Schema.records_seen``
    tells how many they were. A manifest knows, and nothing is read.

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
        full (bool): Look at all of them. Default False.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

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
        Schema of 2 records:
          feature  dtype  shape    default
          ids      int64  (None,)
          x        int64  ()
    """
    if sample < 1:
        raise ValueError(f"sample must be at least 1, got {sample}")
    wanted = None if full else sample
    if _is_records(source):
        return schema_of_records(islice(source, wanted))
    storage = given_storage(storage_options, storage)
    with RecordReader(
        cast(Source, source), max_record_bytes=max_record_bytes, storage=storage
    ) as reader:
        dataset = reader.dataset
        known = dataset.schema
        if known is not None:
            return known
        if full:
            return schema_of_source(reader.batches(), source, storage)
        if isinstance(dataset.shards, LazyShards) or len(dataset.shards) < 2:
            return schema_of_source([list(islice(reader, sample))], source, storage)
    return _Sample(dataset, max_record_bytes).schema(sample, source, storage)


def first_schema(dataset: Dataset, *, max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES) -> Schema:
    """As `infer_schema`, by the first records, however they lie in shards."""
    if dataset.schema is not None:
        return dataset.schema
    with RecordReader.of(dataset, max_record_bytes=max_record_bytes) as reader:
        return schema_of_source([list(islice(reader, _FIRST))], dataset, dataset.storage)


@dataclass
class _Sample:
    """Records of several shards. Errors name the shard, and count its records."""

    dataset: Dataset
    max_record_bytes: int
    runs: list[tuple[str, int]] = field(default_factory=list)
    """Of each run of records: the file, and how many there are."""

    def schema(self, sample: int, source: object, storage: Storage | None) -> Schema:
        try:
            return schema_of_source(self._batches(sample), source, storage, numbered=False)
        except SchemaError as error:
            url, number = self._place(error.record)
            raise SchemaError(
                error.reason, feature=error.feature, record=number, path=url
            ) from error.__cause__
        except CorruptRecordError as error:
            said = re.match(r"record (\d+)", error.reason)
            if error.path != "<buffer>" or said is None:
                raise
            url, number = self._place(int(said[1]))
            reason = f"record {number}{error.reason[said.end() :]}"
            raise CorruptRecordError(reason, path=url, offset=-1) from error.__cause__

    def _batches(self, sample: int) -> Iterator[list[bytes]]:
        """The same number of each shard. Those of the other shards come where these have too
        few."""
        count = len(self.dataset.shards)
        spread = sorted({i * (count - 1) // (_SHARDS - 1) for i in range(_SHARDS)})
        others = (i for i in range(count) if i not in spread)
        left = sample
        for each in spread:
            wanted = min(left, -(-sample // len(spread)))
            found = self._first(each, wanted)
            left -= len(found)
            yield found
        while left and (one := next(others, None)) is not None:
            found = self._first(one, left)
            left -= len(found)
            yield found

    def _first(self, number: int, wanted: int) -> list[bytes]:
        shard = self.dataset.shard(number)
        one = replace(self.dataset, shards=(shard,))
        with RecordReader.of(
            one, memory_budget=_READ_AHEAD, max_record_bytes=self.max_record_bytes
        ) as reader:
            found = list(islice(reader, wanted))
        self.runs.append((shard.url, len(found)))
        return found

    def _place(self, record: int) -> tuple[str, int]:
        for url, count in self.runs:
            if record < count:
                return url, record
            record -= count
        raise AssertionError("there was no such record")


def telling(dataset: Dataset, schema: object = None) -> Dataset:
    """The dataset, whose ``schema`` says what to decode also where no manifest tells it: where
    TensorFlow Datasets wrote the folder, and where ``schema`` is "auto". None: whole records."""
    if dataset.schema is not None or (dataset.told and schema is None):
        return dataset
    if schema is None and not (dataset.shards and tfds_features(dataset, None)):
        return dataset
    return replace(dataset, told=(Told(infer_schema(dataset).to_json()),))


def read_by(schema: object, dataset: Dataset) -> Schema | None:
    """What to decode of a dataset by ``schema=``. None: nothing tells."""
    if schema is None or schema == "auto":
        return telling(dataset, schema).schema
    return schema_to_read(schema)


def _is_records(source: object) -> TypeGuard[RecordBatch | Sequence[bytes]]:
    if isinstance(source, (list, tuple)):
        return bool(source) and isinstance(source[0], bytes)
    return isinstance(source, RecordBatch)

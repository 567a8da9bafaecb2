"""`infer_schema`: finds the schema of a source's Examples, in the manifest or by a look at some."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeGuard, cast

from tfio_store.dataset.folder import read_manifest
from tfio_store.dataset.source import Source
from tfio_store.errors import SchemaError
from tfio_store.example import decode_examples
from tfio_store.example.codec import infer_features
from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Access, Retry

__all__ = ["infer_schema", "manifest_schema", "schema_of_records"]


@dataclass
class _Seen:
    """What is known of one feature so far."""

    dtype: str | None = None
    counts: set[int] = field(default_factory=set)
    records: int = 0
    nested: bool = True
    """Whether each record's values can be those of rows of NAME/row_lengths."""


def infer_schema(
    source: Source | RecordBatch | Sequence[bytes],
    *,
    sample: int = 1000,
    storage_options: Mapping[str, Any] | None = None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    retry: Retry | None = None,
    backend: str = "fsspec",
) -> Schema:
    """Find the schema of a dataset: from its manifest, or else from its first Examples.

    From records, a feature that always holds one value becomes a scalar, and one that always holds
    n values gets shape (n,), since a record does not tell (2, 3) from (6,). One that varies gets
    shape (None,). One that is absent from some of the records is nullable. Strings become "bytes".
    A feature that never holds a value has no dtype, and is left out.

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
        ValueError: There are no records, or ``sample`` is below 1.
        SchemaError: One feature holds values of two kinds.
        CorruptRecordError: A record is not an Example.

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
    known = manifest_schema(source, access)
    if known is not None:
        return known
    with RecordReader(
        cast(Source, source),
        max_record_bytes=max_record_bytes,
        **access.arguments,
    ) as reader:
        return schema_of_records(islice(reader, sample))


def manifest_schema(source: Any, access: Access) -> Schema | None:
    """The schema in the source's manifest, if there is one."""
    manifest = read_manifest(source, access)
    if manifest is None or manifest.schema is None:
        return None
    return Schema.from_json(manifest.schema)


def _is_records(source: object) -> TypeGuard[RecordBatch | Sequence[bytes]]:
    if isinstance(source, (list, tuple)):
        return bool(source) and isinstance(source[0], bytes)
    return isinstance(source, RecordBatch)


def schema_of_records(records: Iterable[Any]) -> Schema:
    """The schema that all of these Examples have; see `infer_schema`."""
    seen: dict[str, _Seen] = {}
    total = 0
    for total, record in enumerate(records, 1):
        found = infer_features(record)
        for name, (dtype, count) in found.items():
            _note(seen.setdefault(name, _Seen()), name, total - 1, dtype, count)
        _note_nested(seen, record, found)
    if not total:
        raise ValueError("there are no records to infer a schema from")
    features = {name: _feature(name, seen, total) for name in seen if seen[name].dtype}
    for name in [name for name, feature in features.items() if feature.nested]:
        del features[name + ROW_LENGTHS]
    return Schema({name: features[name] for name in sorted(features)})


def _note(seen: _Seen, name: str, record: int, dtype: str | None, count: int) -> None:
    if dtype is not None and seen.dtype not in (None, dtype):
        reason = f"holds {dtype} values, where earlier records hold {seen.dtype}"
        raise SchemaError(reason, feature=name, record=record)
    seen.dtype = seen.dtype or dtype
    seen.counts.add(count)
    seen.records += 1


def _note_nested(seen: dict[str, _Seen], record: Any, found: Mapping[str, Any]) -> None:
    """Row lengths are those of a feature if they add up to its values in every record."""
    for name in [name for name in seen if name.endswith(ROW_LENGTHS)]:
        of = name.removesuffix(ROW_LENGTHS)
        if not seen[name].nested or seen[name].dtype not in (None, "int64"):
            continue
        lengths = decode_examples([bytes(record)], {name: ("int64", (None,))})[name].values
        values = found.get(of, (None, 0))[1]
        whole = (lengths >= 0).all() and int(lengths.sum()) == values
        seen[name].nested = bool(whole) and (name in found) == (of in found)


def _feature(name: str, seen: dict[str, _Seen], total: int) -> Feature:
    this, lengths = seen[name], seen.get(name + ROW_LENGTHS)
    assert this.dtype is not None
    nullable = this.records < total
    if (
        lengths is not None
        and lengths.dtype == "int64"
        and lengths.nested
        and lengths.records == this.records
    ):
        return Feature(this.dtype, (None, None), nullable=nullable)
    count = this.counts.pop() if len(this.counts) == 1 else None
    return Feature(this.dtype, () if count == 1 else (count,), nullable=nullable)

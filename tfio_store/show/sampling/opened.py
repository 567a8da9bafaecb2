"""What a report is made of: a source that was opened, and what its manifest tells of it."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tfio_store.dataset.model import Dataset, Limits
from tfio_store.dataset.source import Source, is_one, names_of, open_dataset
from tfio_store.dataset.tfds_features import tfds_features
from tfio_store.dataset.told import common_told
from tfio_store.example.schema import Schema
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted

__all__ = ["Opened", "open_source", "source_name"]


@dataclass(frozen=True, slots=True)
class Opened:
    """A source. ``name`` is what to call it, without secrets. ``schema`` and ``generation`` are the
    manifest's, or None; ``schema`` may be what TensorFlow Datasets wrote beside its files."""

    name: str
    dataset: Dataset
    schema: Schema | None
    generation: str | None
    has_manifest: bool


def open_source(
    source: Source,
    storage: Storage | None,
    *,
    compression: str | None = "auto",
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Opened:
    """Find the shards of a source, and its manifest. No record is read.

    Raises as `open_dataset`.
    """
    if not is_one(source):
        source = names_of(source)
    limits = Limits(max_record_bytes=max_record_bytes)
    dataset = open_dataset(source, storage, compression=compression, limits=limits)
    if not dataset.told:
        told = tfds_features(source, storage)
        return Opened(source_name(source), dataset, Schema(told) if told else None, None, False)
    generation = common_told(dataset.told).generation
    return Opened(source_name(source), dataset, dataset.schema, generation, True)


def source_name(source: Source) -> str:
    """What to call a source, without secrets."""
    if isinstance(source, (str, os.PathLike)):
        return redacted(os.fspath(source))
    if is_one(source):
        return str(source)
    names = names_of(source)
    if not names:
        return "an empty list"
    first = source_name(names[0])
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"

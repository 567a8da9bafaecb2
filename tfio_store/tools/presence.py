"""In how many records each feature is."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from tfio_store.dataset.source import Source
from tfio_store.example.codec import infer_feature_lists, infer_features
from tfio_store.read.reader import RecordReader
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage

__all__ = ["Presence", "presence"]

_LITTLE = 32 << 20
"""Bytes in flight for who wants few records."""


@dataclass(frozen=True, slots=True)
class Presence:
    """What the first records show. ``features``: how many of the ``records`` have each of them."""

    records: int
    features: dict[str, int]


def presence(
    source: Source,
    storage: Storage | None,
    *,
    sample: int | None,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Presence:
    """Look at the first ``sample`` records that are sound, None for all; a warning tells of others.

    CorruptRecordError for one that is no Example.
    """
    found: Counter[str] = Counter()
    records = 0
    with RecordReader(
        source,
        on_corrupt="skip",
        memory_budget=_LITTLE,
        max_record_bytes=max_record_bytes,
        storage=storage,
    ) as reader:
        for record in islice(reader, sample):
            records += 1
            found.update({**infer_features(record), **infer_feature_lists(record)}.keys())
    return Presence(records, dict(sorted(found.items())))

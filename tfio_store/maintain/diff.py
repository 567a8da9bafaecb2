"""`diff`: in what two datasets differ: features, counts, and records."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.manifest import Loss
from tfio_store.dataset.model import Dataset
from tfio_store.dataset.source import Source, common_storage, open_dataset, repeatable
from tfio_store.errors import CorruptRecordError
from tfio_store.example.feature import Feature
from tfio_store.maintain.verify import reported
from tfio_store.read.reader import RecordReader
from tfio_store.storage import Storage
from tfio_store.storage.storage import check_storage, given_storage
from tfio_store.tables.infer import first_schema
from tfio_store.write.progress import OnProgress, check_on_progress

_DIGEST = np.dtype([("high", "<u8"), ("low", "<u8")])


@dataclass(frozen=True, slots=True)
class DatasetDiff:
    """In what two sources differ.

    Attributes:
        records (tuple[int, int]): The records of each.
        different (int): With their order: at how many places another record stands, or none.
            Without it: how many records only one of them has.
        first (int | None): The number of the first record that differs. None if none does, or if
            order does not matter.
        features (dict[str, tuple[str, str]]): The features that are not the same in both, and what
            they are in each; "" if it has none of that name. It says since which record of a
            dataset a feature is there, or may be missing. Default {}.
        lost (tuple[Loss | None, Loss | None]): Records that each lacks since it was salvaged.
            Default (None, None).

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "a", num_shards=1)
        >>> _ = tfs.write_table({"x": [1, 5, 3]}, "b", num_shards=1)
        >>> tfs.diff("a", "b")
        DatasetDiff(records=(3, 3), different=1, first=1, features={}, lost=(None, None))
    """

    records: tuple[int, int]
    different: int
    first: int | None
    features: dict[str, tuple[str, str]] = field(default_factory=dict)
    lost: tuple[Loss | None, Loss | None] = (None, None)

    @property
    def same(self) -> bool:
        """Whether nothing differs (bool)."""
        return not self.different and not self.features


def diff(
    source: Source,
    other: Source,
    *,
    ordered: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    other_storage: Storage | None = None,
    on_progress: OnProgress | None = None,
) -> DatasetDiff:
    """Compare two sources: their features, and the bytes of all records.

    Shards and compression may differ. Without order it takes 32 bytes of memory for each record.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        other (str | PathLike | list): The same.
        ordered (bool): Whether records are compared place by place. Default True. False ignores
            their order.
        storage_options (dict | None): The first source's. See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        other_storage (Storage | None): How the other's storage is reached. Default None: as the
            first source's.
        on_progress (Callable | None): Called with the `Progress` so far, that of the first source.
            Default None.

    Returns:
        DatasetDiff: Its ``same`` is the answer.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        CorruptRecordError: A record is damaged.
        TruncatedRecordError: A file ends inside a record.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "a")
        >>> _ = tfs.write_table({"x": [3, 2, 1]}, "b", compression="GZIP")
        >>> tfs.diff("a", "b").same, tfs.diff("a", "b", ordered=False).same
        (False, True)
    """
    check_on_progress(on_progress)
    storage = given_storage(storage_options, storage)
    check_storage(other_storage, "other_storage")
    other = repeatable(other)
    first = open_dataset(source, storage)
    second = open_dataset(other, other_storage or common_storage(other) or storage)
    features = _features(_Known.of(first), _Known.of(second))
    compare = _places if ordered else _heaps
    with RecordReader.of(first) as one, RecordReader.of(second) as two:
        told = reported(one, on_progress, first.num_records)
        found = compare(chain.from_iterable(told), two)
    found = replace(found, lost=(first.lost, second.lost))
    if not found.different and first.schema is None and second.schema is None:
        return found  # the first records show the features, and these may lie in another order
    return replace(found, features=features)


def _places(one: Iterable[bytes], two: Iterable[bytes]) -> DatasetDiff:
    counts, different, first = [0, 0], 0, None
    for number, (left, right) in enumerate(zip_longest(one, two)):
        counts[0] += left is not None
        counts[1] += right is not None
        if left != right:
            different += 1
            first = number if first is None else first
    return DatasetDiff((counts[0], counts[1]), different, first)


def _heaps(one: Iterable[bytes], two: Iterable[bytes]) -> DatasetDiff:
    left, right = _digests(one), _digests(two)
    _, kinds = np.unique(np.concatenate([left, right]), return_inverse=True)
    held = np.bincount(kinds[: len(left)], minlength=len(kinds))
    other = np.bincount(kinds[len(left) :], minlength=len(kinds))
    return DatasetDiff((len(left), len(right)), int(np.abs(held - other).sum()), None)


def _digests(records: Iterable[bytes]) -> npt.NDArray[Any]:
    memory = bytearray()
    for record in records:
        memory += hashlib.blake2b(record, digest_size=_DIGEST.itemsize).digest()
    return np.frombuffer(memory, _DIGEST)


def _schema(dataset: Dataset) -> Mapping[str, Feature]:
    """The features, by the manifest or by the first records, however these lie in shards; none
    where there are no records, or these are no Examples."""
    try:
        return first_schema(dataset)
    except (CorruptRecordError, ValueError):
        return {}


class _Known(NamedTuple):
    """The features of a source, and since when some of them are as they are."""

    features: Mapping[str, Feature]
    since: dict[str, str]

    @classmethod
    def of(cls, dataset: Dataset) -> _Known:
        since: dict[str, str] = {}
        for growth in dataset.growth:
            since |= dict.fromkeys(growth.added, f", since record {growth.record}")
            lacking = f", may be missing since record {growth.record}"
            since |= dict.fromkeys(growth.optional, lacking)
        return cls(_schema(dataset), since)

    def told(self, name: str) -> str:
        feature = self.features.get(name)
        return "" if feature is None else _told(feature) + self.since.get(name, "")


def _features(one: _Known, two: _Known) -> dict[str, tuple[str, str]]:
    return {
        name: (one.told(name), two.told(name))
        for name in dict.fromkeys([*one.features, *two.features])
        if one.features.get(name) != two.features.get(name)
    }


def _told(feature: Feature) -> str:
    flags = [flag for flag in ("raw", "nullable", "sequence") if getattr(feature, flag)]
    kind = [] if feature.kind is None else [str(feature.kind)]
    default = [] if feature.default is None else [f"default {feature.default!r}"]
    return " ".join([feature.dtype, str(feature.shape), *kind, *flags, *default])

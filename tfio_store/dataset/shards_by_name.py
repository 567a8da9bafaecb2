"""The files that are the shards of one dataset, by their names. No I/O.

Files that differ in one number only are shards of one dataset, in the order of that number:
``train-00000-of-00016.gz`` (TensorFlow, DeepVariant, YDF), ``train-0.tfr`` (Basenji),
``part-00000-c2f0-c000.tfrecord`` (Spark). Numbers that could mean something else, as in
``cifar10.tfrecord`` and ``cifar100.tfrecord``, make no shards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tfio_store.dataset.source_names import Numbered, shard_number

__all__ = ["ShardGroup", "grouped", "is_about_data"]

_RECORDS = re.compile(r"(?i)tf[-_.]?rec|\.tfr\b|^part-(?:r-)?[0-9]{5}")
"""Names of files of records, but for those that are numbered as shards."""

_ABOUT = re.compile(
    r"(?i)\.(json|txt|md|rst|csv|tsv|xml|html?|ya?ml|toml|pbtxt|proto|log|py|ipynb|pickle|pkl|npy|npz"
    r"|parquet|png|jpe?g|pdf|sh|md5|sha1|sha256|crc|idx|index)\Z"
)
"""Names of files that stand beside records, and are none."""


@dataclass(frozen=True, slots=True)
class ShardGroup:
    """Files that are shards of one dataset by their names, in order."""

    files: tuple[str, ...]
    said: str
    """How to name all of them: ``train@16.gz``, ``train-*.tfr``, or the name of the only one."""
    shards: Numbered | None = None
    """If their names say how many there are. Some may be missing then."""

    @property
    def missing(self) -> int:
        """How many are known to be missing."""
        return 0 if self.shards is None else (self.shards.count or 0) - len(self.files)


def is_about_data(filename: str) -> bool:
    """Whether a file describes records, by its name, and holds none."""
    return _ABOUT.search(filename) is not None


def grouped(filenames: Iterable[str]) -> tuple[list[ShardGroup], list[str]]:
    """The datasets among the files of a folder, and those files of which the names say nothing.

    Hidden files (``_``, ``.``) and those beside records (``.json``, ``.txt`` …) are left out.
    """
    counted: dict[Numbered, list[str]] = {}
    alike: dict[str, list[str]] = {}
    others: list[str] = []
    for name in filenames:
        if name.startswith(("_", ".")) or is_about_data(name):
            continue
        shard = shard_number(name)
        if shard is not None:
            counted.setdefault(Numbered(shard[0], shard[2], shard[3]), []).append(name)
        elif _RECORDS.search(name):
            alike.setdefault(re.sub("[0-9]+", "0", name), []).append(name)
        else:
            others.append(name)
    groups = [
        ShardGroup(tuple(sorted(names, key=_number)), shards.said(), shards)
        for shards, names in counted.items()
    ]
    for names in alike.values():
        groups += _differing(names)
    return sorted(groups, key=lambda group: group.said), sorted(others)


def _number(name: str) -> int:
    found = shard_number(name)
    assert found is not None
    return found[1]


def _differing(names: list[str]) -> list[ShardGroup]:
    """One group if the names differ in one number only, or else a group for each."""
    numbers = {name: re.findall("[0-9]+", name) for name in names}
    columns = list(zip(*numbers.values(), strict=True))
    varying = [at for at, column in enumerate(columns) if len(set(column)) > 1]
    if len(varying) != 1 or not _count_up([found[varying[0]] for found in numbers.values()]):
        return [ShardGroup((name,), name) for name in names]
    at = varying[0]
    ordered = sorted(names, key=lambda name: (int(numbers[name][at]), name))
    before, behind = _around(ordered[0], at)
    return [ShardGroup(tuple(ordered), f"{before}*{behind}")]


def _count_up(numbers: list[str]) -> bool:
    """Whether these are numbers of shards: all from 0 or 1 on, or wide ones with leading zeros."""
    wide = len({len(number) for number in numbers}) == 1 and min(numbers).startswith("000")
    values = sorted(map(int, numbers))
    return wide or values in (list(range(len(values))), list(range(1, len(values) + 1)))


def _around(name: str, number: int) -> tuple[str, str]:
    """The text before and behind one of the numbers of a name."""
    place = list(re.finditer("[0-9]+", name))[number]
    return name[: place.start()], name[place.end() :]

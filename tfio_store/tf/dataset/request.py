"""The request of a pipeline to the ops: which blocks, and how to reach the files, as text in a
graph.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import tensorflow as tf

from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, crc32c
from tfio_store.storage import LocalCache, Retry, Storage

__all__ = [
    "MARKS",
    "REPLACED",
    "Blocks",
    "Settings",
    "from_json",
    "group_of",
    "mark_of",
    "to_json",
]


# A `Storage` as text: so it travels in graphs, and in what is saved of them.


def to_json(storage: Storage) -> str:
    plain = {
        "options": storage.options,
        "retry": storage.retry and asdict(storage.retry),
        "backend": storage.backend,
        "cache": storage.cache and asdict(storage.cache),
        "index_dir": storage.index_dir,
    }
    try:
        return json.dumps(plain, sort_keys=True)
    except TypeError as error:
        raise TypeError(
            "storage options of a dataset must be JSON-able, since they travel with its "
            f"graph: {error}"
        ) from None


@lru_cache(maxsize=64)
def from_json(text: str) -> Storage:
    found = json.loads(text)
    retry = found.pop("retry", None)
    cache = found.pop("cache", None)
    return Storage(**found, retry=retry and Retry(**retry), cache=cache and LocalCache(**cache))


# The request of a pipeline to the ops: which blocks, and how to reach the files.


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach files, and what to do about damage. These are the ops' attributes."""

    storage: str = to_json(Storage())
    verify: bool = True
    skip_corrupt: bool = False
    partial: bool = False
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES

    def attributes(self) -> dict[str, Any]:
        return {
            "options": self.storage,
            "verify": self.verify,
            "skip_corrupt": self.skip_corrupt,
            "partial": self.partial,
            "max_record_bytes": self.max_record_bytes,
        }


@dataclass(frozen=True, slots=True)
class Blocks:
    """The blocks of a dataset, and the groups in which a pipeline asks for them.

    files: string [f]. URLs or paths.
    codecs: string [f]. "" (raw), "GZIP", "ZLIB" or "ZSTD"; with "@index" behind it if the blocks
        are those of an index of checkpoints.
    versions: string [f]. The etags of the files when their blocks were found; "" where unknown.
    table: int64 [blocks, 8]. File; stored bytes from, to; uncompressed bytes from, to; records; the
        sums of the records before the block and up to its end, or -1.
    spans: int64 [s, 3]. Block; records to skip; records to take.
    groups: int64 [g + 1]. Group i is ``spans[groups[i]:groups[i + 1]]``. Or int64 [g, lanes + 1]:
        lane k of group i is ``spans[groups[i, k]:groups[i, k + 1]]``, and lanes give a record each
        in turn. In a lane, a span of no records is so many turns as it skips records.
    mark: int64 [1]. Of the versions of the files; groups are wanted by the numbers of
        `order.marked`. Or int64 [0]: by their own numbers.
    """

    files: tf.Tensor
    codecs: tf.Tensor
    versions: tf.Tensor
    table: tf.Tensor
    spans: tf.Tensor
    groups: tf.Tensor
    mark: tf.Tensor

    @property
    def tensors(self) -> tuple[tf.Tensor, ...]:
        """All of them, in this order."""
        texts = self.files, self.codecs, self.versions
        return *texts, self.table, self.spans, self.groups, self.mark

    def inputs(self, wanted: tf.Tensor) -> dict[str, tf.Tensor]:
        names = ("files", "codecs", "versions", "table", "spans", "groups", "mark")
        return {**dict(zip(names, self.tensors, strict=True)), "wanted": wanted}


# The numbers of groups that are wanted may have a mark behind them, in their last bits: that of the
# versions of the files. ``ext/tensorflow/ops/request.c`` takes them apart as `group_of` does.


MARKS = 1 << 32
"""So many marks there are; it leaves room for 2^31 groups."""

_PLACES = 1 << 12
"""The place's share of a mark. The rest is that of the files."""

REPLACED = (
    "the iterator's state was taken of other files than those that are there now: they, or "
    "their manifest, were replaced since; begin anew, without this state"
)


def mark_of(place: str, files: str) -> int:
    """A mark of where files were, and what was there; 0 if nothing is known of them."""
    if not files:
        return 0
    most = MARKS // _PLACES - 1
    return (1 + crc32c(files.encode()) % most) * _PLACES + crc32c(place.encode()) % _PLACES


def group_of(number: int, mark: Sequence[int]) -> int:
    """The group of a number that is wanted of `Blocks` with this ``mark``; below 0 for none.
    RuntimeError if the number has the mark of other files in the same place."""
    if number < 0 or not len(mark):
        return number
    group, saved = divmod(number, MARKS)
    now = int(mark[0])
    if saved and now and saved != now and saved % _PLACES == now % _PLACES:
        raise RuntimeError(REPLACED)
    return group

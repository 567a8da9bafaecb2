"""The checked arguments of a `TFRecordDataset`: the window of a shuffle, how files are reached, as
text in a graph, and the rest.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tfio_store.dataset.checks import check_from_1, check_positive
from tfio_store.dataset.model import MEMORY_BUDGET, Limits
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import LocalCache, Retry, Storage
from tfio_store.tf.dataset.features import Spec

# How many records are shuffled together: in blocks, records or bytes. No TensorFlow.


DEFAULT_BLOCKS = 16
_BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_TEXT = re.compile(rf"([0-9][0-9_]*) ?(records?|{'|'.join(_BYTES)})")


@dataclass(frozen=True, slots=True)
class ShuffleWindow:
    """So many of a unit: "blocks", "records", or "bytes" before compression."""

    amount: int
    unit: str

    @classmethod
    def of(cls, shuffle: bool | int | str) -> ShuffleWindow:
        """Read ``shuffle=``; ValueError for what it does not take."""
        if shuffle is True:
            return cls(DEFAULT_BLOCKS, "blocks")
        found = cls._of_text(shuffle) if isinstance(shuffle, str) else cls(int(shuffle), "blocks")
        if found is None or found.amount < 1:
            raise ValueError(
                "shuffle= takes True, 1 or more blocks, or a text such as '10000 records' or "
                f"'64 MiB', not {shuffle!r}"
            )
        return found

    @classmethod
    def _of_text(cls, text: str) -> ShuffleWindow | None:
        parts = _TEXT.fullmatch(text)
        if parts is None:
            return None
        amount, unit = int(parts[1].replace("_", "")), parts[2]
        if unit in _BYTES:
            return cls(amount * _BYTES[unit], "bytes")
        return cls(amount, "records")

    def blocks(self, count: int, records: int, nbytes: int) -> Fraction:
        """As blocks, of which ``count`` have so many ``records`` and ``nbytes``: not less than
        one."""
        whole = {"blocks": count, "records": records, "bytes": nbytes}[self.unit]
        return max(Fraction(1), Fraction(self.amount * count, max(1, whole)))


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


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach files, and what to do about damage. These are the ops' attributes."""

    storage: str = to_json(Storage())
    verify: bool = True
    skip_corrupt: bool = False
    partial: bool = False
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES

    def attributes(self) -> dict[str, Any]:
        found = asdict(self)
        return {"options": found.pop("storage"), **found}


# What the ops ask of Python, for all but raw local files. ``ext/tensorflow/ops/op_python.h`` has
# the same messages in C, and `tfio_store.tf.dataset.runtime` answers them.


class BlockRequest(NamedTuple):
    """These bytes of one block."""

    url: str
    codec: str
    """As `runtime.codec_text` gives it; "" stands for none."""
    version: str
    """Of the file. "" stands for any."""
    stored: tuple[int, int]
    """Its bytes in the file, from and to."""
    raw: tuple[int, int]
    """The same in the uncompressed stream."""
    sums: tuple[int, int]
    """Of its records, up to the block and up to its end; negative if they are unknown."""
    file_blocks: int
    """The number of blocks that the file is read in."""
    settings: Settings


class StreamRequest(NamedTuple):
    """The next records of one file."""

    url: str
    codec: str
    """May be "auto"."""
    version: str
    """Of the file. "" stands for any."""
    position: tuple[int, int]
    """The records before it, and its byte in a raw stream, or -1."""
    settings: Settings


# The checked arguments of a `TFRecordDataset`.


@dataclass(frozen=True, slots=True)
class Options:
    """Keyword options of `TFRecordDataset`; see there."""

    settings: Settings
    batch_size: int | None = None
    drop_remainder: bool = False
    shuffle: bool | int | str = False
    seed: int | None = None
    reshuffle_each_iteration: bool = True
    shard: tuple[int, int] | None = None
    deterministic: bool | None = None
    memory_budget: int = MEMORY_BUDGET
    feature_spec: Spec | None = None
    parallel_reads: int | None = None

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            check_from_1("batch_size", self.batch_size)
        if self.drop_remainder and self.batch_size is None:
            raise ValueError("drop_remainder= needs a batch_size=")
        if self.shuffle is not False:
            ShuffleWindow.of(self.shuffle)
        check_positive("memory_budget", self.memory_budget)
        if self.shard is not None:
            self._check_shard(*self.shard)

    @staticmethod
    def _check_shard(count: int, index: int) -> None:
        if count < 1 or not 0 <= index < count:
            raise ValueError(
                f"shard= takes (number of shards, index), as Dataset.shard; not {(count, index)}"
            )

    @property
    def wants_blocks(self) -> bool:
        """Whether it is worth finding the blocks of files without an index."""
        wanted = self.shard is not None or self.batch_size is not None
        return wanted or self.shuffle is not False

    @property
    def are_runs(self) -> bool:
        """Whether batches are runs of records in the order of the files, with exact counts."""
        return (
            self.batch_size is not None
            and self.shuffle is False
            and self.parallel_reads is None
            and not self.settings.skip_corrupt
        )

    @property
    def are_tensorflows(self) -> bool:
        """Whether nothing is asked for that TensorFlow's own reader does not do."""
        unasked = Settings(self.settings.storage)
        plain = self.settings == unasked and self.feature_spec is None
        return plain and not self.wants_blocks

    @property
    def limits(self) -> Limits:
        return Limits(self.memory_budget, self.settings.max_record_bytes)

    @property
    def window(self) -> ShuffleWindow:
        """Whose records are mixed: one block's without shuffling."""
        return ShuffleWindow.of(1 if self.shuffle is False else self.shuffle)


def check_buffer_size(value: Any) -> None:
    """TypeError unless TensorFlow would take it as a number of bytes."""
    if value is None or isinstance(value, int) or (np.ndim(value) == 0 and _is_int64(value)):
        return
    raise TypeError(f"buffer_size= takes a number of bytes, int64, not {value!r}")


def _is_int64(value: Any) -> bool:
    dtype: Any = getattr(value, "dtype", None)
    return dtype is not None and getattr(dtype, "name", str(dtype)) == "int64"


def check_compression(name: Any) -> Any:
    """A ``compression_type`` as the ops take it: "auto" for None, "" for raw; tensors as they are.

    ValueError for a name that is no codec.
    """
    if name is None:
        return "auto"
    if hasattr(name, "numpy"):
        name = name.numpy()
    if isinstance(name, bytes):
        name = name.decode()
    if not isinstance(name, str):
        return name
    return name if name == "auto" else codec_name(name, argument="compression_type") or ""

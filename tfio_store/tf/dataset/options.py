"""The checked arguments of a `TFRecordDataset`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tfio_store.records.compression import codec_name
from tfio_store.tf.dataset.parsing import Spec
from tfio_store.tf.dataset.request import Settings
from tfio_store.tf.dataset.shuffle_window import ShuffleWindow

__all__ = ["Options", "check_buffer_size", "check_compression"]

DEFAULT_MEMORY_BUDGET = 256 << 20


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
    memory_budget: int = DEFAULT_MEMORY_BUDGET
    feature_spec: Spec | None = None
    least_mixed: int | None = None
    """The ``n`` of `Dataset.shuffle(n)`, if that is what is done: no window has fewer records."""

    def __post_init__(self) -> None:
        if self.batch_size is not None and self.batch_size < 1:
            raise ValueError(f"batch_size= takes 1 or more records, not {self.batch_size}")
        if self.drop_remainder and self.batch_size is None:
            raise ValueError("drop_remainder= needs a batch_size=")
        if self.shuffle is not False:
            ShuffleWindow.of(self.shuffle)
        if self.memory_budget < 1:
            raise ValueError(f"memory_budget= takes bytes, not {self.memory_budget}")
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
    def are_tensorflows(self) -> bool:
        """Whether nothing is asked for that TensorFlow's own reader does not do."""
        unasked = Settings(self.settings.storage)
        plain = self.settings == unasked and self.feature_spec is None
        return plain and not self.wants_blocks

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

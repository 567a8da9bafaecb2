"""`Checkpoints`: where an inflater begins for each block of a stream that others compressed.

No I/O. `tfio_store.records.checkpoint` says what a checkpoint is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tfio_store.records.checkpoint import Checkpoint
from tfio_store.storage import Version

__all__ = ["Checkpoints", "Restart"]

Int64Array = npt.NDArray[np.int64]
UInt32Array = npt.NDArray[np.uint32]


class Restart(NamedTuple):
    """How to inflate one block: from its checkpoint on, whose seed is bytes ``start:stop`` of the
    object ``address``."""

    point: Checkpoint
    address: str
    version: Version
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoints:
    """One checkpoint for each block of a table.

    Block b is inflated from bit ``bits[b]`` of the stored object on, and its bytes begin
    ``skips[b]`` bytes later. It needs what is stored before byte ``stops[b]``. ``crcs`` are CRC32C
    of the blocks' bytes. Its seed is bytes ``seeds[b]:seeds[b + 1]`` of the object ``address``,
    which holds the index.
    """

    bits: Int64Array
    stops: Int64Array
    skips: UInt32Array
    crcs: UInt32Array
    seeds: Int64Array
    address: str
    version: Version = field(default_factory=Version)

    def __len__(self) -> int:
        return len(self.bits)

    @property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        arrays = (self.bits, self.stops, self.skips, self.crcs, self.seeds)
        return sum(array.nbytes for array in arrays)

    def __getitem__(self, block: int) -> Restart:
        return Restart(
            Checkpoint(int(self.bits[block]), int(self.skips[block]), int(self.crcs[block])),
            self.address,
            self.version,
            int(self.seeds[block]),
            int(self.seeds[block + 1]),
        )

    def part(self, begin: int, end: int) -> Checkpoints:
        """Those of blocks ``begin:end``."""
        blocks = slice(begin, end)
        return Checkpoints(
            self.bits[blocks],
            self.stops[blocks],
            self.skips[blocks],
            self.crcs[blocks],
            self.seeds[begin : end + 1],
            self.address,
            self.version,
        )

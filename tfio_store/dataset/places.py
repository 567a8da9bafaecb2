"""`Places`: where a part of a long dataset lies in its list of shards. No I/O."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Places"]


class Places(NamedTuple):
    """Where a part lies in a list of shards: of each, the first one and the one behind the last."""

    shards: tuple[int, int]
    records: tuple[int, int]
    blocks: tuple[int, int]
    nbytes: int
    """The stored bytes of the blocks, or of the records where they are cut at their bytes."""
    cut: bool
    """Whether of the first or the last shard only a part is meant."""

    def moved(self, shards: int, records: int, blocks: int) -> Places:
        """The same in a list that begins so much later."""
        return Places(
            (self.shards[0] - shards, self.shards[1] - shards),
            (self.records[0] - records, self.records[1] - records),
            (self.blocks[0] - blocks, self.blocks[1] - blocks),
            self.nbytes,
            self.cut,
        )

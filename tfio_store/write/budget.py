"""Shares out a writer's memory budget among the blocks and parts on their way to the store."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["MEMORY_BUDGET", "Memory"]

MEMORY_BUDGET = 256 << 20

_MIB = 1 << 20
_LEAST_BLOCK, _MOST_BLOCK = 64 << 10, _MIB
_LEAST_CHOSEN, _MOST_CHOSEN = 4 << 10, 64 * _MIB
_LEAST_PART, _MOST_PART = 5 * _MIB, 16 * _MIB  # S3 takes no smaller part
_IN_FLIGHT = 128 * _MIB  # the most that a process's uploads hold, see storage.cloud.multipart


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes for: one block being framed, one part being filled, all blocks that wait."""

    block_bytes: int
    part_bytes: int
    queue_bytes: int

    @classmethod
    def plan(cls, budget: int, open_shards: int, block_bytes: int | None = None) -> Memory:
        """Every open shard fills a block and a part; the rest is shared. ``block_bytes``: what the
        caller wants a block to be."""
        if not isinstance(budget, int) or budget < 16 * _MIB:
            raise ValueError(f"memory_budget must be at least 16 MiB in bytes, not {budget!r}")
        block = _block(block_bytes, budget, open_shards)
        part = _between(_LEAST_PART, budget // (8 * open_shards), _MOST_PART)
        in_flight = min(_IN_FLIGHT, 4 * part * open_shards)
        queue = budget - open_shards * (block + part) - in_flight
        return cls(block, part, max(queue, 8 * min(block, _MIB), 2 * block))


def _block(chosen: int | None, budget: int, open_shards: int) -> int:
    if chosen is None:
        return _between(_LEAST_BLOCK, budget // (8 * open_shards), _MOST_BLOCK)
    if not isinstance(chosen, int) or not _LEAST_CHOSEN <= chosen <= _MOST_CHOSEN:
        raise ValueError(f"block_bytes must be {_LEAST_CHOSEN} to {_MOST_CHOSEN}, not {chosen!r}")
    if chosen * open_shards > budget // 8:
        raise ValueError(
            f"block_bytes: {open_shards} open shards with a block of {chosen} bytes each take more "
            f"than an eighth of memory_budget={budget}"
        )
    return chosen


def _between(least: int, value: int, most: int) -> int:
    return max(least, min(value, most))

"""Which part of a dataset a host reads, by ``shard=``."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, TypeAlias

import grain

__all__ = ["Hosts", "Shard"]

Shard: TypeAlias = "grain.sharding.ShardOptions | tuple[int, int] | None"


@dataclass(frozen=True, slots=True)
class Hosts:
    """One host of ``count``. ``even``: all have the same number of records, and the last ones are
    left out."""

    index: int = 0
    count: int = 1
    even: bool = False

    @classmethod
    def of(cls, shard: Any) -> Hosts:
        """What ``shard=`` means: Grain's options, or (index, count) as in `RecordReader.shard`.
        ValueError or TypeError for anything else."""
        if shard is None:
            return cls()
        even = False
        if isinstance(shard, grain.sharding.ShardOptions):
            pair: Any = shard.shard_index, shard.shard_count
            even = bool(shard.drop_remainder)
        else:
            pair = shard
        try:
            index, count = (operator.index(number) for number in pair)
        except (TypeError, ValueError) as error:
            raise TypeError(
                "shard= takes (index, count) or one of grain.sharding's options, such as "
                f"ShardByJaxProcess(), not {shard!r}"
            ) from error
        if not 0 <= index < count:
            raise ValueError(
                f"shard= takes (index, count) with an index from 0 to count - 1, not {shard!r}"
            )
        return cls(index, count, even)

    def part(self, size: int) -> slice:
        """This host's run of ``size`` records: the first ``size % count`` hosts have one more."""
        each, more = divmod(size, self.count)
        if self.even:
            more = 0
        start = self.index * each + min(self.index, more)
        return slice(start, start + each + (self.index < more))

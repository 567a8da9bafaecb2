"""`TaskResult`: what a task has written, small enough for an engine's messages."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tfio_store.dataset.block_tables import ShardInfo, decode_tables, encode_tables
from tfio_store.dataset.checks import check_name, counted, held, whole_number
from tfio_store.example.learned import checked_state
from tfio_store.records.texts import warn

__all__ = ["Order", "TaskResult", "check_order", "counted_results"]

Order: TypeAlias = "int | str | tuple[int, ...] | None"

_FORMAT = "tfio_store.task"
_VERSION = 1

_SHARD_TABLE_BYTES = 256
"""More than the index has for a shard beside its arrays."""

_BYTES_A_RECORD = 32
"""More than the index has for a block of one record whose place it knows."""


@dataclass(frozen=True, slots=True, repr=False)
class TaskResult:
    """The shards that one task of a `WriteJob` has written. `WriteJob.commit` takes it.

    It pickles, and `to_json` makes what JSON can hold. Both take a few KiB: for each shard its
    name, its totals, and 2 to 16 bytes for each of its blocks.

    Attributes:
        job (str): The job's random tag.
        attempt (str): The attempt's random tag.
        order (int | str | tuple[int, ...] | None): Where its records come in the dataset, as
            `WriteJob.open` was given.
        shards (tuple[ShardInfo, ...]): What it has written, in order. None of them is part of a
            dataset before the commit.
        learned (dict | None): What its mappings show of the columns. Default None.

    Example:
        >>> job = tfs.WriteJob("train")
        >>> result = job.write([b"one", b"two"], order=7)
        >>> result
        <TaskResult of 2 records in 1 shard, 38 bytes, order 7>
        >>> tfs.TaskResult.from_json(result.to_json()) == result
        True
    """

    job: str
    attempt: str
    order: Order
    shards: tuple[ShardInfo, ...]
    learned: dict[str, Any] | None = field(default=None, compare=False)

    @property
    def _task(self) -> object:
        """The key of results of the same task: their order, or, without one, the attempt."""
        return self.attempt if self.order is None else ("order", self.order)

    def __repr__(self) -> str:
        order = "" if self.order is None else f", order {self.order!r}"
        inside = held(self.num_records, len(self.shards))
        return f"<TaskResult of {inside}, {counted(self.nbytes, 'byte')}{order}>"

    def __reduce__(self) -> tuple[object, ...]:
        return TaskResult.from_json, (self.to_json(),)

    @property
    def num_records(self) -> int:
        """The number of records in all its shards (int)."""
        return sum(shard.records for shard in self.shards)

    @property
    def nbytes(self) -> int:
        """The bytes of all its shards, as they are stored (int)."""
        return sum(shard.nbytes for shard in self.shards)

    def to_json(self) -> dict[str, Any]:
        """Turn the result into what JSON can hold.

        Returns:
            dict: What `from_json` takes.
        """
        return {
            "format": _FORMAT,
            "version": _VERSION,
            "job": self.job,
            "attempt": self.attempt,
            "order": list(self.order) if isinstance(self.order, tuple) else self.order,
            "learned": self.learned,
            "shards": [[one.name, one.nbytes, one.records, one.crc32c] for one in self.shards],
            "tables": base64.b64encode(zlib.compress(encode_tables(self.shards))).decode(),
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> TaskResult:
        """Make the result again from what `to_json` returned.

        Args:
            document (dict): What `to_json` returned, perhaps by way of JSON.

        Returns:
            TaskResult: An equal one.

        Raises:
            ValueError: It is none, or it is damaged.
        """
        try:
            return _parse(document)
        except (KeyError, TypeError, ValueError, OverflowError, binascii.Error, zlib.error) as why:
            raise ValueError(f"this is no TaskResult as to_json() makes it: {why!r}") from why


def _parse(document: dict[str, Any]) -> TaskResult:
    if document["format"] != _FORMAT or document["version"] != _VERSION:
        raise ValueError(f"it has the format {document['format']!r}, {document['version']!r}")
    order = document["order"]
    shards = tuple(_parse_shard(*one) for one in document["shards"])
    tables = decode_tables(_inflated(document["tables"], shards), shards)
    return TaskResult(
        job=str(document["job"]),
        attempt=str(document["attempt"]),
        order=check_order(tuple(order) if isinstance(order, list) else order),
        shards=tuple(replace(one, blocks=table) for one, table in zip(shards, tables, strict=True)),
        learned=checked_state(document.get("learned")),
    )


def _parse_shard(name: str, nbytes: int, records: int, crc32c: int) -> ShardInfo:
    for count in (nbytes, records, crc32c):
        if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count < 1 << 63:
            raise ValueError(f"{count!r} is no count")
    return ShardInfo(check_name(name), nbytes, records, crc32c)


def _inflated(tables: str, shards: tuple[ShardInfo, ...]) -> bytes:
    """No more bytes than tables of so many records can have."""
    most = sum(_SHARD_TABLE_BYTES + _BYTES_A_RECORD * one.records for one in shards)
    stream = zlib.decompressobj()
    data = stream.decompress(base64.b64decode(tables, validate=True), _SHARD_TABLE_BYTES + most)
    if not stream.eof:
        raise ValueError("its block tables are cut short, or larger than they can be")
    return data


def check_order(order: Any) -> Order:
    """The order as a plain value, as it is after a message, too. TypeError unless results can be
    sorted by it."""
    if order is None:
        return None
    if isinstance(order, str):
        return str.__str__(order)  # also of an Enum, and of NumPy's
    try:
        if not isinstance(order, tuple):
            return _number(order)
        if order:
            return tuple(map(_number, order))
    except TypeError:
        pass
    raise TypeError(f"order must be an int, a tuple of ints, or a str, not {order!r}")


def _number(order: Any) -> int:
    number = whole_number(order)
    if number is None:
        raise TypeError("it is no whole number")
    return number


def counted_results(results: Iterable[TaskResult], job: str) -> list[TaskResult]:
    """The results of a job that count, by their ``order``: of several of one order the first.
    Without an order they come as they are given, and of the same result one counts.

    ValueError: a result is of another job. TypeError: something else is no result, or orders are of
    several kinds.
    """
    chosen: dict[object, TaskResult] = {}
    for result in results:
        if not isinstance(result, TaskResult):
            raise TypeError(f"results must be TaskResults, and one is {type(result).__name__}")
        if result.job != job:
            raise ValueError(f"{result!r} is of another job")
        first = chosen.setdefault(result._task, result)
        if first.num_records != result.num_records:
            warn(
                f"two attempts have the order {result.order!r} and are not alike: the first one, "
                f"of {first.num_records} records, counts, and the other one, of "
                f"{result.num_records}, does not; if they are two tasks, give each its own order"
            )
    counted = list(chosen.values())
    kinds = {type(result.order).__name__ for result in counted}
    if len(kinds) > 1:
        raise TypeError(f"results must all have an order of one kind; these have {sorted(kinds)}")
    if kinds != {"NoneType"}:
        counted.sort(key=lambda result: result.order)  # type: ignore[arg-type, return-value]
    return counted

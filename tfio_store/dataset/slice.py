"""`slice`: some of a source's records, by their numbers or in percent, as a source."""

from __future__ import annotations

import builtins
import os
import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np

from tfio_store.dataset.checks import whole_number
from tfio_store.dataset.header_walk import index_raw_shards
from tfio_store.dataset.model import Dataset, DatasetPart, Limits
from tfio_store.dataset.shards import Shards
from tfio_store.dataset.source import (
    OneSource,
    Source,
    common_storage,
    is_one,
    names_of,
    open_dataset,
)
from tfio_store.storage import Storage
from tfio_store.storage.redaction import redacted

# Spans of records as texts: "80%:", ":1000", "-1000:". No I/O.


Span: TypeAlias = "str | builtins.slice | tuple[int | None, int | None]"

_FORMS = 'a text such as "80%:", "10%:20%" or ":1000", a slice, or a pair of numbers (start, stop)'
_BOUND = re.compile(r"(?P<number>-?[0-9]+(_[0-9]+)*)|(?P<percent>-?[0-9]+(\.[0-9]+)?)%|")


def span_text(span: Span) -> str:
    """A span as one text. TypeError or ValueError for what is none."""
    if isinstance(span, str):
        bounds = [bound.strip() for bound in span.split(":")]
        if len(bounds) != 2 or not all(map(_BOUND.fullmatch, bounds)):
            raise ValueError(f"span={span!r}: pass {_FORMS}")
        return ":".join(bounds)
    if isinstance(span, builtins.slice):
        if span.step not in (None, 1):
            raise ValueError(f"span={span!r}: takes no step; records stay in their order")
        span = span.start, span.stop
    if not isinstance(span, tuple) or len(span) != 2:
        raise TypeError(f"span= takes {_FORMS}, not {span!r}")
    return ":".join("" if bound is None else str(_number(bound)) for bound in span)


def _number(bound: Any) -> int:
    number = whole_number(bound)
    if number is None:
        raise TypeError(f"span= holds {bound!r}; it takes record numbers or None")
    return number


def bounds_of(text: str, total: int) -> tuple[int, int]:
    """The numbers of the first record, and behind the last one, of ``total``; see `span_text`."""
    start, stop = text.split(":")
    first = _place(start, total) if start else 0
    return first, max(_place(stop, total) if stop else total, first)


def _place(bound: str, total: int) -> int:
    if bound.endswith("%"):
        percent = Fraction(bound[:-1])
        found = int(total * (percent + 100 if percent < 0 else percent) // 100)
    else:
        found = int(bound)
        found += total if found < 0 else 0
    return min(max(found, 0), total)


_STARTS_SHARE = 8
"""The places of records, which are found when files without an index are walked, may take this part
of the memory budget."""


@dataclass(frozen=True, repr=False)
class Slice(DatasetPart):
    """Some of a source's records, as `slice` names them. It is small, pickles, and is hashable.

    Attributes:
        source (str | Slice | Partition | tuple): The source that is cut.
        span (str): Which of its records, such as "80%:".

    Example:
        >>> part = tfs.slice("train", (100, None))
        >>> part.span, part
        ('100:', slice('train', '100:'))
    """

    source: OneSource | tuple[OneSource, ...]
    span: str

    def _open(self, storage: Storage | None, compression: str | None, limits: Limits) -> Dataset:
        whole = open_dataset(self.source, storage, compression=compression, limits=limits)
        return _cut(whole, self.span, limits)

    def _reached(self) -> Storage | None:
        return common_storage(self.source)

    def _whole(self) -> object:
        return self.source

    def __repr__(self) -> str:
        return f"slice({_shown(self.source)}, {self.span!r})"

    def __str__(self) -> str:
        return f"{_said(self.source)}[{self.span}]"


def slice(source: Source, span: Span) -> Slice:  # noqa: A001 - read as tfs.slice
    """Name some of a source's records. All that takes a source takes the result.

    Nothing is read before it is used. Then the index says where the records are; raw files without
    one are walked from header to header. Only blocks that hold some of the records are read, and of
    a block at the end of the slice the rest is dropped. Percentages are rounded down, so that
    "0%:80%" and "80%:" have each record once. Records are in the order of the source: if that is
    sorted, write it with ``shuffle_seed`` before it is cut.

    Args:
        source (str | PathLike | list): See `RecordReader`. Also a slice, or a `Partition`.
        span (str | slice | tuple): Which records: percentages ("80%:", ":20%", "10%:12.5%"), record
            numbers (":1000", "1000:", "-1000:" for the last 1,000), a ``slice`` without step, or
            (start, stop). Numbers beyond the end are the end, as in Python.

    Returns:
        Slice: A small value that pickles.

    Raises:
        TypeError: ``span`` is of another type.
        ValueError: ``span`` is no span. When it is used: a file is one compressed stream that was
            not written in blocks, which cannot be cut or counted.

    Example:
        >>> _ = tfs.write_table({"x": list(range(10))}, "data", num_shards=1)
        >>> train, valid = tfs.slice("data", ":80%"), tfs.slice("data", "80%:")
        >>> len(tfs.RecordSource(train)), len(tfs.RecordSource(valid))
        (8, 2)
        >>> tfs.read_table(tfs.slice("data", "-3:"))["x"].tolist()
        [7, 8, 9]
    """
    return Slice(_kept(source), span_text(span))


def _kept(source: Source) -> OneSource | tuple[OneSource, ...]:
    if isinstance(source, os.PathLike):
        return os.fspath(source)
    if is_one(source):
        return source
    names = names_of(source)
    return tuple(each if isinstance(each, DatasetPart) else os.fspath(each) for each in names)


def _shown(source: object) -> str:
    if isinstance(source, tuple):
        return f"[{', '.join(map(_shown, source))}]"
    return repr(source) if isinstance(source, DatasetPart) else repr(redacted(str(source)))


def _said(source: object) -> str:
    if isinstance(source, tuple):
        return f"[{', '.join(map(_said, source))}]"
    return str(source) if isinstance(source, DatasetPart) else redacted(str(source))


def _cut(dataset: Dataset, span: str, limits: Limits) -> Dataset:
    """The part of a dataset that a span means. Files are walked only to count or to cut them."""
    if not dataset.has_blocks:
        dataset = _countable(dataset, span, limits)
    return replace(dataset, shards=dataset.shards.part(*bounds_of(span, dataset.num_records or 0)))


def _countable(dataset: Dataset, span: str, limits: Limits) -> Dataset:
    """The dataset with every shard counted, and with the blocks of those that a span cuts."""
    unknown = [i for i, s in enumerate(dataset.shards) if s.records is None]
    dataset = _walked(dataset, unknown, limits)
    starts = dataset.shards.record_starts
    inside = np.setdiff1d(bounds_of(span, int(starts[-1])), starts)
    cut = np.unique(np.searchsorted(starts[1:], inside, side="right")).tolist()
    return _walked(dataset, [i for i in cut if dataset.shards[i].blocks is None], limits)


def _walked(dataset: Dataset, shards: list[int], limits: Limits) -> Dataset:
    """The dataset with the blocks of these shards known, if they are raw."""
    if not shards:
        return dataset
    alone = replace(dataset, shards=Shards(dataset.shards[i] for i in shards))
    starts_bytes = limits.memory_budget // _STARTS_SHARE
    found = index_raw_shards(alone, limits, starts_bytes=starts_bytes)
    return dataset.with_shards(dict(zip(shards, found.shards, strict=True)))

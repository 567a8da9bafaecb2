"""Beam's arguments, and reading partitions in tasks that a runner can split while they run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.coders import BytesCoder
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.options.value_provider import StaticValueProvider, ValueProvider
from apache_beam.transforms.core import RestrictionProvider

from tfio_store.example.schema import Schema
from tfio_store.read.fetch import BlockBatch, BlockRange
from tfio_store.records.framing import RecordBatch
from tfio_store.tables.partitions import Partition
from tfio_store.tables.read_table import rows_maker

__all__ = ["Give", "ReadBlocks", "check_url", "codec_of", "decoder_of", "is_told", "told"]


# Arguments that are named as Beam names them, and what they mean here.


_CODECS = {
    CompressionTypes.AUTO: "auto",
    CompressionTypes.UNCOMPRESSED: None,
    CompressionTypes.GZIP: "GZIP",
    CompressionTypes.DEFLATE: "ZLIB",
    CompressionTypes.ZSTD: "ZSTD",
}


def codec_of(compression_type: str | None, *, auto: str | None) -> str | None:
    """Our name of a `CompressionTypes`. ``auto``: what AUTO amounts to. ValueError for one that
    TFRecord files do not have."""
    name = "uncompressed" if compression_type is None else str(compression_type).lower()
    if name not in _CODECS:
        raise ValueError(
            f"compression_type={compression_type!r}: TFRecord files have one of "
            f"{', '.join(_CODECS)}"
        )
    return auto if name == "auto" else _CODECS[name]


def decoder_of(coder: Any, *, batched: bool) -> Any:
    """The coder, or None if records stay bytes."""
    if coder is None or type(coder) is BytesCoder:
        return None
    if batched:
        raise ValueError("coder= is for single records; batched=True gives columns by the schema")
    return coder


def check_url(url: Any) -> None:
    """TypeError or ValueError for what is no URL, nor will be."""
    if not isinstance(url, (str, os.PathLike, ValueProvider)):
        raise TypeError(f"file_path_prefix must be a path or URL, not {type(url).__name__}")
    if url == "":
        raise ValueError("file_path_prefix: pass a path or URL, not an empty string")


def is_told(given: Any) -> bool:
    """Whether `told` can be asked before the pipeline runs. A parameter of a template has the value
    of the pipeline that ran last in this process, if there was one."""
    return not isinstance(given, ValueProvider) or isinstance(given, StaticValueProvider)


def told(given: Any) -> Any:
    """The value of a template's parameter, and everything else as it is."""
    return given.get() if isinstance(given, ValueProvider) else given


# Reading partitions in tasks that a runner can split while they run, at any block.


@dataclass(frozen=True)
class Give:
    """The elements of a batch of records."""

    coder: Any = None
    batched: bool = False
    schema: Schema | None = None
    columns: tuple[str, ...] | None = None
    with_filename: bool = False

    def maker(self, part: Partition) -> Callable[[BlockBatch], Iterator[Any]]:
        """The function that makes elements of a batch: records, or Arrow batches of them; behind
        the file's name if that is wanted."""
        make = self._of_records(part)
        if not self.with_filename:
            return lambda found: make(found.records)
        return lambda found: ((found.url, one) for one in make(found.records))

    def _of_records(self, part: Partition) -> Callable[[RecordBatch], Iterator[Any]]:
        if self.batched:
            return rows_maker(self.schema or part.schema, self.columns, part)
        if self.coder is None:
            return iter
        return partial(map, self.coder.decode)

    @property
    def type_hint(self) -> Any:
        """The type of the elements, by which Beam chooses how to pass them on."""
        if self.batched:
            import pyarrow as pa

            one: Any = pa.RecordBatch
        else:
            one = bytes if self.coder is None else _type_of(self.coder)
        return beam.typehints.KV[str, one] if self.with_filename else one


def _type_of(coder: Any) -> Any:
    try:
        return coder.to_type_hint()
    except NotImplementedError:  # a coder need not say so
        return Any


class _Blocks(RestrictionProvider):  # type: ignore[misc]
    """A restriction is a range of block numbers of a partition."""

    def initial_restriction(self, element: Partition) -> OffsetRange:
        return OffsetRange(0, len(BlockRange(element.dataset)))

    def create_tracker(self, restriction: OffsetRange) -> OffsetRestrictionTracker:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Partition, restriction: OffsetRange) -> int:
        blocks = len(BlockRange(element.dataset))
        size: int = restriction.size()
        return max(1, element.nbytes * size // max(1, blocks))


class ReadBlocks(beam.DoFn):  # type: ignore[misc]
    """Partitions in, their records out."""

    def __init__(self, give: Give, **how: Any) -> None:
        self._give = give
        self._how = how

    def process(
        self,
        element: Partition,
        tracker: Any = beam.DoFn.RestrictionParam(_Blocks()),  # noqa: B008
    ) -> Iterator[Any]:
        restriction = tracker.current_restriction()
        elements = self._give.maker(element)
        blocks = BlockRange(element.dataset, **self._how)
        found = blocks.batches(restriction.start, restriction.stop)
        for batch in _claimed(found, tracker, restriction.start, restriction.stop):
            yield from elements(batch)


def _claimed(
    batches: Iterator[BlockBatch], tracker: Any, start: int, stop: int
) -> Iterator[BlockBatch]:
    """The batches, up to where the runner has given the blocks to another task."""
    with closing(batches):  # type: ignore[type-var]
        for batch in batches:
            while start <= batch.block:  # those without records too
                if not tracker.try_claim(start):
                    return
                start += 1
            yield batch
    tracker.try_claim(stop)

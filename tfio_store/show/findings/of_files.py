"""Findings of shards, damage and indexes."""

from __future__ import annotations

from collections.abc import Iterator

from tfio_store.show.model import Damage, Finding
from tfio_store.show.sample import Sample
from tfio_store.show.shards import MANY, ShardSizes
from tfio_store.show.text import visible
from tfio_store.show.words import counted, number, size
from tfio_store.storage.redaction import redacted

__all__ = ["file_findings"]

_MOST = 100


def file_findings(sample: Sample, sizes: ShardSizes) -> Iterator[Finding]:
    """What is odd about the files, without a look at their records."""
    yield from _unreadable(sample)
    yield from _damage(sample)
    for shard, said in list(sample.wrong_index.items())[:1]:
        count = counted(len(sample.wrong_index), "shard")
        yield Finding(
            "wrong-index",
            "error",
            f"the index does not fit {count}: {visible(redacted(said))[:300]}",
            shards=tuple(sample.wrong_index)[:_MOST] or (shard,),
        )
    yield from _sizes(sizes)
    if not len(sizes.nbytes) or (sample.dataset.num_records == 0 or not sizes.nbytes.any()):
        yield Finding("no-records", "note", "there are no records")
    yield from _streams(sample)


def _unreadable(sample: Sample) -> Iterator[Finding]:
    bad = sample.unreadable
    for shard in list(bad)[:1]:
        reason = visible(redacted(f"{type(bad[shard]).__name__}: {bad[shard]}"))[:300]
        name = redacted(sample.dataset.shard(shard).url)
        yield Finding(
            "unreadable-shard",
            "error",
            f"{number(len(bad))} of {counted(len(sample.dataset.shards), 'shard')} can't be read; "
            f"the first is {name}: {reason}",
            shards=tuple(bad)[:_MOST],
        )


def _is_cut(region: Damage) -> bool:
    return "the data ends inside" in region.reason or "the file ends" in region.reason


def _damage(sample: Sample) -> Iterator[Finding]:
    cut = [region for region in sample.damage if _is_cut(region)]
    broken = [region for region in sample.damage if not _is_cut(region)]
    if cut:
        shards = tuple(dict.fromkeys(region.shard for region in cut))
        ends = "ends" if len(shards) == 1 else "end"
        yield Finding(
            "truncated",
            "error",
            f"{counted(len(shards), 'shard')} {ends} inside a record, which is lost",
            shards=shards[:_MOST],
        )
    if broken:
        shards = tuple(dict.fromkeys(region.shard for region in broken))
        lost = sum(region.nbytes or 0 for region in broken)
        yield Finding(
            "damage",
            "error",
            f"{counted(len(broken), 'damaged region')} in {counted(len(shards), 'shard')}: "
            f"{size(lost)} can't be read; tfio-store salvage copies what is sound",
            shards=shards[:_MOST],
        )


def _sizes(sizes: ShardSizes) -> Iterator[Finding]:
    of = f"of {counted(len(sizes.nbytes), 'shard')}"
    large, small, empty = sizes.large, sizes.small, sizes.empty
    if len(large):
        are = "is" if len(large) == 1 else "are"
        largest = sizes.nbytes[large[0]] / sizes.median
        yield Finding(
            "shard-size",
            "warning",
            f"{number(len(large))} {of} {are} over {MANY}x the median of "
            f"{size(int(sizes.median))}; the largest {largest:.0f}x",
            shards=tuple(large[:_MOST].tolist()),
        )
    if len(small):
        are = "is" if len(small) == 1 else "are"
        yield Finding(
            "small-shard",
            "note",
            f"{number(len(small))} {of} {are} under a fifth of the median of "
            f"{size(int(sizes.median))}",
            shards=tuple(small[:_MOST].tolist()),
        )
    if 0 < len(empty) < len(sizes.nbytes):
        hold = "holds" if len(empty) == 1 else "hold"
        yield Finding(
            "empty-shard",
            "note",
            f"{number(len(empty))} {of} {hold} no record",
            shards=tuple(empty[:_MOST].tolist()),
        )


def _streams(sample: Sample) -> Iterator[Finding]:
    """Files that could be read better, if they are more than a few."""
    streams = [shard for shard, codec in sample.codecs.items() if codec is not None]
    cut = [text for text in sample.left_out if "compressed file" in text]
    if streams and cut:
        yield Finding(
            "stream",
            "note",
            f"{counted(len(streams), 'file')} that were looked at are compressed as one stream "
            "each: they can be read only in order; tfio-store copy compresses in blocks",
            shards=tuple(streams[:_MOST]),
        )
    elif sample.scope.spots:
        yield Finding(
            "no-index",
            "note",
            "files without an index: they were looked at in spots, and records have no number; "
            "tfio-store index writes one",
        )

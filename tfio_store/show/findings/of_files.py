"""Findings of shards, damage and indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tfio_store.dataset.checks import counted
from tfio_store.errors import Reason
from tfio_store.show.model import (
    MANY,
    Damage,
    Finding,
    Level,
    ShardSizes,
    finding,
    number,
    percent,
    size,
    verb,
)
from tfio_store.show.sample import Sample
from tfio_store.storage.redaction import redacted
from tfio_store.tables.media_types import visible


def file_findings(sample: Sample, sizes: ShardSizes) -> Iterator[Finding]:
    """Findings about the files, without a look at their records."""
    yield from _unreadable(sample)
    yield from _damage(sample)
    for said in list(sample.wrong_index.values())[:1]:
        count = counted(len(sample.wrong_index), "shard")
        text = f"the index does not fit {count}: {visible(redacted(said))[:300]}"
        yield finding("wrong-index", "error", text, shards=sample.wrong_index)
    yield from _sizes(sizes)
    if not len(sizes.nbytes) or (sample.dataset.num_records == 0 or not sizes.nbytes.any()):
        yield finding("no-records", "note", "there are no records")
    yield from _streams(sample)


def _unreadable(sample: Sample) -> Iterator[Finding]:
    bad = sample.unreadable
    for shard in list(bad)[:1]:
        name = redacted(sample.dataset.shard(shard).url)
        text = (
            f"{number(len(bad))} of {counted(len(sample.dataset.shards), 'shard')} can't be read; "
            f"the first is {name}: {_reason(bad[shard])}"
        )
        yield finding("unreadable-shard", "error", text, shards=bad)


def _reason(error: OSError) -> str:
    """Without the name, which stands before it."""
    said = error.strerror if error.filename else ""
    return visible(redacted(said or f"{type(error).__name__}: {error}"))[:300]


def _foreign(sample: Sample) -> dict[int, Damage]:
    """Shards of which nothing is a record, and which are known to be something else; of each the
    region that shows it."""
    lost: Counter[int] = Counter()
    worst: dict[int, Damage] = {}
    for region in sample.damage:
        lost[region.shard] += region.nbytes or 0
        if region.offset == 0 and region.kind is Reason.OTHER_FORMAT:
            worst[region.shard] = region
    return {shard: region for shard, region in worst.items() if lost[shard] >= region.shard_nbytes}


def _no_records(sample: Sample, foreign: dict[int, Damage]) -> Iterator[Finding]:
    for region in list(foreign.values())[:1]:
        are = "is no TFRecord file" if len(foreign) == 1 else "are no TFRecord files"
        text = (
            f"{number(len(foreign))} of {counted(len(sample.dataset.shards), 'shard')} {are}: "
            f"{region.name}: {visible(region.reason)}"
        )
        yield finding("unreadable-shard", "error", text, shards=foreign)


def _damage(sample: Sample) -> Iterator[Finding]:
    foreign = _foreign(sample)
    yield from _no_records(sample, foreign)
    regions = [region for region in sample.damage if region.shard not in foreign]
    cut = [region for region in regions if region.kind.is_cut]
    broken = [region for region in regions if not region.kind.is_cut]
    if cut:
        yield finding("truncated", "error", "; ".join(_ends(cut)), shards=_shards(cut))
    if broken:
        text = (
            f"{counted(len(broken), 'damaged region')} in "
            f"{counted(len(_shards(broken)), 'shard')}: {_lost(broken)} can't be read; "
        )
        salvage = "tfio-store salvage copies what is sound"
        text += salvage if sample.records else "no record is sound: is this a TFRecord file?"
        yield finding("damage", "error", text, shards=_shards(broken))


def _shards(regions: list[Damage]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(region.shard for region in regions))


def _ends(cut: list[Damage]) -> Iterator[str]:
    """How shards end too early: their length is known, or they are compressed, or neither."""
    shorter = [region for region in cut if region.kind is Reason.SHORT_FILE and region.nbytes]
    if shorter:
        count = len(_shards(shorter))
        ends = "its end" if count == 1 else "their ends"
        gone = size(sum(region.nbytes or 0 for region in shorter))
        yield f"{gone} of {counted(count, 'shard')} are missing at {ends}"
    known = set(_shards(shorter))
    unknown = {region.shard for region in cut if region.nbytes is None} - known
    if unknown:
        ends = verb(len(unknown), "end")
        yield f"{counted(len(unknown), 'compressed shard')} {ends} too early: the rest is lost"
    others = set(_shards(cut)) - known - unknown
    if others:
        ends = verb(len(others), "end")
        yield f"{counted(len(others), 'shard')} {ends} inside a record, which is lost"


def _lost(broken: list[Damage]) -> str:
    """How much, in words. It is unknown for data that do not decompress."""
    known = sum(region.nbytes or 0 for region in broken)
    parts = [size(known)] if known else []
    if any(region.nbytes is None for region in broken):
        parts.append("compressed data that do not decode")
    return " and ".join(parts) or size(0)


def _sizes(sizes: ShardSizes) -> Iterator[Finding]:
    of = f"of {counted(len(sizes.nbytes), 'shard')}"
    large, small, empty = sizes.large, sizes.small, sizes.empty
    median = size(int(sizes.median))
    if len(large):
        text = (
            f"{number(len(large))} {of} {verb(len(large), 'are')} over {MANY}x the median of "
            f"{median}; the largest {sizes.nbytes[large[0]] / sizes.median:.0f}x"
        )
        yield finding("shard-size", "warning", text, shards=large)
    if len(small):
        are = verb(len(small), "are")
        text = f"{number(len(small))} {of} {are} under a fifth of the median of {median}"
        yield finding("small-shard", "note", text, shards=small)
    if 0 < len(empty) < len(sizes.nbytes):
        text = f"{number(len(empty))} {of} {verb(len(empty), 'hold')} no record"
        yield finding("empty-shard", "note", text, shards=empty)


def _streams(sample: Sample) -> Iterator[Finding]:
    """Files that could be read better, if they are more than a few."""
    streams = [shard for shard, codec in sample.codecs.items() if codec is not None]
    cut = [text for text in sample.left_out if "compressed file" in text]
    if streams and cut:
        text = (
            f"{counted(len(streams), 'file')} of those looked at {verb(len(streams), 'are')} "
            "compressed as one stream, which can be read only in order; tfio-store copy compresses "
            "in blocks"
        )
        yield finding("stream", "note", text, shards=streams)
    elif sample.scope.spots:
        text = (
            "files without an index: they were looked at in spots, and records have no number; "
            "tfio-store index writes one"
        )
        yield finding("no-index", "note", text)


# Findings of whole records.


_MANY = 100
_LEAST_LARGE = 16 << 10
_LEAST_BYTES = 100
"""Records of fewer bytes, on average, are the same by chance."""


def record_findings(sample: Sample) -> Iterator[Finding]:
    """Findings about records as such."""
    yield from _no_examples(sample)
    yield from _large(sample)
    yield from _repeated(sample)


def _no_examples(sample: Sample) -> Iterator[Finding]:
    odd, records = sample.tallies.odd, sample.records
    if not odd.count:
        return
    if odd.count == records:
        text = "the records are no tf.train.Example: each is shown as one byte string"
        yield finding("no-example", "note", text, rows=odd.rows)
        return
    text = f"{number(odd.count)} of {counted(records, 'record')} are no tf.train.Example"
    yield finding("no-example", "error", text, rows=odd.rows)


def _large(sample: Sample) -> Iterator[Finding]:
    sizes = sample.kept.places.sizes
    if len(sizes) < 20:
        return
    median = float(np.median(sizes))
    large = np.flatnonzero((sizes > _MANY * median) & (sizes > _LEAST_LARGE))
    if not len(large):
        return
    order = large[np.argsort(-sizes[large], kind="stable")]
    text = (
        f"{counted(len(large), 'record')} {verb(len(large), 'are')} over {_MANY}x the median of "
        f"{size(int(median))}; the largest has {size(int(sizes.max()))}"
    )
    yield finding("large-record", "note", text, rows=order)


def _repeated(sample: Sample) -> Iterator[Finding]:
    if not sample.records or sample.nbytes < _LEAST_BYTES * sample.records:
        return
    count, rows = sample.tallies.repeats.found()
    if not count:
        return
    share = count / sample.tallies.repeats.records
    level: Level = "warning" if share >= 0.01 else "note"
    are = verb(count, "are")
    text = f"{counted(count, 'record')} ({percent(share)}) {are} the same as another one"
    yield finding("same-record", level, text, rows=rows)

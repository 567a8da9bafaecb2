"""Findings of shards, damage and indexes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tfio_store.errors import Reason
from tfio_store.show.model import MANY, Damage, Finding, ShardSizes, counted, number, percent, size
from tfio_store.show.sample import Sample
from tfio_store.storage.redaction import redacted
from tfio_store.tables.media_types import visible

__all__ = ["file_findings", "record_findings"]

_MOST = 100


def file_findings(sample: Sample, sizes: ShardSizes) -> Iterator[Finding]:
    """Findings about the files, without a look at their records."""
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
        name = redacted(sample.dataset.shard(shard).url)
        yield Finding(
            "unreadable-shard",
            "error",
            f"{number(len(bad))} of {counted(len(sample.dataset.shards), 'shard')} can't be read; "
            f"the first is {name}: {_reason(bad[shard])}",
            shards=tuple(bad)[:_MOST],
        )


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
        yield Finding(
            "unreadable-shard",
            "error",
            f"{number(len(foreign))} of {counted(len(sample.dataset.shards), 'shard')} {are}: "
            f"{region.name}: {visible(region.reason)}",
            shards=tuple(foreign)[:_MOST],
        )


def _damage(sample: Sample) -> Iterator[Finding]:
    foreign = _foreign(sample)
    yield from _no_records(sample, foreign)
    regions = [region for region in sample.damage if region.shard not in foreign]
    cut = [region for region in regions if _is_cut(region)]
    broken = [region for region in regions if not _is_cut(region)]
    if cut:
        text = "; ".join(_ends(cut))
        yield Finding("truncated", "error", text, shards=_shards(cut)[:_MOST])
    if broken:
        text = (
            f"{counted(len(broken), 'damaged region')} in "
            f"{counted(len(_shards(broken)), 'shard')}: {_lost(broken)} can't be read; "
        )
        salvage = "tfio-store salvage copies what is sound"
        text += salvage if sample.records else "no record is sound: is this a TFRecord file?"
        yield Finding("damage", "error", text, shards=_shards(broken)[:_MOST])


def _is_cut(region: Damage) -> bool:
    return region.kind.is_cut


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
        ends = "ends" if len(unknown) == 1 else "end"
        yield f"{counted(len(unknown), 'compressed shard')} {ends} too early: the rest is lost"
    others = set(_shards(cut)) - known - unknown
    if others:
        ends = "ends" if len(others) == 1 else "end"
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
    are = "is" if len(streams) == 1 else "are"
    if streams and cut:
        yield Finding(
            "stream",
            "note",
            f"{counted(len(streams), 'file')} of those looked at {are} compressed as one stream, "
            "which can be read only in order; tfio-store copy compresses in blocks",
            shards=tuple(streams[:_MOST]),
        )
    elif sample.scope.spots:
        yield Finding(
            "no-index",
            "note",
            "files without an index: they were looked at in spots, and records have no number; "
            "tfio-store index writes one",
        )


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
    rows = tuple(odd.rows)
    if odd.count == records:
        text = "the records are no tf.train.Example: each is shown as one byte string"
        yield Finding("no-example", "note", text, rows=rows)
        return
    text = f"{number(odd.count)} of {counted(records, 'record')} are no tf.train.Example"
    yield Finding("no-example", "error", text, rows=rows)


def _large(sample: Sample) -> Iterator[Finding]:
    sizes = sample.kept.places.sizes
    if len(sizes) < 20:
        return
    median = float(np.median(sizes))
    large = np.flatnonzero((sizes > _MANY * median) & (sizes > _LEAST_LARGE))
    if not len(large):
        return
    order = large[np.argsort(-sizes[large], kind="stable")]
    are = "is" if len(large) == 1 else "are"
    yield Finding(
        "large-record",
        "note",
        f"{counted(len(large), 'record')} {are} over {_MANY}x the median of {size(int(median))}; "
        f"the largest has {size(int(sizes.max()))}",
        rows=tuple(order[:_MOST].tolist()),
    )


def _repeated(sample: Sample) -> Iterator[Finding]:
    if not sample.records or sample.nbytes < _LEAST_BYTES * sample.records:
        return
    count, rows = sample.tallies.repeats.found()
    if not count:
        return
    share = count / sample.tallies.repeats.records
    yield Finding(
        "same-record",
        "warning" if share >= 0.01 else "note",
        f"{counted(count, 'record')} ({percent(share)}) "
        f"{'is' if count == 1 else 'are'} the same as another one",
        rows=tuple(rows),
    )

"""Findings of whole records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tfio_store.show.model import Finding
from tfio_store.show.sampling.sample import Sample
from tfio_store.show.words import counted, number, percent, size

__all__ = ["record_findings"]

_MANY = 100
_LEAST_LARGE = 16 << 10
_LEAST_BYTES = 100
"""Records of fewer bytes, on average, are the same by chance."""

_MOST = 100


def record_findings(sample: Sample) -> Iterator[Finding]:
    """What is odd about records as such."""
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

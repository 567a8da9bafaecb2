"""Findings of the presence, types and lengths of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.show.counting.features import said, shown_name
from tfio_store.show.counting.roles import role_of
from tfio_store.show.counting.tally import FeatureTally
from tfio_store.show.model import Finding
from tfio_store.show.sampling.sample import Sample
from tfio_store.show.words import counted, number, percent

__all__ = ["feature_findings"]

_LEAST_RECORDS = 20
_LEAST_LENGTHS = 50
_LEAST_LENGTH = 16
_LEAST_CUT = 0.03
_HEAP = 8
"""So many times the next common length, the longest one is suspicious."""

_NAMED = 8


def feature_findings(sample: Sample) -> Iterator[Finding]:
    """What is odd about features, whatever they hold."""
    tallies, records = list(sample.tallies.features.values()), sample.tallies.records
    examples = records - sample.tallies.odd.count
    for tally in tallies:
        yield from _dtypes(tally)
        if sample.opened.has_manifest:  # what TFDS wrote beside its files says less
            yield from _schema(tally, examples)
        yield from _not_numbers(tally)
        yield from _cut(tally)
        yield from _padded(tally)
    if sample.opened.has_manifest:
        yield from _never(sample, examples)
    yield from _missing(tallies, examples)
    yield from _constant([tally for tally in tallies if tally.present == examples])


def _dtypes(tally: FeatureTally) -> Iterator[Finding]:
    found = [(dtype, n) for dtype, n in tally.dtypes.most_common() if dtype != "none"]
    if len(found) < 2:
        return
    held = ", ".join(f"{dtype} in {counted(n, 'record')}" for dtype, n in found)
    rows = sorted(row for dtype, _ in found[1:] for row in tally.dtype_rows[dtype])
    yield _of("dtype", "error", tally, f"holds {held}", rows[:100])


def _of(kind: str, level: Any, tally: FeatureTally, text: str, rows: Sequence[int] = ()) -> Finding:
    name = shown_name(tally.name)
    return Finding(kind, level, f"feature {name}: {text}", name, rows=tuple(rows))


def _schema(tally: FeatureTally, records: int) -> Iterator[Finding]:
    feature = tally.feature
    if feature is None:
        return
    if tally.misfits.count:
        text = (
            f"{counted(tally.misfits.count, 'record')} do not hold what the schema says: "
            f"{said(feature)}, found {tally.misfit}"
        )
        yield _of("schema", "error", tally, text, tally.misfits.rows)
    if tally.present < records and _must_be(feature):
        count = records - tally.present
        text = f"is missing in {counted(count, 'record')}, and the schema wants it"
        yield _of("schema", "error", tally, text)


def _must_be(feature: Feature) -> bool:
    optional = feature.nullable or feature.ragged or feature.default is not None
    return not optional


def _never(sample: Sample, records: int) -> Iterator[Finding]:
    """Features that the schema wants, and no record has."""
    schema = sample.opened.schema
    if schema is None or not records:
        return
    met = {tally.name for tally in sample.tallies.features.values()}
    for name, feature in schema.items():
        if name not in met and _must_be(feature) and not sample.tallies.more:
            shown = shown_name(name)
            text = f"feature {shown}: is missing in all records, and the schema wants it"
            yield Finding("schema", "error", text, shown)


def _missing(tallies: list[FeatureTally], records: int) -> Iterator[Finding]:
    some = [t for t in tallies if t.present < records and (t.feature is None)]
    if len(some) > 3:
        names = ", ".join(shown_name(t.name) for t in some[:_NAMED])
        more = ", …" * (len(some) > _NAMED)
        text = f"{counted(len(some), 'feature')} are missing in a part of the records: "
        yield Finding("missing", "note", text + names + more)
        return
    for tally in some:
        share = 1 - tally.present / records
        yield _of("missing", "note", tally, f"is missing in {percent(share)} of records")


def _constant(tallies: list[FeatureTally]) -> Iterator[Finding]:
    found = [tally for tally in tallies if _is_constant(tally)]
    if len(found) == 1:
        yield _of("constant", "note", found[0], "has the same value everywhere")
    elif found:
        names = ", ".join(shown_name(tally.name) for tally in found[:_NAMED])
        more = ", …" * (len(found) > _NAMED)
        text = f"{counted(len(found), 'feature')} have the same value everywhere: "
        yield Finding("constant", "note", text + names + more)


def _is_constant(tally: FeatureTally) -> bool:
    if tally.present < _LEAST_RECORDS or not tally.values:
        return False
    numbers = tally.numbers
    if numbers.count:
        odd = numbers.nans + numbers.infinite
        return numbers.least == numbers.most and not odd and not tally.strings.looked_at
    counted_strings = tally.strings.counted
    return counted_strings is not None and len(counted_strings) == 1


def _not_numbers(tally: FeatureTally) -> Iterator[Finding]:
    numbers = tally.numbers
    if (
        tally.dtype == "bytes"
        and tally.feature is not None
        and tally.feature.dtype[:8]
        in (
            "datetime",
            "timedelt",
        )
    ):
        return
    for kind, count in (("NaN", numbers.nans), ("infinite", numbers.infinite)):
        if count:
            share = count / max(1, tally.values)
            text = f"{number(count)} of {number(tally.values)} values ({percent(share)}) are {kind}"
            yield _of("not-finite", "warning", tally, text, tally.not_numbers.rows)


def _cut(tally: FeatureTally) -> Iterator[Finding]:
    """Very many lists or texts have just the longest length."""
    measures = {"values": tally.counts.values}
    if tally.strings.lengths.count:
        if role_of(tally) != "text":
            return
        letters = np.array(sorted(tally.strings.letters.elements()), np.int64)
        measures = {"bytes": tally.strings.lengths.values, "characters": letters}
    heaps = {what: _heap(lengths) for what, lengths in measures.items()}
    found = next(((what, *heap) for what, heap in heaps.items() if heap), None)
    if found is None:
        return
    what, longest, share = found
    text = f"{percent(share)} are exactly {number(longest)} {what} long, and none is longer: cut?"
    yield _of("cut-length", "warning", tally, text)


def _heap(lengths: npt.NDArray[np.int64]) -> tuple[int, float] | None:
    """The longest length and its share, if it is suspicious."""
    if len(lengths) < _LEAST_LENGTHS:
        return None
    found, counts = np.unique(lengths, return_counts=True)
    longest, count = int(found[-1]), int(counts[-1])
    share = count / len(lengths)
    if longest < _LEAST_LENGTH or len(found) < 5 or share < _LEAST_CUT or count < 10:
        return None
    near = counts[:-1][found[:-1] >= 0.7 * longest]
    usual = max(float(near.max(initial=1)), 1.0)
    return (longest, share) if count >= _HEAP * usual else None


def _padded(tally: FeatureTally) -> Iterator[Finding]:
    """All lists are of one length, and many end with zeros, more or fewer."""
    if len(tally.padding) < 5 or tally.padded.count * 2 < tally.present:
        return
    numbers = tally.numbers
    pixels = (numbers.most or 0) <= 255 and (tally.counts.most or 0) >= 256
    if pixels or tally.padding_zeros < 0.05 * tally.values:
        return
    share = tally.padding_zeros / tally.values
    text = (
        f"all lists are {number(int(tally.counts.most or 0))} long, and {percent(share)} of the "
        "values are zeros at their ends: padded?"
    )
    yield _of("padded", "note", tally, text, tally.padded.rows)

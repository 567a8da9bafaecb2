"""Findings of features: what they hold, classes, texts, images and audio."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.dataset.checks import counted
from tfio_store.example.feature import ClassLabel, Feature
from tfio_store.show.columns import class_shown
from tfio_store.show.features import role_of, said, shown_name
from tfio_store.show.gallery import Candidate
from tfio_store.show.model import Finding, Level, finding, number, percent, verb
from tfio_store.show.sample import Sample
from tfio_store.show.strings import Issue
from tfio_store.show.tally import FeatureTally
from tfio_store.tables.media_types import shown_value

# Findings of features that are classes: which are rare, and in what order they come.


_RARE = 0.001
_FEW_CLASSES = 20
_MOST = 0.95
_LEAST_VALUES = 200
_LEAST_CHANGES = 50
_SHUFFLED = 0.2
"""In shuffled records, a class changes from record to record about as often as by chance. If it
changes less than this part of that, the records are in its order."""

_LABELS = ("label", "class", "target", "category", "y")
_NAMED_CLASSES = 5


def class_findings(tally: FeatureTally) -> Iterator[Finding]:
    """Findings about how often classes come, and where."""
    if role_of(tally) != "class":
        return
    strings = tally.dtype == "bytes"
    counted: Counter[Any] | None = tally.strings.counted if strings else tally.classes
    if not counted:
        return
    total = sum(counted.values())
    yield from _rare(tally, counted, total)
    yield from _imbalance(tally, counted, total)
    yield from _order(tally, counted, total)


def class_text(tally: FeatureTally, value: Any) -> str:
    """A class as a finding names it."""
    if isinstance(value, bytes):
        return shown_value(tally.strings.value_of(value), 40)
    return class_shown(value, tally.feature, 40)


def _rare(tally: FeatureTally, counted: Counter[Any], total: int) -> Iterator[Finding]:
    """Classes that are surely rare: so few would not come of a share of 0.1 % by chance."""
    usual = 1 / len(counted)
    rare = [
        value
        for value, count in counted.items()
        if (count + 3 * math.sqrt(count) + 3) / total < min(_RARE, usual / 10)
    ]
    if not rare or (_are_counts(tally, counted) and _are_ends(rare, counted)):
        return
    rare.sort(key=lambda value: (counted[value], value))
    name = shown_name(tally.name)
    level: Level = "warning" if len(counted) <= _FEW_CLASSES else "note"
    rows = [row for value in rare[:20] for row in tally.class_rows.get(value, ())]
    if len(rare) == 1:
        count = counted[rare[0]]
        text = (
            f"{name} {class_text(tally, rare[0])} is in {percent(count / total)} of records "
            f"({number(count)} of {number(total)})"
        )
    else:
        named = ", ".join(class_text(tally, value) for value in rare[:_NAMED_CLASSES])
        more = ", …" * (len(rare) > _NAMED_CLASSES)
        text = (
            f"{number(len(rare))} of the {number(len(counted))} values of {name} are in less than "
            f"{percent(min(_RARE, usual / 10))} of records each: {named}{more}"
        )
    yield finding("rare-class", level, text, name, rows=rows)


def _are_counts(tally: FeatureTally, counted: Counter[Any]) -> bool:
    """Whether the values may be numbers of things, and not of classes."""
    return not _is_label(tally) and all(isinstance(value, int) for value in counted)


def _are_ends(rare: list[int], counted: Counter[int]) -> bool:
    """Whether the rare values are the least or the largest ones, as of any number of things: none
    lies between the values of the middle 98 % of records."""
    values = sorted(counted)
    part = np.cumsum([counted[value] for value in values]) / sum(counted.values())
    least, most = (values[int(np.searchsorted(part, end))] for end in (0.01, 0.99))
    return not any(least < value < most for value in rare)


def _imbalance(tally: FeatureTally, counted: Counter[Any], total: int) -> Iterator[Finding]:
    (value, count), *_ = counted.most_common(1)
    if total < _LEAST_VALUES or count < _MOST * total:
        return
    name = shown_name(tally.name)
    is_label = _is_label(tally)
    text = f"{name} {class_text(tally, value)} is in {percent(count / total)} of records"
    yield finding("imbalance", "warning" if is_label else "note", text, name)


def _is_label(tally: FeatureTally) -> bool:
    if isinstance(getattr(tally.feature, "kind", None), ClassLabel):
        return True
    last = tally.name.lower().replace("/", "_").split("_")
    return any(word in _LABELS or word.startswith("label") for word in last)


def _order(tally: FeatureTally, counted: Counter[Any], total: int) -> Iterator[Finding]:
    if not tally.singles or total < _LEAST_VALUES or len(counted) < 2:
        return
    expected = (total - 1) * (1 - sum((count / total) ** 2 for count in counted.values()))
    if expected < _LEAST_CHANGES or tally.changes >= _SHUFFLED * expected:
        return
    name = shown_name(tally.name)
    if tally.rising:
        text = f"{name} rises along the dataset: it is sorted by it; shuffle before training"
    else:
        text = (
            f"{name} comes in runs: it changes {number(tally.changes)} times along the records "
            f"that were read, where shuffled ones would about {number(round(expected))} times; "
            "shuffle before training"
        )
    yield finding("sorted", "warning" if _is_label(tally) else "note", text, name)


_LEAST_RECORDS = 20
_LEAST_LENGTHS = 50
_LEAST_LENGTH = 16
_LEAST_CUT = 0.03
_HEAP = 8
"""So many times the next common length, the longest one is suspicious."""

_NAMED = 8


def feature_findings(sample: Sample) -> Iterator[Finding]:
    """Findings about features, whatever they hold."""
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
    yield _of("dtype", "error", tally, f"holds {held}", rows)


def _of(
    kind: str, level: Level, tally: FeatureTally, text: str, rows: Sequence[int] = ()
) -> Finding:
    name = shown_name(tally.name)
    return finding(kind, level, f"feature {name}: {text}", name, rows=rows)


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
            yield finding("schema", "error", text, shown)


def _missing(tallies: list[FeatureTally], records: int) -> Iterator[Finding]:
    some = [t for t in tallies if t.present < records and (t.feature is None)]
    if len(some) > 3:
        names = ", ".join(shown_name(t.name) for t in some[:_NAMED])
        more = ", …" * (len(some) > _NAMED)
        text = f"{counted(len(some), 'feature')} are missing in a part of the records: "
        yield finding("missing", "note", text + names + more)
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
        yield finding("constant", "note", text + names + more)


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
    times = tally.feature is not None and tally.feature.dtype.startswith(("datetime", "timedelta"))
    if times and tally.dtype == "bytes":
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


# Findings of texts.


def string_findings(tally: FeatureTally) -> Iterator[Finding]:
    """Findings about the letters of a feature that is text for the most part."""
    strings = tally.strings
    declared = tally.feature is not None and tally.feature.dtype == "str"
    if not strings.looked_at or not (declared or 2 * strings.texts >= strings.looked_at):
        return
    yield from _told(tally, "not-utf8", "warning", strings.not_utf8, "are not UTF-8")
    text = "hold the character that stands for lost ones, \N{REPLACEMENT CHARACTER}"
    yield from _told(tally, "lost-letters", "warning", strings.lost, text)
    text = "look as if UTF-8 had been taken for Latin-1: \u201cÃ¼\u201d for \u201cü\u201d"
    yield from _told(tally, "mojibake", "warning", strings.twice, text)
    many = strings.empty.count * 10 >= strings.given
    yield from _told(tally, "empty-text", "warning" if many else "note", strings.empty, "are empty")


def _told(
    tally: FeatureTally, kind: str, level: Level, issue: Issue, what: str
) -> Iterator[Finding]:
    if not issue.count:
        return
    count, total = issue.count, tally.strings.given
    does, rest = what.split(" ", 1)
    text = f"{number(count)} of {number(total)} texts ({percent(count / total)}) "
    yield _of(kind, level, tally, f"{text}{verb(count, does)} {rest}", issue.rows)


# Findings of images and audio.


_USUAL = 0.8
_LEAST = 10


def media_findings(sample: Sample) -> Iterator[Finding]:
    """Findings about the images that were looked at, and about media that come again."""
    looked: dict[str, list[Candidate]] = {}
    for each in sample.gallery.candidates["image"]:
        if not each.look.passed_over:
            looked.setdefault(each.feature, []).append(each)
    for name, mine in looked.items():
        yield from _broken(shown_name(name), mine)
        sound = [each for each in mine if not each.look.broken]
        yield from _blank(shown_name(name), sound)
        yield from _mixed(shown_name(name), sound)
    for tally in (*sample.tallies.features.values(), sample.tallies.whole):
        pixels = tally.name in sample.gallery.pixels
        if tally.values and (pixels or role_of(tally) in ("image", "audio")):
            yield from _again(tally)


def _broken(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    bad = [each for each in mine if each.look.broken]
    if not bad:
        return
    reason, _ = Counter(each.look.broken for each in bad).most_common(1)[0]
    text = (
        f"feature {name}: {number(len(bad))} of {counted(len(mine), 'image')} that were decoded "
        f"{verb(len(bad), 'are')} broken: {reason}"
    )
    yield finding("broken-image", "error", text, name, rows=_rows(bad))


def _blank(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    blank = [each for each in mine if each.look.blank and each.look.width * each.look.height > 1]
    if blank:
        text = (
            f"feature {name}: {number(len(blank))} of {counted(len(mine), 'image')} that were "
            f"decoded {verb(len(blank), 'are')} of one colour"
        )
        yield finding("blank-image", "warning", text, name, rows=_rows(blank))


def _mixed(name: str, mine: list[Candidate]) -> Iterator[Finding]:
    """Images that differ from nearly all others. Where all differ, that is how photos are."""
    sizes = Counter((each.look.width, each.look.height) for each in mine if each.look.width)
    modes = Counter(each.look.mode for each in mine if each.look.mode)
    if len(modes) > 1:
        held = ", ".join(f"{number(n)} {mode}" for mode, n in modes.most_common(5))
        usual = modes.most_common(1)[0][0]
        odd = [each for each in mine if each.look.mode not in (usual, "")]
        text = f"feature {name}: images are of several kinds: {held}"
        yield finding("mixed-images", "note", text, name, rows=_rows(odd))
    total = sum(sizes.values())
    if len(sizes) < 2 or total < _LEAST:
        return
    (width, height), count = sizes.most_common(1)[0]
    if count >= _USUAL * total:
        odd = [each for each in mine if (each.look.width, each.look.height) != (width, height)]
        text = (
            f"feature {name}: {number(total - count)} of {counted(total, 'image')} are not "
            f"{width}x{height} as the others"
        )
        yield finding("mixed-sizes", "note", text, name, rows=_rows(odd))


def _again(tally: FeatureTally) -> Iterator[Finding]:
    strings = tally.strings
    if strings.counted is None or not strings.repeats:
        return
    again = sum(strings.counted[name] - 1 for name in strings.repeats)
    share = again / strings.given
    first = max(strings.repeats, key=lambda name: (strings.counted or Counter())[name])
    most = strings.counted[first]
    text = (
        f"{number(again)} of {number(strings.given)} values ({percent(share)}) are the same as an "
        f"earlier one; one comes {number(most)} times"
    )
    rows = [row for row in strings.repeats[first] if row >= 0]
    yield _of("same-value", "warning" if share >= 0.01 else "note", tally, text, rows)


def _rows(mine: list[Candidate]) -> dict[int, None]:
    return dict.fromkeys(each.row for each in mine if each.row >= 0)

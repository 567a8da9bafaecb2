"""Findings of features that are classes: which are rare, and in what order they come."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from tfio_store.example.kinds import ClassLabel
from tfio_store.show.counting.features import shown_name
from tfio_store.show.counting.roles import role_of
from tfio_store.show.counting.tally import FeatureTally
from tfio_store.show.media.text import shown_value, visible
from tfio_store.show.model import Finding
from tfio_store.show.words import number, percent

__all__ = ["class_findings", "class_text"]

_RARE = 0.001
_FEW_CLASSES = 20
_MOST = 0.95
_LEAST_VALUES = 200
_LEAST_CHANGES = 50
_SHUFFLED = 0.2
"""Of shuffled records, a class changes from record to record about as often as by chance. If it
changes less than this part of that, the records are in its order."""

_LABELS = ("label", "class", "target", "category", "y")
_NAMED = 5


def class_findings(tally: FeatureTally) -> Iterator[Finding]:
    """What is odd about how often classes come, and where."""
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
    kind = None if tally.feature is None else tally.feature.kind
    if isinstance(kind, ClassLabel) and 0 <= value < len(kind.names):
        return f"{value} ({visible(kind.names[value])[:40]})"
    return str(value)


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
    level = "warning" if len(counted) <= _FEW_CLASSES else "note"
    rows = [row for value in rare[:20] for row in tally.class_rows.get(value, ())]
    if len(rare) == 1:
        count = counted[rare[0]]
        text = (
            f"{name} {class_text(tally, rare[0])} is in {percent(count / total)} of records "
            f"({number(count)} of {number(total)})"
        )
    else:
        named = ", ".join(class_text(tally, value) for value in rare[:_NAMED])
        more = ", …" * (len(rare) > _NAMED)
        text = (
            f"{number(len(rare))} of the {number(len(counted))} values of {name} are in less than "
            f"{percent(min(_RARE, usual / 10))} of records each: {named}{more}"
        )
    yield Finding("rare-class", level, text, name, rows=tuple(rows[:100]))  # type: ignore[arg-type]


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
    yield Finding("imbalance", "warning" if is_label else "note", text, name)


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
    yield Finding("sorted", "warning" if _is_label(tally) else "note", text, name)

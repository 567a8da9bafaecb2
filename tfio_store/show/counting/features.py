"""The facts of one feature, from all that was counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import Feature
from tfio_store.example.kinds import ClassLabel, Image
from tfio_store.show.counting.held import Held, quantiles
from tfio_store.show.counting.histograms import histogram
from tfio_store.show.counting.roles import role_of, unit_of
from tfio_store.show.counting.tally import FeatureTally
from tfio_store.show.media.text import shown_value, visible
from tfio_store.show.model import FeatureFacts, Histogram, Top

__all__ = ["MOST_TOP", "facts_of_feature", "said", "shown_name", "top_of"]

Value = TypeVar("Value", int, bytes)

MOST_TOP = 20
_MOST_NAME = 200


def facts_of_feature(tally: FeatureTally, records: int, *, pixels: bool = False) -> FeatureFacts:
    """What to tell of a feature of so many records. ``pixels``: it holds images as raw bytes."""
    numbers = tally.numbers
    ordered = np.sort(numbers.values)
    mean, std = numbers.moments
    lengths = tally.strings.lengths if tally.strings.lengths.count else tally.counts
    length_mean = lengths.moments[0]
    return FeatureFacts(
        name=shown_name(tally.name),
        dtype=_dtype(tally),
        role="image" if pixels else role_of(tally),
        records=records,
        present=tally.present,
        values=tally.values,
        nans=numbers.nans,
        infinite=numbers.infinite,
        zeros=numbers.zeros,
        least=numbers.least,
        most=numbers.most,
        mean=mean,
        std=std,
        quantiles=quantiles(ordered),
        histogram=histogram(ordered),
        lengths=_lengths(lengths),
        length_least=int(lengths.least or 0),
        length_most=int(lengths.most or 0),
        length_mean=0.0 if length_mean is None else length_mean,
        distinct=_distinct(tally, ordered),
        top=top_of(tally),
        exact=numbers.exact and lengths.exact and tally.strings.exact,
        unit=unit_of(tally),
    )


def shown_name(name: str) -> str:
    """A feature's name, made harmless, and not longer than a line or two."""
    text = visible(name).replace("\n", "\\n").replace("\t", "\\t")
    return text if len(text) <= _MOST_NAME else text[: _MOST_NAME - 1] + "…"


def said(feature: Feature) -> str:
    """``float32 (3, 64, 64)``, ``class of 10``, ``jpeg image``."""
    kind = feature.kind
    if isinstance(kind, ClassLabel):
        said = f"class of {len(kind.names):,}"
    elif isinstance(kind, Image):
        said = f"{kind.encoding} image" if kind.encoding else "image"
    else:
        said = ("raw " * feature.raw) + feature.dtype
    shape = ", ".join("any" if dim is None else f"{dim:,}" for dim in feature.shape)
    said += f" [{shape}]" if feature.shape else ""
    said += ", steps" * feature.sequence + ", nullable" * feature.nullable
    return said


def _dtype(tally: FeatureTally) -> str:
    dtypes = [dtype for dtype, _ in tally.dtypes.most_common() if dtype != "none"]
    if not dtypes:
        return "none"
    feature = tally.feature
    if len(dtypes) == 1 and feature is not None and feature.wire == dtypes[0]:
        return feature.dtype
    return ", ".join(dtypes)


def _lengths(lengths: Held) -> Histogram | None:
    """None if all are one value each."""
    if lengths.least == lengths.most == 1:
        return None
    return histogram(lengths.values)


def _distinct(tally: FeatureTally, ordered: npt.NDArray[Any]) -> int | None:
    if tally.strings.lengths.count and not tally.numbers.count:
        counted = tally.strings.counted
        return None if counted is None or not tally.strings.exact else len(counted)
    if tally.numbers.exact:
        return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(ordered) > 0)
    return None if tally.classes is None else len(tally.classes)


def top_of(tally: FeatureTally) -> tuple[Top, ...]:
    """The values that occur most often, if any does twice."""
    strings = tally.strings
    if tally.classes and tally.numbers.count:
        names = _class_names(tally)
        return tuple(Top(_named(value, names), count) for value, count in _most(tally.classes))
    if strings.counted and strings.lengths.count:
        return tuple(
            Top(_text(strings.value_of(name), strings.is_digest(name)), count)
            for name, count in _most(strings.counted)
        )
    return ()


def _most(counted: Counter[Value]) -> list[tuple[Value, int]]:
    """Ties go by the value."""
    found = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:MOST_TOP]
    return found if found and (found[0][1] > 1 or len(counted) <= MOST_TOP) else []


def _text(value: bytes, cut: bool) -> str:
    text = shown_value(value)
    return text + "…" * (cut and not text.endswith("…"))


def _class_names(tally: FeatureTally) -> tuple[str, ...]:
    kind = None if tally.feature is None else tally.feature.kind
    return kind.names if isinstance(kind, ClassLabel) else ()


def _named(value: int, names: tuple[str, ...]) -> str:
    """``7``; of a class that has a name ``7 (ship)``."""
    if 0 <= value < len(names):
        return f"{value} ({visible(names[value])[:60]})"
    return str(value)

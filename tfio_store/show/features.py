"""The facts of one feature: what it is drawn as, its histogram, and all that was counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tfio_store.example.feature import ClassLabel, Feature, Image
from tfio_store.show.columns import class_shown, is_pixels
from tfio_store.show.model import FeatureFacts, Histogram, Top
from tfio_store.show.tally import FeatureTally
from tfio_store.tables.held_numbers import Held, quantiles
from tfio_store.tables.media_types import is_audio, is_image, shown_value, visible

# Bins of numbers, chosen so that a chart of them reads well.


_BINS = 40
_LONG = 200
"""If the largest of positive values is so many times the median, edges grow by a factor."""


def histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """The bins of finite values. Few integers get a bin each. None without values."""
    if not len(values):
        return None
    edges, log = _edges(values)
    with np.errstate(over="ignore", invalid="ignore"):
        counts, _ = np.histogram(values.astype(np.float64), edges)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), log)


def _edges(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], bool]:
    least, most = values.min().item(), values.max().item()
    whole = values.dtype.kind in "iu"
    if whole and most - least < _BINS:
        return np.arange(least, most + 2, dtype=object).astype(np.float64) - 0.5, False
    if least > 0 and most / max(float(np.median(values)), 1e-300) > _LONG:
        edges = np.geomspace(float(least), float(most), _BINS + 1)
        if np.isfinite(edges).all() and (np.diff(edges) > 0).all():
            return _holding(edges, float(least), float(most)), True
    if whole and most - least < 1 << 50:  # edges between integers, each bin of as many
        step = -(-(most - least + 1) // _BINS)
        count = -(-(most - least + 1) // step)
        return least - 0.5 + step * np.arange(count + 1, dtype=np.float64), False
    if float(most) == float(least):
        half = abs(float(least)) / 2 or 0.5
        return np.array([float(least) - half, float(least) + half]), False
    half_span = float(most) / 2 - float(least) / 2  # the span itself may be infinite
    if half_span * _BINS == 0 or np.nextafter(float(least), np.inf) == float(most):
        return np.array([float(least), float(most)]), False
    edges = float(least) + np.linspace(0, 1, _BINS + 1) * half_span
    edges += np.linspace(0, 1, _BINS + 1) * half_span
    edges = np.maximum.accumulate(edges)
    return _holding(edges, float(least), float(most)), False


def _holding(edges: npt.NDArray[np.float64], least: float, most: float) -> npt.NDArray[np.float64]:
    """The edges, whose ends are what rounding may have moved."""
    edges[0], edges[-1] = least, most
    return edges


# How a feature is drawn: as an image, a class, a text.


Role: TypeAlias = Literal["image", "audio", "text", "bytes", "class", "number", "time", "empty"]

_MOST_CLASSES = 1000
_MOST_WORDS = 100
_LONGEST_WORD = 64
_LEAST_EACH = 2
"""A value of classes comes as often as this, on average."""


def role_of(tally: FeatureTally) -> Role:
    """By the schema if it says it, and else by the values."""
    kind = None if tally.feature is None else tally.feature.kind
    if not tally.values:
        return "empty"
    if tally.dtype == "bytes" and not tally.numbers.count + tally.numbers.nans:
        return _of_strings(tally)
    if unit_of(tally):
        return "time"
    if isinstance(kind, ClassLabel) or (_are_classes(tally) and not _are_durations(tally)):
        return "class"
    return "number"


def unit_of(tally: FeatureTally) -> str:
    """numpy's unit of times, as "ms"; "" of other values."""
    feature = tally.feature
    if feature is None or not feature.dtype.startswith("datetime64["):
        return ""
    return feature.dtype.removeprefix("datetime64[").removesuffix("]")


def _are_durations(tally: FeatureTally) -> bool:
    return tally.feature is not None and tally.feature.dtype.startswith("timedelta64")


def _of_strings(tally: FeatureTally) -> Role:
    strings, values = tally.strings, tally.strings.given
    images = sum(n for found, n in strings.media.items() if is_image(found))
    audio = sum(n for found, n in strings.media.items() if is_audio(found))
    feature = tally.feature
    if isinstance(getattr(feature, "kind", None), Image) or is_pixels(feature):
        return "image"
    if 2 * images >= values:
        return "image"
    if 2 * audio >= values:
        return "audio"
    declared = feature is not None and feature.dtype == "str"
    if not declared and 10 * strings.texts < 8 * max(1, strings.looked_at):
        return "bytes"
    return "class" if _are_words(tally) else "text"


def _are_words(tally: FeatureTally) -> bool:
    """Whether a few short texts come again and again."""
    counted, most = tally.strings.counted, tally.strings.lengths.most
    if counted is None or most is None or most > _LONGEST_WORD or not tally.singles:
        return False
    return 1 <= len(counted) <= _MOST_WORDS and len(counted) * _LEAST_EACH <= tally.values


def _are_classes(tally: FeatureTally) -> bool:
    """Whether integers look like the numbers of classes: from 0 or 1 on, nearly all of them, each
    more than once. (Sizes and ages do not begin there.)"""
    found = tally.classes
    if found is None or not 1 < len(found) <= _MOST_CLASSES or not tally.singles:
        return False
    least, most = min(found), max(found)
    if least not in (-1, 0, 1) or len(found) * _LEAST_EACH > tally.values:
        return False
    return most - least < 2 * len(found) + 2


# The facts of one feature, from all that was counted.


Value = TypeVar("Value", int, bytes)

MOST_TOP = 20
_MOST_NAME = 200


def facts_of_feature(tally: FeatureTally, records: int, *, pixels: bool = False) -> FeatureFacts:
    """The facts about a feature of so many records. ``pixels``: it holds images as raw bytes."""
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
        return tuple(
            Top(class_shown(value, tally.feature), count) for value, count in _most(tally.classes)
        )
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

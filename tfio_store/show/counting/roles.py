"""What a feature is drawn as: an image, a class, a text."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tfio_store.example.kinds import ClassLabel, Image
from tfio_store.show.counting.tally import FeatureTally, is_pixels
from tfio_store.show.media.media_types import is_audio, is_image

__all__ = ["Role", "role_of", "unit_of"]

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

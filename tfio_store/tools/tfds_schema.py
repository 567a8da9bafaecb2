"""Joins what records show of their features with what TensorFlow Datasets wrote of them."""

from __future__ import annotations

from dataclasses import replace

from tfio_store.dataset.tfds_features import tfds_features
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.storage import Access

__all__ = ["described"]


def described(schema: Schema, source: object, access: Access) -> Schema:
    """The schema of a source's records, with the dtypes, shapes and kinds of its ``features.json``,
    if it has one. Where records show another thing, they count."""
    told = tfds_features(source, access)
    if not told:
        return schema
    return Schema(
        {name: _joined(seen, told[name]) if name in told else seen for name, seen in schema.items()}
    )


def _joined(seen: Feature, told: Feature) -> Feature:
    if seen.wire != told.wire or seen.sequence:
        return seen
    return replace(seen, dtype=told.dtype, shape=_shape(seen, told), kind=told.kind)


def _shape(seen: Feature, told: Feature) -> tuple[int | None, ...]:
    """Records show numbers of values only, and the first of them may have the same by chance."""
    if told.kind is not None or seen.nested:
        return seen.shape
    if told.shape == (None,) and not seen.ragged:
        return (None,)
    fits = not seen.ragged and not told.ragged and seen.width == told.width
    return told.shape if fits else seen.shape

"""The one feature of a column, parts of which have two: what records of both can be read by."""

from __future__ import annotations

from dataclasses import replace

from tfio_store.example.feature import Feature

__all__ = ["common_feature"]

Shape = tuple[int | None, ...]


def common_feature(
    known: Feature, new: Feature, *, known_open: bool = False, new_open: bool = False
) -> Feature | None:
    """The feature; None if there is none. Lists that are not of one length are of any.

    An open feature tells of nulls and of lists without values alone: records have no type there, or
    lack the feature, and any that takes such lists will do.
    """
    nullable = known.nullable or new.nullable
    if known_open or new_open:
        told, other = (new, known) if known_open else (known, new)
        both_open = known_open and new_open
        shape = _deeper(told.shape, other.shape) if both_open else _of_lists(told, other.shape)
        return None if shape is None else replace(told, shape=shape, nullable=nullable)
    known, new = replace(known, nullable=nullable), replace(new, nullable=nullable)
    if known == new:
        return known
    if known.sequence or replace(known, shape=()) != replace(new, shape=()):
        return None
    if not (_varies(known.shape) and _varies(new.shape)) or known.shape[1:] != new.shape[1:]:
        return None
    return replace(known, shape=(None, *known.shape[1:]))


def _deeper(shape: Shape, other: Shape) -> Shape:
    """That of lists of more levels. None of them holds a value."""
    return max(shape, other, key=len)


def _of_lists(told: Feature, lists: Shape) -> Shape | None:
    """The shape of what was told, with lists without values among its rows."""
    if not lists or told.shape == lists:
        return told.shape
    if len(lists) > 1 or told.sequence or not (told.nested or _varies(told.shape)):
        return None
    return (None, *told.shape[1:])


def _varies(shape: Shape) -> bool:
    """Whether rows may have any length, so that each holds its values alike."""
    return len(shape) > 0 and None not in shape[1:] and 0 not in shape[1:]

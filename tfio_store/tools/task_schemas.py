"""The schemas that tasks of one job have found, and the one of them all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfio_store.example.arrow_types import united
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema

__all__ = ["TaskSchema", "joined_schema"]


@dataclass(frozen=True, slots=True)
class TaskSchema:
    """What one task's rows show of the columns."""

    schema: Schema
    undecided: tuple[str, ...] = ()
    """Columns of nulls alone, which tell no type."""

    def to_json(self) -> dict[str, Any]:
        return {"schema": self.schema.to_json(), "undecided": sorted(self.undecided)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TaskSchema:
        return cls(Schema.from_json(document["schema"]), tuple(document["undecided"]))


def joined_schema(told: Iterable[TaskSchema]) -> Schema:
    """The schema of the rows of all tasks, with the columns in the order of the first one. A column
    that one task has nulls in is nullable, and lists that are not of one length are of any.

    ValueError if tasks have other columns, or a column has another type in each.
    """
    features: dict[str, Feature] = {}
    undecided: set[str] = set()
    arrow: bytes | None = None
    for each in _different(told):
        if not features:
            features, undecided = dict(each.schema), set(each.undecided)
            arrow = each.schema.arrow
            continue
        _check_names(features, each.schema)
        for name, new in each.schema.items():
            features[name] = _of_both(
                name, features[name], new, name in undecided, name in each.undecided
            )
        undecided &= set(each.undecided)
        arrow = _types_of_both(arrow, each.schema.arrow)
    return Schema(features, arrow=arrow)


def _different(told: Iterable[TaskSchema]) -> Iterable[TaskSchema]:
    """Each schema once. Thousands of tasks have the same."""
    return {json.dumps(each.to_json(), sort_keys=True): each for each in told}.values()


def _check_names(known: Mapping[str, Feature], new: Mapping[str, Feature]) -> None:
    odd = sorted(set(known) ^ set(new))
    if odd:
        raise ValueError(f"all tasks must write the same columns; only some of them have {odd}")


def _of_both(name: str, known: Feature, new: Feature, known_open: bool, new_open: bool) -> Feature:
    nullable = known.nullable or new.nullable
    if known_open or new_open:
        return replace(new if known_open else known, nullable=nullable)
    found, other = replace(known, nullable=nullable), replace(new, nullable=nullable)
    if found == other:
        return found
    if _are_lists(known, new) and replace(found, shape=(None,)) == replace(other, shape=(None,)):
        return replace(found, shape=(None,))
    raise ValueError(
        f"feature {name!r} is {known} in what one task wrote, and {new} in what another did; "
        "schema= can give it one type, or give the engine's column one"
    )


def _are_lists(*features: Feature) -> bool:
    """Whether records hold them as plain lists, however many values these have."""
    return all(
        len(feature.shape) == 1 and not feature.raw and not feature.sequence for feature in features
    )


def _types_of_both(known: bytes | None, new: bytes | None) -> bytes | None:
    if known is None or new is None or known == new:
        return known or new
    return united(known, new)

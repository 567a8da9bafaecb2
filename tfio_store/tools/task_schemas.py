"""The schemas that tasks of one job have found, and the one of them all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfio_store.example.arrow_types import united, without_open
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema
from tfio_store.tools.common_feature import common_feature

__all__ = ["TaskSchema", "joined_schema"]


@dataclass(frozen=True, slots=True)
class TaskSchema:
    """What one task's rows show of the columns."""

    schema: Schema
    undecided: tuple[str, ...] = ()
    """Columns of nulls and of lists without values alone, which tell no type."""

    def to_json(self) -> dict[str, Any]:
        return {"schema": self.schema.to_json(), "undecided": sorted(self.undecided)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TaskSchema:
        return cls(Schema.from_json(document["schema"]), tuple(document["undecided"]))


def joined_schema(told: Iterable[tuple[str, TaskSchema]]) -> Schema | None:
    """The schema of the rows of all tasks, each of which has a name for errors. The columns are in
    the order of the first one. A column that one task has nulls in is nullable, and lists that are
    not of one length are of any. None of no tasks.

    ValueError if tasks have other columns, or a column has another type in each. TypeError if its
    Arrow type is of another kind.
    """
    joined: _Joined | None = None
    for task, each in _different(told):
        if joined is None:
            joined = _Joined.of(task, each)
        else:
            joined.add(task, each)
    return None if joined is None else joined.schema


def _different(told: Iterable[tuple[str, TaskSchema]]) -> Iterable[tuple[str, TaskSchema]]:
    """Each schema once, of the first task that tells it. Thousands of tasks have the same."""
    found: dict[str, tuple[str, TaskSchema]] = {}
    for task, each in told:
        found.setdefault(json.dumps(each.to_json(), sort_keys=True), (task, each))
    return found.values()


@dataclass
class _Joined:
    """What all tasks so far have in common."""

    first: str
    features: dict[str, Feature]
    undecided: set[str]
    arrow: bytes | None
    told_by: dict[str, str] = field(default_factory=dict)
    """Which task has decided a column that the first one has not."""

    @classmethod
    def of(cls, task: str, each: TaskSchema) -> _Joined:
        return cls(task, dict(each.schema), set(each.undecided), each.schema.arrow)

    def add(self, task: str, each: TaskSchema) -> None:
        self._check_names(task, each.schema)
        for name, new in each.schema.items():
            new_open = name in each.undecided
            known_open = name in self.undecided
            both = common_feature(
                self.features[name], new, known_open=known_open, new_open=new_open
            )
            if both is None:
                raise self._two_types(name, task, new, new_open)
            self.features[name] = both
            if known_open and not new_open:
                self.undecided.remove(name)
                self.told_by[name] = task
        self._add_arrow(task, each.schema.arrow)

    @property
    def schema(self) -> Schema:
        decided = self.features.keys() - self.undecided
        types = self.arrow and without_open(self.arrow, decided)
        return Schema(self.features, arrow=types)

    def _check_names(self, task: str, new: Mapping[str, Feature]) -> None:
        for have, lack in ((self.features, new), (new, self.features)):
            odd = sorted(set(have) - set(lack))
            if odd:
                has, lacks = (self.first, task) if lack is new else (task, self.first)
                raise ValueError(
                    f"all tasks must write the same columns; {has} has {odd}, and {lacks} has not"
                )

    def _two_types(self, name: str, task: str, new: Feature, is_open: bool) -> ValueError:
        known = self.features[name]
        texts = [_text(known, name in self.undecided), _text(new, is_open)]
        if texts[0] == texts[1]:
            texts = [str(known), str(new)]
        return ValueError(
            f"feature {name!r} is {texts[0]} in what {self.told_by.get(name, self.first)} wrote, "
            f"and {texts[1]} in what {task} wrote; schema= can give it one type, or give the "
            "engine's column one"
        )

    def _add_arrow(self, task: str, new: bytes | None) -> None:
        if self.arrow is None or new is None or self.arrow == new:
            self.arrow = self.arrow or new
            return
        try:
            self.arrow = united(self.arrow, new)
        except TypeError as error:
            raise TypeError(
                f"{error}; {task} wrote the part, and the earlier ones begin with {self.first}; "
                "give the engine's column one type"
            ) from None


def _text(feature: Feature, is_open: bool) -> str:
    if is_open:
        return f"lists of shape {feature.shape} without values" if feature.shape else "null"
    return feature.dtype + (f" of shape {feature.shape}" if feature.shape else "")

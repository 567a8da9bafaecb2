"""The schema of a table that comes in parts, from one process or from the tasks of a job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.example.arrow_types import united, without_open
from tfio_store.example.codec import is_example
from tfio_store.example.feature import Feature
from tfio_store.example.learned import is_narrowed, schema_of, undecided
from tfio_store.example.ragged import Nullable, Ragged, apart
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.records.texts import unknown, warn
from tfio_store.tables.table_parts import Part

# The one feature of a column, parts of which have two: what records of both can be read by.


Shape = tuple[int | None, ...]


def common_feature(
    known: Feature, new: Feature, *, known_open: bool = False, new_open: bool = False
) -> Feature | None:
    """The feature; None if there is none. Lists that are not of one length are of any.

    An open feature stands for nulls and lists without values alone: records have no type there, or
    lack the feature, and any that takes such lists will do.
    """
    nullable = known.nullable or new.nullable
    if known_open or new_open:
        closed, other = (new, known) if known_open else (known, new)
        both_open = known_open and new_open
        shape = _deeper(closed.shape, other.shape) if both_open else _of_lists(closed, other.shape)
        return None if shape is None else replace(closed, shape=shape, nullable=nullable)
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


def _of_lists(closed: Feature, lists: Shape) -> Shape | None:
    """The shape of a known feature, with lists without values among its rows."""
    if not lists or closed.shape == lists:
        return closed.shape
    if len(lists) > 1 or closed.sequence or not (closed.nested or _varies(closed.shape)):
        return None
    return (None, *closed.shape[1:])


def _varies(shape: Shape) -> bool:
    """Whether rows may have any length, so that each holds its values alike."""
    return len(shape) > 0 and None not in shape[1:] and 0 not in shape[1:]


# The schema of a table that comes in parts.


def kept_features(kept: DatasetManifest | None) -> Mapping[str, Feature]:
    """The features of the records of the dataset to append to."""
    if kept is None or not kept.records or kept.schema is None:
        return {}
    found = Schema.from_json(kept.schema)
    return {name: found[name] for name in found if found[name].dtype != "unknown"}


class TableSchema:
    """The chosen features, for other columns those of the dataset to append to, and for the rest
    what `schema_of` says, ``exact`` or not. A column of nulls and of lists without values is
    undecided until a part has values: records say nothing of its type.
    """

    def __init__(
        self, first: Part, chosen: Schema, kept: Mapping[str, Feature], *, exact: bool
    ) -> None:
        for name in chosen:
            if name not in first.columns:
                raise ValueError(
                    f"schema= names {name!r}: {unknown('column', name, first.columns)}"
                )
        self._chosen = chosen
        self._exact = exact
        self.narrowed: set[str] = set()
        """The columns of floats that come back as float32."""
        self._free = first.columns.keys() - {*kept, *chosen}
        known = {**_kinds(first), **kept, **chosen}
        self.undecided = {
            name for name in first.columns.keys() - known.keys() if self._told(first, name) is None
        }
        rest = {name: column for name, column in first.columns.items() if name not in known}
        shown = schema_of(rest, exact=exact)
        known |= {name: self._told(first, name) or feature for name, feature in shown.items()}
        self.now = Schema({name: known[name] for name in first.columns})
        """The schema, as the parts so far show it."""

    @property
    def without_types(self) -> set[str]:
        """The columns that do not come back in the types that they have: those of a chosen type,
        and those of a kind, whose names become numbers."""
        kinds = {name for name, feature in self.now.items() if feature.kind is not None}
        return {*self._chosen, *kinds}

    @property
    def exact(self) -> set[str]:
        """The columns whose values must not change."""
        return self._unchosen - self.narrowed

    @property
    def _unchosen(self) -> set[str]:
        return set(self.now) - set(self._chosen)

    def heed(self, part: Part) -> None:
        """Decide what was undecided, take lists of any length where the part has another one, and
        allow nulls where it has some that nothing rules out. Warn of what float32 rounds."""
        changed = {}
        for name in self._unchosen & part.columns.keys():
            feature = self._of_both(name, part) if name in self._free else self.now[name]
            nullable = feature.nullable or isinstance(part.columns[name], Nullable)
            changed[name] = replace(feature, nullable=nullable)
        self.now = Schema({**self.now, **changed})
        self._refuse_examples(part)
        self._tell_narrowed(part)

    def _refuse_examples(self, part: Part) -> None:
        """ValueError for a column of records that was not meant to be a feature."""
        for name in self._free & part.columns.keys():
            if is_example(_first(part.columns[name])):
                raise ValueError(
                    f"column {name!r} holds serialized Examples, and would be a feature of another "
                    'Example. schema="bytes" writes them as the records that they are; '
                    f'schema={{{name!r}: "bytes"}} writes the feature all the same. To write their '
                    'features, read them as columns: schema="auto", where they come from'
                )

    def _tell_narrowed(self, part: Part) -> None:
        """Once for each column. Where they are to be exact, what would change is an error."""
        if self._exact:
            return
        found = {
            name
            for name in self.exact & part.columns.keys()
            if self.now[name].dtype == "float32" and is_narrowed(part.columns[name])
        }
        if not found:
            return
        self.narrowed |= found
        names = sorted(found)
        which = f"column{'s' * (len(names) > 1)} {', '.join(map(repr, names))}"
        warn(
            f"float64 is stored as float32, which TensorFlow reads, in {which}; "
            f"schema={{{names[0]!r}: 'float64'}} keeps one exactly, exact=True all of them, and "
            f"schema={{{names[0]!r}: 'float32'}} says that float32 will do"
        )

    def _of_both(self, name: str, part: Part) -> Feature:
        """The feature of the part's rows and of earlier ones. What fits no such feature is an error
        when it is encoded."""
        known, is_open = self.now[name], name in self.undecided
        if not is_open and (known.ragged or not known.shape):
            return known
        new = self._told(part, name)
        shown = self._shown(part, name) if new is None else new
        both = common_feature(known, shown, known_open=is_open, new_open=new is None)
        if both is None:
            return known
        if new is not None:
            self.undecided.discard(name)
        return both

    def _told(self, part: Part, name: str) -> Feature | None:
        """The feature of a column in the part: None if it shows none."""
        column = part.columns[name]
        if not undecided(column):
            return self._shown(part, name)
        found = part.features.get(name)
        if found is None:
            return None
        return replace(found, default=None, nullable=isinstance(column, Nullable))

    def _shown(self, part: Part, name: str) -> Feature:
        return schema_of({name: part.columns[name]}, exact=self._exact)[name]

    def untyped(self, part: Part) -> set[str]:
        """The columns of the part whose lists have no values, and whose type is unknown
        yet."""
        names = self.undecided & part.columns.keys()
        return {name for name in names if isinstance(apart(part.columns[name])[0], Ragged)}


def _first(column: Any) -> Any:
    """The first byte string of a column, if it is a column of those."""
    values, valid = apart(column)
    while isinstance(values, Ragged):
        values, valid = values.values, None
    if not isinstance(values, RecordBatch | list) or not len(values):
        return None
    return values[0 if valid is None else int(valid.argmax())]


def _kinds(part: Part) -> dict[str, Feature]:
    """The features of decoded columns that have a kind."""
    return {
        name: replace(feature, default=None, nullable=isinstance(part.columns[name], Nullable))
        for name, feature in part.features.items()
        if feature.kind is not None and name in part.columns
    }


# The schemas that tasks of one job have found, and the one of them all.


@dataclass(frozen=True, slots=True)
class TaskSchema:
    """The columns as one task's rows show them."""

    schema: Schema
    undecided: tuple[str, ...] = ()
    """Columns of nulls and of lists without values alone, which have no type."""

    def to_json(self) -> dict[str, Any]:
        return {"schema": self.schema.to_json(), "undecided": sorted(self.undecided)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> TaskSchema:
        return cls(Schema.from_json(document["schema"]), tuple(document["undecided"]))


def joined_schema(tasks: Iterable[tuple[str, TaskSchema]]) -> Schema | None:
    """The schema of the rows of all tasks, each of which has a name for errors. The columns are in
    the order of the first one. A column that one task has nulls in is nullable, and lists that are
    not of one length are of any. None of no tasks.

    ValueError if tasks have other columns, or a column has another type in each. TypeError if its
    Arrow type is of another kind.
    """
    different = list(_different(tasks))
    if not different:
        return None
    joined = _Joined(*different[0])
    for task, each in different[1:]:
        joined.add(task, each)
    return joined.schema


def _different(tasks: Iterable[tuple[str, TaskSchema]]) -> Iterable[tuple[str, TaskSchema]]:
    """Each schema once, of the first task that has it. Thousands of tasks have the same."""
    found: dict[str, tuple[str, TaskSchema]] = {}
    for task, each in tasks:
        found.setdefault(json.dumps(each.to_json(), sort_keys=True), (task, each))
    return found.values()


class _Joined:
    """The schema that all tasks so far share."""

    def __init__(self, first: str, each: TaskSchema) -> None:
        self.first = first
        self.features = dict(each.schema)
        self.undecided = set(each.undecided)
        self.arrow = each.schema.arrow
        self.told_by: dict[str, str] = {}
        """Which task has decided a column that the first one has not."""

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

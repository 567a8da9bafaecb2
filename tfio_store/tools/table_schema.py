"""The schema of a table that comes in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.example.columns import schema_of, undecided
from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable, apart
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.tools.common_feature import common_feature
from tfio_store.tools.table_parts import Part

__all__ = ["TableSchema", "kept_features"]


def kept_features(kept: DatasetManifest | None) -> Mapping[str, Feature]:
    """What is known of the records of the dataset to append to."""
    if kept is None or not kept.records or kept.schema is None:
        return {}
    return Schema.from_json(kept.schema)


class TableSchema:
    """The chosen features, for other columns those of the dataset to append to, and for the rest
    what keeps them exactly. A column of nulls and of lists without values is undecided until a part
    has values: records say nothing of its type.
    """

    def __init__(self, first: Part, chosen: Schema, kept: Mapping[str, Feature]) -> None:
        for name in chosen:
            if name not in first.columns:
                raise ValueError(f"schema= names {name!r}, which is no column")
        self._chosen = chosen
        self._free = first.columns.keys() - {*kept, *chosen}
        known = {**_kinds(first), **kept, **chosen}
        self.undecided = {
            name for name in first.columns.keys() - known.keys() if _told(first, name) is None
        }
        rest = {name: column for name, column in first.columns.items() if name not in known}
        known |= {name: _told(first, name) or feature for name, feature in schema_of(rest).items()}
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
        """The columns that nobody has chosen a type for."""
        return set(self.now) - set(self._chosen)

    def heed(self, part: Part) -> None:
        """Decide what was undecided, take lists of any length where the part has another one, and
        allow nulls where it has some that nobody has ruled out."""
        changed = {}
        for name in self.exact & part.columns.keys():
            feature = self._of_both(name, part) if name in self._free else self.now[name]
            nullable = feature.nullable or isinstance(part.columns[name], Nullable)
            changed[name] = replace(feature, nullable=nullable)
        self.now = Schema({**self.now, **changed})

    def _of_both(self, name: str, part: Part) -> Feature:
        """The feature of the part's rows and of earlier ones. What fits no such feature is told of
        when it is encoded."""
        known, is_open = self.now[name], name in self.undecided
        if not is_open and (known.ragged or not known.shape):
            return known
        new = _told(part, name)
        shown = schema_of({name: part.columns[name]})[name] if new is None else new
        both = common_feature(known, shown, known_open=is_open, new_open=new is None)
        if both is None:
            return known
        if new is not None:
            self.undecided.discard(name)
        return both

    def untyped(self, part: Part) -> set[str]:
        """The columns of the part whose lists have no values, and of which nobody knows the type
        yet."""
        names = self.undecided & part.columns.keys()
        return {name for name in names if isinstance(apart(part.columns[name])[0], Ragged)}


def _kinds(part: Part) -> dict[str, Feature]:
    """The features of decoded columns that have a kind."""
    return {
        name: replace(feature, default=None, nullable=isinstance(part.columns[name], Nullable))
        for name, feature in part.features.items()
        if feature.kind is not None and name in part.columns
    }


def _told(part: Part, name: str) -> Feature | None:
    """What the part tells of a column: None if that is nothing."""
    column = part.columns[name]
    if not undecided(column):
        return schema_of({name: column})[name]
    found = part.features.get(name)
    if found is None:
        return None
    return replace(found, default=None, nullable=isinstance(column, Nullable))

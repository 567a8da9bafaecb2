"""The schema of a table that comes in parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.example.codec import is_example
from tfio_store.example.columns import is_narrowed, schema_of, undecided
from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable, apart
from tfio_store.example.ragged import Ragged
from tfio_store.example.schema import Schema
from tfio_store.records.framing import RecordBatch
from tfio_store.records.warning import warn
from tfio_store.tools.common_feature import common_feature
from tfio_store.tools.table_parts import Part

__all__ = ["TableSchema", "kept_features"]


def kept_features(kept: DatasetManifest | None) -> Mapping[str, Feature]:
    """What is known of the records of the dataset to append to."""
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
                raise ValueError(f"schema= names {name!r}, which is no column")
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
        allow nulls where it has some that nobody has ruled out. Warn of what float32 rounds."""
        changed = {}
        for name in self._unchosen & part.columns.keys():
            feature = self._of_both(name, part) if name in self._free else self.now[name]
            nullable = feature.nullable or isinstance(part.columns[name], Nullable)
            changed[name] = replace(feature, nullable=nullable)
        self.now = Schema({**self.now, **changed})
        self._refuse_examples(part)
        self._tell_narrowed(part)

    def _refuse_examples(self, part: Part) -> None:
        """ValueError for a column of records that nobody chose to write as a feature."""
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
        """The feature of the part's rows and of earlier ones. What fits no such feature is told of
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
        """What the part tells of a column: None if that is nothing."""
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
        """The columns of the part whose lists have no values, and of which nobody knows the type
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

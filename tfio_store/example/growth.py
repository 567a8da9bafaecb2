"""The one schema of a dataset and of what is appended to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tfio_store.example.arrow_types import united
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema

_WIDE = ("int64", "float32", "float64", "bytes", "unknown")

_REMEDY = "write it with the dataset's type, or under another name, or overwrite the dataset"


def grown(kept: Schema, new: Schema, *, learned: bool = False) -> Schema:
    """The schema of old and new records: the dataset's features, and behind them those that it
    lacks. A feature that one part lacks becomes `optional`.

    A feature that both have keeps its dtype and its shape, but (None, ...) of the dataset takes
    rows of one length too. Nulls may come in, and a default where there was none. ``learned``:
    ``new`` was learned of mappings, which show wire types and lengths alone. Then the dataset's
    dtype counts, and lists that are not of one length are of any.

    ValueError names a feature that no schema describes in both. TypeError where Arrow types differ.
    """
    features = {}
    for name in dict.fromkeys([*kept, *new]):
        if name in kept and name in new:
            of_both = _widened if learned else _of_both
            features[name] = of_both(name, kept[name], new[name])
        else:
            features[name] = optional(kept[name] if name in kept else new[name])
    return Schema(features, arrow=_arrow_types(features, kept, new))


def grown_json(kept: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """The same for schemas in a manifest's form, which says whether they were learned."""
    learned = bool(new.get("learned"))
    both = grown(Schema.from_json(kept), Schema.from_json(new), learned=learned).to_json()
    return {**both, "learned": True} if learned and kept.get("learned") else both


def optional(feature: Feature) -> Feature:
    """The feature of records some of which lack it: they hold its default, or else a null."""
    return feature if feature.default is not None else replace(feature, nullable=True)


def values_of(schema: Schema) -> Schema:
    """The features that do not take every value of their wire type, for any number of values."""
    found = {}
    for name, feature in schema.items():
        wide = feature.dtype in _WIDE or feature.dtype.startswith(("datetime64", "timedelta64"))
        if (wide and not feature.raw) or feature.nested or feature.sequence:
            continue
        shape = feature.shape if feature.raw else (None,)
        found[name] = Feature(feature.dtype, shape, raw=feature.raw, nullable=True)
    return Schema(found)


def _arrow_types(features: Mapping[str, Feature], *parts: Schema) -> bytes | None:
    """The Arrow types of the parts that have some, but for those of other shapes than all rows."""
    known = {
        part.arrow: None
        for part in parts
        if part.arrow is not None and all(features[name].shape == part[name].shape for name in part)
    }
    types = list(known)
    return united(*types) if len(types) > 1 else types[0] if types else None


def _widened(name: str, known: Feature, new: Feature) -> Feature:
    """The feature of both parts, where the new one was learned or never had a value."""
    nullable = known.nullable or (new.nullable and known.default is None)
    if known.sequence != new.sequence:
        raise _two_kinds(name, known, new)
    if known.dtype == "unknown" or new.dtype == "unknown":
        found, other = (new, known) if known.dtype == "unknown" else (known, new)
        shape = found.shape if found.ragged or not other.shape else (None,)
        return replace(found, shape=shape, nullable=nullable)
    if known.wire != new.wire or ("64[" in new.dtype and new.dtype != known.dtype):
        raise ValueError(
            f"feature {name!r} is {known.dtype} in the dataset, and {new.dtype} in what is "
            f"appended; {_REMEDY}"
        )
    if known.raw or known.kind is not None or known.shape == new.shape:
        return replace(known, nullable=nullable)
    if not known.ragged and not new.ragged and known.width == new.width:
        shape = known.shape if len(known.shape) >= len(new.shape) else new.shape
    elif known.nested or new.nested:
        raise ValueError(
            f"feature {name!r} has the shape {known.shape} in the dataset, and {new.shape} in "
            f"what is appended; {_REMEDY}"
        )
    else:
        alike = len(known.shape) == len(new.shape) and known.shape[1:] == new.shape[1:]
        shape = (None, *known.shape[1:]) if alike else (None,)
    default = None if None in shape else known.default
    return replace(known, shape=shape, nullable=nullable, default=default)


def _of_both(name: str, kept: Feature, new: Feature) -> Feature:
    if "unknown" in (kept.dtype, new.dtype):
        return _widened(name, kept, new)
    nullable = kept.nullable or new.nullable
    shape = kept.shape if _takes_rows_of(kept, new) else new.shape
    bare = [
        replace(kept, nullable=nullable, default=None),
        replace(new, nullable=nullable, default=None, shape=shape),
    ]
    if bare[0] != bare[1] or _means_another(kept, new):
        raise _two_kinds(name, kept, new)
    default = kept.default if kept.default is not None else new.default
    return replace(kept, nullable=nullable, default=default)


def _two_kinds(name: str, kept: Feature, new: Feature) -> ValueError:
    return ValueError(
        f"feature {name!r} is {kept} in the dataset, and {new} in what is appended; {_REMEDY}"
    )


def _takes_rows_of(kept: Feature, new: Feature) -> bool:
    """Whether the dataset's rows may have any length, and the new ones have one. Nested rows have
    their lengths in their records, and a feature without a length has no default."""
    free = kept.ragged and not kept.nested and new.default is None
    return free and kept.shape[1:] == new.shape[1:]


def _means_another(kept: Feature, new: Feature) -> bool:
    """Whether records without the feature mean a value, and another one in each part. Those of
    nullable features mean a null, and a default is but a way to read it."""
    if kept.default is None or new.default is None or (kept.nullable and new.nullable):
        return False
    known, other = kept.to_json(), new.to_json()
    return bool(known["default"] != other["default"])  # where a NaN equals itself

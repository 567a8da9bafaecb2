"""The one schema of a dataset and of what is appended to it."""

from __future__ import annotations

from dataclasses import replace

from tfio_store.example.arrow_types import united
from tfio_store.example.feature import Feature
from tfio_store.example.learned import wider
from tfio_store.example.schema import Schema

__all__ = ["appended"]


def appended(kept: Schema, new: Schema) -> Schema:
    """The schema of old and new records, in the old order.

    Only nulls may come in, and defaults where there was none. ValueError where features differ
    otherwise, since old or new records could then not be read; TypeError where Arrow types do.
    """
    for name in sorted(set(kept) ^ set(new)):
        lacks, has = ("dataset", "new part") if name in new else ("new part", "dataset")
        raise ValueError(
            f"feature {name!r}: the {has} has it, and the {lacks} does not; what is appended must "
            "have the same features"
        )
    features = {name: _of_both(name, kept[name], new[name]) for name in kept}
    if kept.arrow is None and any(features[name].shape != new[name].shape for name in new):
        return Schema(features)  # the new part's Arrow types do not hold what was there
    if kept.arrow is None or new.arrow in (None, kept.arrow):
        return Schema(features, arrow=kept.arrow or new.arrow)
    return Schema(features, arrow=united(kept.arrow, new.arrow))


def _of_both(name: str, kept: Feature, new: Feature) -> Feature:
    if "unknown" in (kept.dtype, new.dtype):
        return wider(name, kept, new)
    nullable = kept.nullable or new.nullable
    bare = [replace(feature, nullable=nullable, default=None) for feature in (kept, new)]
    if bare[0] != bare[1] or _means_another(kept, new):
        raise ValueError(
            f"feature {name!r} is {kept} in the dataset, and {new} in what is appended; write it "
            "with the dataset's type, or overwrite the dataset"
        )
    return replace(kept if kept.default is not None else new, nullable=nullable)


def _means_another(kept: Feature, new: Feature) -> bool:
    """Whether records without the feature mean a value, and another one in each part. Those of
    nullable features mean a null, and a default is but a way to read it."""
    if kept.default is None or new.default is None or (kept.nullable and new.nullable):
        return False
    known, other = kept.to_json(), new.to_json()
    return bool(known["default"] != other["default"])  # where a NaN equals itself

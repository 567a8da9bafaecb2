"""The one schema of a dataset and of what is appended to it."""

from __future__ import annotations

from dataclasses import replace

from tfio_store.example.arrow_types import united
from tfio_store.example.feature import Feature
from tfio_store.example.schema import Schema

__all__ = ["appended"]


def appended(kept: Schema, new: Schema) -> Schema:
    """The schema of old and new records, in the old order.

    Only nulls may come in. ValueError where features differ otherwise, since old or new records
    could then not be read; TypeError where Arrow types do.
    """
    for name in sorted(set(kept) ^ set(new)):
        lacks, has = ("dataset", "new part") if name in new else ("new part", "dataset")
        raise ValueError(
            f"feature {name!r}: the {has} has it, and the {lacks} does not; what is appended must "
            "have the same features"
        )
    features = {name: _of_both(name, kept[name], new[name]) for name in kept}
    if kept.arrow is None or new.arrow in (None, kept.arrow):
        return Schema(features, arrow=kept.arrow or new.arrow)
    return Schema(features, arrow=united(kept.arrow, new.arrow))


def _of_both(name: str, kept: Feature, new: Feature) -> Feature:
    nullable = kept.nullable or new.nullable
    both = [replace(feature, nullable=nullable) for feature in (kept, new)]
    if both[0].to_json() != both[1].to_json():  # where a NaN as default equals itself
        raise ValueError(
            f"feature {name!r} is {kept} in the dataset, and {new} in what is appended; write it "
            "with the dataset's type, or overwrite the dataset"
        )
    return both[0]

"""Makes columns of the feature lists of a batch of SequenceExamples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tfio_store.errors import SchemaError
from tfio_store.example.decoding import decode_column
from tfio_store.example.decoding_nulls import null_fill
from tfio_store.example.feature import Feature
from tfio_store.example.nullable import Nullable
from tfio_store.example.ragged import Ragged
from tfio_store.records.framing import RecordBatch

__all__ = ["check_apart", "decode_feature_list", "decode_steps"]


def check_apart(context: Mapping[str, Feature], steps: Mapping[str, Feature]) -> None:
    """ValueError unless ``steps`` are features of single steps, and ``context`` has no feature
    list."""
    for name in [name for name, feature in (*context.items(), *steps.items()) if feature.sequence]:
        raise ValueError(
            f"feature {name!r}: sequence=True is for the one schema of decode_examples; here "
            "feature_lists= tells what a step holds"
        )
    for name, feature in steps.items():
        if feature.nested:
            raise ValueError(f"feature {name!r}: a step has at most one variable dimension")
        if feature.nullable:
            raise ValueError(f"feature {name!r}: a step of a feature list is never null")


def decode_feature_list(
    spans: Any, column: int, feature: Feature, buffer: Any, strings: str, nulls: str
) -> Any:
    """A `Ragged` of a row of steps for each record. A `Nullable` of one, if the feature is nullable
    and ``nulls`` is "mask"."""
    name = spans.keys[column].decode()
    if feature.nullable:
        null_fill(name, feature, strings, nulls)
    rows = decode_steps(spans, column, feature.step(), buffer, strings)
    if feature.nullable and nulls == "mask":
        return Nullable(rows, spans.present(column))
    return rows


def decode_steps(spans: Any, column: int, step: Feature, buffer: Any, strings: str) -> Ragged:
    """A `Ragged` of steps that hold ``step``. SchemaError, of record and step, where they do
    not."""
    splits, steps = spans.steps(column)
    try:
        values = decode_column(steps, 0, step, buffer, strings)
    except SchemaError as error:
        record = int(np.searchsorted(splits, error.record, "right")) - 1
        reason = f"{error.reason} (step {error.record - splits[record]})"
        raise SchemaError(reason, feature=error.feature, record=record) from None
    width = step.width if isinstance(values, RecordBatch) else 1  # a batch is flat
    return Ragged(values, splits * width)

"""Puts parts of a decoded column together."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfio_store.example.nullable import Nullable
from tfio_store.example.ragged import Ragged
from tfio_store.records.framing import RecordBatch

__all__ = ["joined_columns"]


def joined_columns(parts: list[Any]) -> Any:
    """Parts of a column, end to end."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], Nullable):
        values = joined_columns([part.values for part in parts])
        return Nullable(values, np.concatenate([part.valid for part in parts]))
    if isinstance(parts[0], Ragged):
        splits = [part.row_splits for part in parts]
        starts = np.cumsum([0, *(s[-1] for s in splits)])
        ends = [s[1:] + start for s, start in zip(splits, starts, strict=False)]
        values = joined_columns([part.values for part in parts])
        return Ragged(values, np.concatenate([[0], *ends]))
    if isinstance(parts[0], RecordBatch):
        starts = np.cumsum([0, *(len(part.buffer) for part in parts)])
        moved = [part.offsets + start for part, start in zip(parts, starts, strict=False)]
        lengths = np.concatenate([part.lengths for part in parts])
        return RecordBatch(b"".join(part.buffer for part in parts), np.concatenate(moved), lengths)
    if isinstance(parts[0], np.ma.MaskedArray):
        joined: Any = np.ma.concatenate(parts)  # type: ignore[no-untyped-call]
        joined.fill_value = parts[0].fill_value
        return joined
    return np.concatenate(parts)

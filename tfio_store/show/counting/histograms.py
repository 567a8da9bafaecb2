"""Bins of numbers, chosen so that a chart of them reads well."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tfio_store.show.model import Histogram

__all__ = ["histogram"]

_BINS = 40
_LONG = 200
"""If the largest of positive values is so many times the median, edges grow by a factor."""


def histogram(values: npt.NDArray[Any]) -> Histogram | None:
    """The bins of finite values. Few integers get a bin each. None without values."""
    if not len(values):
        return None
    edges, log = _edges(values)
    with np.errstate(over="ignore", invalid="ignore"):
        counts, _ = np.histogram(values.astype(np.float64), edges)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), log)


def _edges(values: npt.NDArray[Any]) -> tuple[npt.NDArray[np.float64], bool]:
    least, most = values.min().item(), values.max().item()
    whole = values.dtype.kind in "iu"
    if whole and most - least < _BINS:
        return np.arange(least, most + 2, dtype=object).astype(np.float64) - 0.5, False
    if least > 0 and most / max(float(np.median(values)), 1e-300) > _LONG:
        edges = np.geomspace(float(least), float(most), _BINS + 1)
        if np.isfinite(edges).all() and (np.diff(edges) > 0).all():
            return _holding(edges, float(least), float(most)), True
    if whole and most - least < 1 << 50:  # edges between integers, each bin of as many
        step = -(-(most - least + 1) // _BINS)
        count = -(-(most - least + 1) // step)
        return least - 0.5 + step * np.arange(count + 1, dtype=np.float64), False
    if float(most) == float(least):
        half = abs(float(least)) / 2 or 0.5
        return np.array([float(least) - half, float(least) + half]), False
    half_span = float(most) / 2 - float(least) / 2  # the span itself may be infinite
    if half_span * _BINS == 0 or np.nextafter(float(least), np.inf) == float(most):
        return np.array([float(least), float(most)]), False
    edges = float(least) + np.linspace(0, 1, _BINS + 1) * half_span
    edges += np.linspace(0, 1, _BINS + 1) * half_span
    edges = np.maximum.accumulate(edges)
    return _holding(edges, float(least), float(most)), False


def _holding(edges: npt.NDArray[np.float64], least: float, most: float) -> npt.NDArray[np.float64]:
    """The edges, whose ends are what rounding may have moved."""
    edges[0], edges[-1] = least, most
    return edges

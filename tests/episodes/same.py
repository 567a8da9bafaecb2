"""Whether two nested values are the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def same(one: Any, other: Any) -> bool:
    """Dicts by key, lists and arrays of objects by item, arrays with dtype and shape."""
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) or (isinstance(one, np.ndarray) and one.dtype == object):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray | np.generic):
        return one.dtype == other.dtype and np.array_equal(one, other)
    return bool(one == other)

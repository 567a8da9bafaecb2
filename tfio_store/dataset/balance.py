"""Where to cut a row of units of known sizes, so that the runs between cuts are alike. No I/O."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

__all__ = ["runs_of"]

Int64Array: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


def runs_of(nbytes: Int64Array, count: int) -> Int64Array:
    """int64 [count + 1]: where ``count`` runs of units of ``nbytes`` each begin and end. Each run
    has a unit at least, so ``count`` is at most their number."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), count + 1)[1:-1]
    after = np.searchsorted(ends, wanted)
    begins = ends[after] - nbytes[after]
    cuts = after + (ends[after] - wanted <= wanted - begins)  # the nearer end of the unit
    # cut i has at least i units before it, and as many behind it as runs are to come
    number = np.arange(1, count)
    room = np.maximum.accumulate(np.maximum(cuts - number, 0))
    inside = np.minimum(room, len(nbytes) - count) + number
    return np.concatenate([[0], inside, [len(nbytes)]]).astype(np.int64)

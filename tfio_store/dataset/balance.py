"""Where to cut a row of units of known sizes, so that the runs between cuts are alike. No I/O."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

__all__ = ["in_turn", "runs_of"]

Int64Array: TypeAlias = "np.ndarray[tuple[int], np.dtype[np.int64]]"


def runs_of(nbytes: Int64Array, count: int) -> Int64Array:
    """int64 [count + 1]: where ``count`` runs of units of ``nbytes`` each begin and end. Each run
    has a unit at least, so ``count`` is at most their number."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), count + 1)[1:-1]
    after = np.searchsorted(ends, wanted)
    begins = ends[after] - nbytes[after]
    cuts = after + (ends[after] - wanted <= wanted - begins)  # the nearer end of the unit
    return in_turn(cuts, len(nbytes))


def in_turn(cuts: Int64Array, units: int) -> Int64Array:
    """The cuts with both ends of a row of units, moved so that a unit lies between any two."""
    number = np.arange(1, len(cuts) + 1)
    # cut i has at least i units before it, and as many behind it as runs are to come
    room = np.maximum.accumulate(np.maximum(cuts - number, 0))
    inside = np.minimum(room, units - len(cuts) - 1) + number
    return np.concatenate([[0], inside, [units]]).astype(np.int64)

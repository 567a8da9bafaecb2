"""Whether floats hold the numbers that texts tell."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["as_whole", "check_range", "float64_holds"]

_DIGITS = 17
"""As many tell each float64 from all others."""
_LONGEST = 767
"""No float64 has more."""


def float64_holds(text: str) -> bool:
    """Whether the nearest float64 is neither an infinity nor zero in place of the text's number,
    and has all of its digits. Those after the 17th must be the float's own."""
    value = float(text)
    number = text.lower().partition("e")[0]
    if "n" in number:  # inf, nan
        return True
    digits = number.lstrip("+-").replace(".", "").strip("0")
    if not digits or len(digits) > _LONGEST:
        return not digits
    if math.isinf(value) or not value:
        return False
    if len(digits) <= _DIGITS:
        return True
    own = f"{value:.{len(digits) - 1}e}".partition("e")[0]
    return own.lstrip("-").replace(".", "") == digits


def as_whole(value: int, kind: Any) -> float:
    """The float of an integer. ValueError if this dtype neither holds it nor writes it so: the
    float32 123456792 is written 123456790."""
    try:
        with np.errstate(over="ignore"):
            held = float(np.array(float(value)).astype(kind))
        exact = int(held) == value or int(_shortest(held, kind)) == value
    except OverflowError:
        exact = False
    if not exact:
        raise ValueError(f"it holds {value}, which no {kind.name} holds")
    return float(value)


def _shortest(held: float, kind: Any) -> str:
    if kind.name not in ("float16", "float32", "float64"):
        return str(int(held))
    return np.format_float_positional(kind.type(held), unique=True, trim="-")


def check_range(value: float, kind: Any) -> None:
    """ValueError for a number that this dtype makes an infinity."""
    if kind.itemsize == 8 or not math.isfinite(value):
        return
    with np.errstate(over="ignore"):
        held = float(np.array(value).astype(kind))
    if not math.isfinite(held):
        raise ValueError(f"it holds {value}, which no {kind.name} holds")

"""Times and durations as ISO 8601 texts, and back, in every unit that numpy has."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["from_iso", "iso_texts"]

_SECONDS = {
    "W": Fraction(604800), "D": Fraction(86400), "h": Fraction(3600), "m": Fraction(60),
    "s": Fraction(1), "ms": Fraction(1, 10**3), "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9), "ps": Fraction(1, 10**12), "fs": Fraction(1, 10**15),
    "as": Fraction(1, 10**18),
}  # fmt: skip

_CLOCK = r"[T ]\d\d(?::\d\d(?::\d\d(?:\.\d{1,18})?)?)?"
_TIME = re.compile(
    rf"(\d{{4}}|[+-]?\d{{4,12}}-\d\d(?:-\d\d({_CLOCK})?)?)(?:Z|([+-]\d\d):?([0-5]\d))?"
)
"""A year alone has four digits: 20200101 is no year. An offset stands behind a clock."""

_DURATION = re.compile(r"(-?)PT(\d{1,40})(?:\.(\d{1,18}))?S")
_MONTHS = re.compile(r"(-?)P(\d{1,20})([YM])")


def iso_texts(values: Any) -> Any:
    """Nested lists of texts of an array of datetimes or timedeltas; None for NaT."""
    if values.dtype.kind == "m":
        unit, count = np.datetime_data(values.dtype)
        numbers = values.astype("int64").astype(object) * count
        return _nested(numbers, np.isnat(values), lambda number: _duration(number, unit))
    return _nested(np.datetime_as_string(values), np.isnat(values), str)


def _nested(values: Any, missing: Any, told: Any) -> Any:
    if np.ndim(missing) == 0:
        return None if missing else told(values)
    return [_nested(value, none, told) for value, none in zip(values, missing, strict=True)]


def _duration(number: int, unit: str) -> str:
    sign = "-" if number < 0 else ""
    if unit in ("Y", "M"):
        return f"{sign}P{abs(number)}{unit}"
    if unit == "generic":
        return str(number)
    whole, rest = divmod(abs(number) * _SECONDS[unit], 1)
    fraction = f"{int(rest * 10**18):018d}".rstrip("0")
    return f"{sign}PT{whole}{'.' if fraction else ''}{fraction}S"


def from_iso(text: str, dtype: str) -> Any:
    """The datetime or timedelta of such a text. ValueError if it is none, or the unit of ``dtype``
    cannot hold it."""
    kind = np.dtype(dtype)
    if kind.kind == "M":
        return _time(text, kind)
    unit, count = np.datetime_data(kind)
    months, found = _MONTHS.fullmatch(text), _DURATION.fullmatch(text)
    if months is not None and months[3] == unit:
        number = Fraction(int(months[2]))
    elif found is not None and unit in _SECONDS:
        number = (int(found[2]) + Fraction(f"0.{found[3] or 0}")) / _SECONDS[unit]
    else:
        raise ValueError(f"{text!r} is no duration of {dtype}, such as PT1.5S")
    number /= count
    if number.denominator != 1 or number >= 1 << 63:
        raise ValueError(f"{text!r} does not fit {dtype}")
    signed = -number.numerator if text[0] == "-" else number.numerator
    return np.array(signed).astype(kind)[()]


def _time(text: str, kind: Any) -> Any:
    found = _TIME.fullmatch(text)
    if found is None or (found[3] and not found[2]):
        raise ValueError(f"{text!r} is no time of {kind}, such as 2020-12-31T23:59:59.5")
    made = np.datetime64(found[1])
    if found[3]:
        minutes = int(f"{found[3][0]}{found[4]}") + 60 * int(found[3])
        made = made - np.timedelta64(minutes, "m")  # in UTC, as all datetimes here
    try:
        held = made.astype(kind)
        if held.astype(made.dtype) == made:  # where it is too large, older NumPy makes another
            return held
    except OverflowError:  # of NumPy 2.5
        pass
    raise ValueError(f"{text!r} does not fit {kind}")

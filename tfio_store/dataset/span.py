"""Spans of records as texts: "80%:", ":1000", "-1000:". No I/O."""

from __future__ import annotations

import builtins
import re
from fractions import Fraction
from typing import Any, TypeAlias

from tfio_store.dataset.checks import whole_number

__all__ = ["Span", "bounds_of", "span_text"]

Span: TypeAlias = "str | builtins.slice | tuple[int | None, int | None]"

_FORMS = 'a text such as "80%:", "10%:20%" or ":1000", a slice, or a pair of numbers (start, stop)'
_BOUND = re.compile(r"(?P<number>-?[0-9]+(_[0-9]+)*)|(?P<percent>-?[0-9]+(\.[0-9]+)?)%|")


def span_text(span: Span) -> str:
    """A span as one text. TypeError or ValueError for what is none."""
    if isinstance(span, str):
        bounds = [bound.strip() for bound in span.split(":")]
        if len(bounds) != 2 or not all(map(_BOUND.fullmatch, bounds)):
            raise ValueError(f"span={span!r}: pass {_FORMS}")
        return ":".join(bounds)
    if isinstance(span, builtins.slice):
        if span.step not in (None, 1):
            raise ValueError(f"span={span!r}: takes no step; records stay in their order")
        span = span.start, span.stop
    if not isinstance(span, tuple) or len(span) != 2:
        raise TypeError(f"span= takes {_FORMS}, not {span!r}")
    return ":".join("" if bound is None else str(_number(bound)) for bound in span)


def _number(bound: Any) -> int:
    number = whole_number(bound)
    if number is None:
        raise TypeError(f"span= holds {bound!r}; it takes record numbers or None")
    return number


def bounds_of(text: str, total: int) -> tuple[int, int]:
    """The numbers of the first record, and behind the last one, of ``total``; see `span_text`."""
    start, stop = text.split(":")
    first = _place(start, total) if start else 0
    return first, max(_place(stop, total) if stop else total, first)


def _place(bound: str, total: int) -> int:
    if bound.endswith("%"):
        percent = Fraction(bound[:-1])
        found = int(total * (percent + 100 if percent < 0 else percent) // 100)
    else:
        found = int(bound)
        found += total if found < 0 else 0
    return min(max(found, 0), total)

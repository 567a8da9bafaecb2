"""Times as texts: what a unit cannot hold, or is no time, is an error."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfio_store.tables.texts import from_iso, iso_texts


@pytest.mark.parametrize("unit", ["Y", "M", "D", "h", "m", "s", "ms", "us", "ns", "ps", "25s"])
@given(number=st.integers(-(1 << 40), 1 << 40))
def test_there_and_back(unit: str, number: int) -> None:
    if unit in ("Y", "M", "D", "h", "m", "s", "25s"):
        number %= 5000
    value = np.array([number]).astype(f"datetime64[{unit}]")
    assert from_iso(iso_texts(value)[0], f"datetime64[{unit}]") == value[0]


@given(st.datetimes())
def test_as_python_writes_them(value: datetime.datetime) -> None:
    assert from_iso(value.isoformat(), "datetime64[us]") == np.datetime64(value)
    assert from_iso(f"{value.isoformat(sep=' ')}Z", "datetime64[us]") == np.datetime64(value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("3000-01-01", "ns"),
        ("1500-01-01", "ns"),
        ("2020-01-01T00:00:00.5", "s"),
        ("2020-01-02", "M"),
        ("500000-01-01", "us"),
        ("2020-01-01T00:00:01", "25s"),
    ],
)
def test_what_does_not_fit(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        from_iso(text, f"datetime64[{unit}]")


@pytest.mark.parametrize(
    "text", ["now", "today", "NaT", "", "2020-01-01+02:00", "20200101", "2020-13-01", "1"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|Month|month"):
        from_iso(text, "datetime64[s]")

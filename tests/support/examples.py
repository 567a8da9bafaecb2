"""Examples for tests: both codecs, hypothesis strategies, and wire bytes built by hand."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from tfio_store.example import codec

CODECS = ("compiled", "pure")

INT64S = st.integers(-(2**63), 2**63 - 1)
FLOATS = st.floats(width=32)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.one_of(
    st.lists(INT64S, min_size=1, max_size=20),
    st.lists(FLOATS, min_size=1, max_size=20),
    st.lists(st.binary(max_size=300), min_size=1, max_size=5),
)
FEATURES = st.dictionaries(NAMES, VALUES, max_size=8)


def use_codec(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `tfio_store.example` run on the compiled codec or on its Python twin."""
    part = "_example" if name == "compiled" else "pure"
    module = importlib.import_module(f"tfio_store.example.{part}")
    monkeypatch.setattr(codec, "_example", module)


def varint(value: int) -> bytes:
    value &= 2**64 - 1
    out = []
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, body: bytes | int) -> bytes:
    """A length-delimited field, or a varint one."""
    if isinstance(body, int):
        return varint(number << 3) + varint(body)
    return varint(number << 3 | 2) + varint(len(body)) + body


def entry(key: bytes, value: bytes) -> bytes:
    return field(1, field(1, key) + field(2, value))


def wire_example(*entries: bytes) -> bytes:
    return field(1, b"".join(entries))


def int64s(*values: int) -> bytes:
    """A Feature of packed int64."""
    return field(3, field(1, b"".join(map(varint, values))))


def floats(*values: float) -> bytes:
    return field(2, field(1, np.array(values, "<f4").tobytes()))


def strings(*values: bytes) -> bytes:
    return field(1, b"".join(field(1, value) for value in values))


def same_floats(left: Any, right: Any) -> bool:
    """Equal bit for bit but for which NaN it is."""
    return bool(np.array_equal(np.float32(left), np.float32(right), equal_nan=True))

"""Values as text: JSON, ISO 8601 times, and a schema as the text of a spec for TensorFlow."""

from __future__ import annotations

import base64
import contextlib
import json
import math
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tfio_store.example.feature import ROW_LENGTHS, Feature
from tfio_store.example.schema import Schema

# Values of records as JSON.


def as_json_line(row: Mapping[str, Any], how: str = "utf8") -> str:
    """One line of JSON. What JSON has no number for becomes text."""
    return json.dumps({name: as_json_value(row[name], how) for name in row}, ensure_ascii=False)


def as_json_value(value: Any, how: str = "utf8") -> Any:
    """``how``: what becomes of byte strings. "utf8" and "short" make text of those that are UTF-8.
    Of others "utf8" makes ``{"base64": ...}``, and "short" ``{"bytes": LENGTH}``. "base64" makes
    base64 of all, and "size" ``{"bytes": LENGTH}``."""
    if isinstance(value, list):
        return [as_json_value(item, how) for item in value]
    if isinstance(value, bytes):
        return _bytes(value, how)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _bytes(value: bytes, how: str) -> Any:
    if how == "size":
        return {"bytes": len(value)}
    if how != "base64":
        with contextlib.suppress(UnicodeDecodeError):
            return value.decode()
    if how == "short":
        return {"bytes": len(value)}
    encoded = base64.b64encode(value).decode()
    return encoded if how == "base64" else {"base64": encoded}


class JsonNumbers:
    """Refuses columns that hold no number but NaN and infinities. Their texts would be read back as
    texts, where those among other numbers are read as numbers."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._untold: set[str] = set()

    def see(self, row: Mapping[str, Any]) -> None:
        for name in row.keys() - self._told:
            kinds = set(_kinds(row[name]))
            if True in kinds:
                self._told.add(name)
                self._untold.discard(name)
            elif False in kinds:
                self._untold.add(name)

    def check(self) -> None:
        """ValueError that names such a column."""
        for name in sorted(self._untold):
            raise ValueError(
                f"column {name!r} holds no number but NaN and infinities, which JSON lines can't "
                "tell from texts; write Parquet or Arrow, or leave it out by columns="
            )


def _kinds(value: Any) -> Iterator[bool]:
    """Whether JSON shows what it is, for each value in nested lists."""
    if isinstance(value, list):
        for item in value:
            yield from _kinds(item)
    elif value is not None:
        yield not (isinstance(value, float) and not math.isfinite(value))


# Times and durations as ISO 8601 texts, and back, in every unit that numpy has.


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


def _nested(values: Any, missing: Any, text: Any) -> Any:
    if np.ndim(missing) == 0:
        return None if missing else text(values)
    return [_nested(value, none, text) for value, none in zip(values, missing, strict=True)]


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


# A schema as the text of a spec for ``tf.io.parse_example``. It needs no TensorFlow.


_TYPES = {"bytes": "tf.string", "float32": "tf.float32", "int64": "tf.int64"}


def spec_text(schema: Schema) -> str:
    """Python that makes what `Schema.feature_spec` makes. A nullable feature without a default, for
    which that has no form, becomes a ``VarLenFeature``. Feature lists get a spec of their own."""
    context = {name: feature for name, feature in schema.items() if not feature.sequence}
    lists = {name: feature for name, feature in schema.items() if feature.sequence}
    if not lists:
        return _dict("feature_spec", {name: _entry(name, f) for name, f in context.items()})
    return "\n".join(
        [
            _dict("context_features", {name: _entry(name, f) for name, f in context.items()}),
            _dict("sequence_features", {name: _step(f) for name, f in lists.items()}),
        ]
    )


def _dict(variable: str, entries: dict[str, str]) -> str:
    lines = [f"    {name!r}: {entry}," for name, entry in entries.items()]
    return "\n".join([f"{variable} = {{", *lines, "}"])


def _entry(name: str, feature: Feature) -> str:
    dtype = _TYPES[feature.wire]
    if feature.nullable and feature.default is None and not feature.ragged:
        return f"tf.io.VarLenFeature({dtype})"
    if feature.raw:
        return f"tf.io.FixedLenFeature([], {dtype}{_raw_default(feature)})"
    if not feature.ragged:
        return f"tf.io.FixedLenFeature({list(feature.row_shape)}, {dtype}{_default(feature)})"
    if feature.nested:
        parts = f"tf.io.RaggedFeature.RowLengths({name + ROW_LENGTHS!r})"
    else:
        each = (f"tf.io.RaggedFeature.UniformRowLength({dim})" for dim in feature.row_shape)
        parts = ", ".join(each)
    return f"tf.io.RaggedFeature({dtype}, {name!r}, [{parts}], row_splits_dtype=tf.int64)"


def _step(feature: Feature) -> str:
    return f"tf.io.RaggedFeature({_TYPES[feature.wire]}, row_splits_dtype=tf.int64)"


_SPELLED_OUT = 64
"""The default of a shape of more values is printed as a product: shapes come from files."""


def _default(feature: Feature) -> str:
    if feature.default is None:
        return ""
    value = feature.default
    if isinstance(value, list):
        return f", {_literal(value)}"
    if feature.width <= _SPELLED_OUT:
        for size in reversed(feature.row_shape):
            value = [value] * size
        return f", {_literal(value)}"
    text = _literal(value)
    for size in reversed(feature.row_shape):
        text = f"[{text}] * {size}"
    return f", {text}"


def _literal(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _raw_default(feature: Feature) -> str:
    if feature.ragged:
        return ", b''"
    if feature.default is None:
        return ""
    if not isinstance(feature.default, list) and feature.width > _SPELLED_OUT:
        one = np.full((), feature.default).astype(feature.item_dtype()).tobytes()
        return f", {one!r} * {feature.width}"
    memory = np.full(feature.row_shape, feature.default).astype(feature.item_dtype()).tobytes()
    return f", {memory!r}"

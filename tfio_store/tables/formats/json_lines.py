"""JSON lines as columns. No value changes: integers keep their digits, and texts stay texts.

JSON has neither NaN nor infinities. Among the numbers of a column, the texts "NaN", "Infinity" and
"-Infinity" stand for them, as in the JSON of protobuf.
"""

from __future__ import annotations

import io
import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

# Whether floats hold the numbers that texts say.


_DIGITS = 17
"""So many digits distinguish each float64 from all others."""
_MOST_DIGITS = 767
"""No float64 has more."""


def float64_holds(text: str) -> bool:
    """Whether the nearest float64 is neither an infinity nor zero in place of the text's number,
    and has all of its digits. Those after the 17th must be the float's own."""
    value = float(text)
    number = text.lower().partition("e")[0]
    if "n" in number:  # inf, nan
        return True
    digits = number.lstrip("+-").replace(".", "").strip("0")
    if not digits or len(digits) > _MOST_DIGITS:
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


NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts for numbers that JSON lacks."""

_ROWS = 16 << 10
_PIECE = 16 << 20
_BUFFER = 4 << 20
_LONGEST = 256 << 20
CELLS = 4 << 20
"""A table has no more rows times columns, but for one that has a single row."""
MOST_FIELDS = 1 << 16
"""A row has no more: each takes the time and the memory of a column."""
_DEPTH = 64
_PLAIN = 17
"""A number of so few characters has no more digits than a float64."""
_INT64 = (1 << 63) - 1
_UNDECIDED = pa.dictionary(pa.int8(), pa.string())
"""The type of values that are all in `NOT_FINITE`: numbers if other rows hold numbers, else texts.
`type_of` gives this type for nothing else."""


def pieces_of(file: Any) -> Iterator[tuple[int, dict[str, list[Any]]]]:
    """The rows as columns, some thousands at a time, and how many they are. A row that lacks a
    field has a null there. ValueError for a line that is no JSON object."""
    rows: list[dict[str, Any]] = []
    names: set[str] = set()
    nbytes = 0
    for number, line in _lines(file):
        if not line.strip():
            continue
        row = _object(line, number)
        # asked before the row is added: one of many fields widens all that are there
        full = (len(rows) + 1) * (len(names) + len(row.keys() - names)) > CELLS
        if rows and (full or len(rows) >= _ROWS or nbytes >= _PIECE):
            yield len(rows), _columns(rows)
            rows, names, nbytes = [], set(), 0
        rows.append(row)
        names.update(row)
        nbytes += len(line)
    if rows:
        yield len(rows), _columns(rows)


def _lines(file: Any) -> Iterator[tuple[int, bytes]]:
    number, lines = 0, io.BufferedReader(file, _BUFFER)
    while line := lines.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST:
            raise ValueError(f"line {number} has {_LONGEST:,} bytes or more")
        yield number, line


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        found = json.loads(text, parse_float=_float, object_pairs_hook=_without_doubles)
    except _RefusedError as error:
        raise ValueError(f"line {number}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"line {number} is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"line {number} is no JSON object")
    if line.count(b"[") + line.count(b"{") > _DEPTH and _is_deep(found):
        raise ValueError(f"line {number} nests more than {_DEPTH} lists and objects")
    return found


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEPTH + 1):
        inner = [each.values() if isinstance(each, dict) else each for each in level]
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return bool(level)


class _RefusedError(ValueError):
    """It is JSON, but a value would change or be lost."""


def _float(text: str) -> float:
    plain = len(text) <= _PLAIN and "e" not in text and "E" not in text
    if not plain and not float64_holds(text):
        raise _RefusedError(f"no float64 holds the number {text[:60]}; write it as a text")
    return float(text)


def _without_doubles(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(fields)
    if len(found) < len(fields):
        counts = Counter(name for name, _ in fields)
        double = next(name for name in found if counts[name] > 1)
        raise _RefusedError(f"two fields are named {double!r}; rename one of them")
    if len(fields) > MOST_FIELDS:
        raise _RefusedError(f"{len(fields):,} fields, and at most {MOST_FIELDS:,} are read")
    return found


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ValueError(f"the field {name!r} has a name that is no Unicode text") from None
    return {name: [row.get(name) for row in rows] for name in names}


def decided(kind: Any) -> Any:
    """The type when all rows are seen."""
    if kind.equals(_UNDECIDED):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(decided(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, decided(field.type)) for field in kind])
    return kind


def as_type(values: list[Any], kind: Any) -> Any:
    """The values as an array."""
    return pa.array(_numbers(values, kind), kind)


def _numbers(values: list[Any], kind: Any) -> list[Any]:
    """The values with numbers for what stands for them."""
    if pa.types.is_float64(kind):
        return [NOT_FINITE[value] if type(value) is str else value for value in values]
    if pa.types.is_list(kind):
        return [value and _numbers(value, kind.value_type) for value in values]
    if pa.types.is_struct(kind):
        fields = {
            of.name: _numbers([value and value.get(of.name) for value in values], of.type)
            for of in kind
        }
        rows = ({name: fields[name][row] for name in fields} for row in range(len(values)))
        return [None if value is None else row for value, row in zip(values, rows, strict=True)]
    return values


def type_of(values: list[Any]) -> Any:
    """The Arrow type that holds these values as they are. ValueError if none does."""
    kinds = {type(value) for value in values} - {type(None)}
    if not kinds:
        return pa.null()
    if kinds == {int}:
        return pa.uint64() if max(v for v in values if v is not None) > _INT64 else pa.int64()
    if str in kinds and kinds <= {int, float, str}:
        texts = {value for value in values if type(value) is str}
        if texts <= NOT_FINITE.keys():
            return _UNDECIDED if kinds == {str} else pa.float64()
    if kinds <= {int, float}:
        return pa.float64()
    if len(kinds) > 1:
        raise ValueError("it holds " + " and ".join(sorted(kind.__name__ for kind in kinds)))
    (kind,) = kinds
    held = [value for value in values if value is not None]
    if kind is list:
        return pa.list_(type_of([item for value in held for item in value]))
    if kind is dict:
        names = dict.fromkeys(name for value in held for name in value)
        return pa.struct([(name, type_of([value.get(name) for value in held])) for name in names])
    return pa.bool_() if kind is bool else pa.string()


def common_type(one: Any, two: Any) -> Any:
    """The type of values of both types. ValueError if there is none."""
    numbers = (pa.int64(), pa.uint64(), pa.float64())
    if one.equals(two) or pa.types.is_null(two):
        return one
    if pa.types.is_null(one):
        return two
    if one in numbers and two in numbers:
        return max(one, two, key=numbers.index)
    if _UNDECIDED in (one, two):
        other = two if one.equals(_UNDECIDED) else one
        if other in (*numbers, pa.string()):
            return pa.string() if other == pa.string() else pa.float64()
    if pa.types.is_list(one) and pa.types.is_list(two):
        return pa.list_(common_type(one.value_type, two.value_type))
    if pa.types.is_struct(one) and pa.types.is_struct(two):
        fields = {of.name: of.type for of in one}
        for of in two:
            fields[of.name] = common_type(fields.get(of.name, of.type), of.type)
        return pa.struct(list(fields.items()))
    raise ValueError(f"it holds {one} and {two}")

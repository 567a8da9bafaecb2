"""CSV as columns of texts, and the types that hold these texts as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tfio_store.example.feature import Feature
from tfio_store.tools import json_lines
from tfio_store.tools.csv_blocks import header_of, rows_of_texts
from tfio_store.tools.float_texts import as_whole, float64_holds

__all__ = ["as_type", "as_values", "common_type", "pieces_of", "type_of"]

_NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")
"""What stands for a null among numbers. Among texts only a cell without quotes and text does."""

_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FRACTION = r"(0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+"
_NUMBER = rf"^(-?((0|[1-9][0-9]*)([eE][+-][0-9]+)?|({_FRACTION})([eE][+-]?[0-9]+)?)|-?inf|nan|NaN)$"
"""An exponent needs a point or a sign: 12e3 may be a name."""
_LONG = r"[eE][+-]?[0-9]{3}|.{18}"
"""What a float may not hold."""
_EXACT = 1 << 53
_TRUTH = r"^(true|false)$"


def pieces_of(file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some rows at a time, how many they are, and their columns as arrays of texts; the first has
    no rows. Bytes that are not UTF-8 are an error."""
    import pyarrow as pa

    begin, names = header_of(file)
    _check_names(names)
    yield 0, {name: pa.array([], pa.string()) for name in names}
    for batch in rows_of_texts(file, begin, names):
        yield batch.num_rows, dict(zip(names, batch.columns, strict=True))


def _check_names(names: list[str]) -> None:
    counts = Counter(names)
    for name in names:
        if counts[name] > 1:
            raise ValueError(f"{counts[name]} columns are named {name!r}; rename all but one")


def type_of(texts: Any) -> Any:
    """The Arrow type that holds what these texts say. Numbers with leading zeros are texts, and so
    are dates."""
    import pyarrow as pa

    held = _without_nulls(texts).drop_null()
    if not len(held):
        return pa.null() if texts.null_count == len(texts) else _marks()
    if _all(held, _TRUTH, ignore_case=True):
        return pa.bool_()
    if _all(held, _INTEGER):
        return _integer_type(pa, held)
    return pa.float64() if _all(held, _NUMBER) and _held_by_floats(held) else pa.string()


def _marks() -> Any:
    """The type of texts that all stand for nulls: a text type that joins any other."""
    import pyarrow as pa

    return pa.large_string()


def _held_by_floats(held: Any) -> bool:
    """Integers aside: what they lose beside fractions is an error."""
    import pyarrow.compute as pc

    fractions = held.filter(pc.invert(pc.match_substring_regex(held, _INTEGER)))
    long = fractions.filter(pc.match_substring_regex(fractions, _LONG))
    return all(map(float64_holds, long.to_pylist()))


def _integer_type(pa: Any, held: Any) -> Any:
    """Text for those that no integer type holds."""
    for kind in (pa.int64(), pa.uint64()):
        try:
            held.cast(kind)
            return kind
        except pa.ArrowInvalid:
            continue
    return pa.string()


def common_type(one: Any, two: Any) -> Any:
    """The type of values of both types: text, if there is no other."""
    import pyarrow as pa

    if _marks() in (one, two):
        other = two if one == _marks() else one
        return _marks() if pa.types.is_null(other) else other
    try:
        return json_lines.common_type(one, two)
    except ValueError:
        return pa.string()


def _check_exact(values: Any) -> None:
    """ValueError for integers among fractions that may lose digits."""
    for text in _integers(values, 15):
        if abs(int(text)) > _EXACT:
            raise ValueError(f"it holds fractions, and {text}, which would lose digits beside them")


def _integers(values: Any, digits: int) -> list[str]:
    """Those of more characters than this."""
    import pyarrow.compute as pc

    held = values.drop_null()
    whole = held.filter(pc.match_substring_regex(held, _INTEGER))
    return list(whole.filter(pc.greater(pc.utf8_length(whole), digits)).to_pylist())


def as_type(texts: Any, kind: Any) -> Any:
    """The values of the texts. ValueError for one that is none."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(kind) or kind == _marks():
        return texts
    values = _without_nulls(texts)
    if pa.types.is_floating(kind):
        _check_exact(values)
    return (pc.utf8_lower(values) if pa.types.is_boolean(kind) else values).cast(kind)


def as_values(texts: Any, feature: Feature) -> list[Any]:
    """Python values of the texts, as a feature of this dtype takes them."""
    import pyarrow as pa

    if feature.dtype in ("str", "bytes"):
        values = texts.to_pylist()
        return values if feature.nullable else [value or "" for value in values]
    kind = pa.string()
    if "float" in feature.dtype:
        return _as_floats(_without_nulls(texts), feature.item_dtype())
    if "int" in feature.dtype:
        kind = pa.uint64() if feature.dtype == "uint64" else pa.int64()
    elif feature.dtype == "bool":
        kind = pa.bool_()
    return list(as_type(_without_nulls(texts), kind).to_pylist())


def _as_floats(texts: Any, kind: Any) -> list[Any]:
    """The schema's user may round fractions, but not integers, and nothing becomes an infinity."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for text in _integers(texts, 15 if kind.itemsize == 8 else 0):
        as_whole(int(text), kind)
    values = texts.cast(pa.float64())
    for text in texts.filter(pc.is_inf(values)).drop_null().to_pylist():
        if "n" not in text.lower():
            raise ValueError(f"it holds {text[:60]}, which no {kind.name} holds")
    return list(values.to_pylist())


def _without_nulls(texts: Any) -> Any:
    """The texts without the blanks around them, and nulls for what stands for one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    trimmed = pc.utf8_trim_whitespace(texts)
    marks = pc.is_in(trimmed, value_set=pa.array(_NULLS))
    return pc.if_else(marks, pa.scalar(None, pa.string()), trimmed)


def _all(texts: Any, pattern: str, *, ignore_case: bool = False) -> bool:
    import pyarrow.compute as pc

    found = pc.match_substring_regex(texts, pattern, ignore_case=ignore_case)
    return bool(pc.all(found).as_py())

"""CSV as columns of texts, and the types that hold these texts as they are."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from tfio_store.example.feature import Feature
from tfio_store.tables.formats import json_lines
from tfio_store.tables.formats.json_lines import as_whole, float64_holds

# The batches of a CSV file by pyarrow, whose blocks grow until they hold the longest row.


_BLOCK = 1 << 20
_LONGEST = 256 << 20
_LONGEST_HEADER = 16 << 20
_LOOK = 4 << 10

_TOO_SMALL = ("straddl", "Empty CSV file or block")
"""Pyarrow's error for a row or a header that is longer than its blocks."""


def header_of(file: Any, delimiter: str, most: int) -> tuple[int, list[str]]:
    """Where the header begins, and the names in it. ValueError for more than ``most``: pyarrow
    takes 8 KB for each column."""
    begin, block = _first_line(file), _BLOCK
    _check_width(file, begin, delimiter, most)
    while True:
        with _Turn(file, begin) as turn:
            try:
                return begin, list(csv.open_csv(turn, **_options(block, delimiter)).schema.names)
            except ValueError as error:
                block = _larger(block, error)


def rows_of_texts(file: Any, begin: int, names: list[str], delimiter: str) -> Iterator[Any]:
    """Batches of texts. Where a block is too small, the file is read anew, by larger ones."""
    given, block = 0, _BLOCK
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    while True:
        options = _options(block, delimiter, blank_rows=len(names) == 1)
        seen = 0
        with _Turn(file, begin) as turn:
            try:
                for batch in csv.open_csv(turn, convert_options=converting, **options):
                    seen += batch.num_rows
                    if seen > given:
                        yield batch.slice(max(0, batch.num_rows - (seen - given)))
                        given = seen
                return
            except pa.ArrowInvalid as error:
                block = _larger(block, error)


def _options(block: int, delimiter: str, *, blank_rows: bool = False) -> dict[str, Any]:
    """An empty line of one column is a null, also at the end: convert writes nulls so."""
    return {
        "read_options": csv.ReadOptions(block_size=block),
        "parse_options": csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=not blank_rows
        ),
    }


def _larger(block: int, error: ValueError) -> int:
    """The size to try next. The error, if a larger block does not help."""
    if block >= _LONGEST or not any(word in str(error) for word in _TOO_SMALL):
        raise error
    return 2 * block


def _first_line(file: Any) -> int:
    """Where the first line that is not empty begins."""
    at = 0
    file.seek(at)
    while block := file.read(_LOOK):
        if held := block.lstrip(b"\r\n"):
            return at + len(block) - len(held)
        at += len(block)
    return 0


def _check_width(file: Any, begin: int, delimiter: str, most: int) -> None:
    """ValueError for a header of more columns, or a longer one than any. Columns are what
    delimiters part, also those within quotes: more of them have no header that makes sense."""
    marks = re.compile(b'["\r\n%s]' % re.escape(delimiter.encode()))
    columns, quoted, read = 1, False, 0
    file.seek(begin)
    while block := file.read(_LOOK):
        for mark in marks.findall(block):
            if mark == b'"':
                quoted = not quoted
            elif mark not in b"\r\n":
                columns += 1
            elif not quoted:
                block = b""  # the header's end
                break
        read += len(block)
        if columns > most:
            raise ValueError(f"its header has more than {most:,} columns, too many for its size")
        if read > _LONGEST_HEADER:
            raise ValueError(f"its header has more than {_LONGEST_HEADER:,} bytes")
        if not block:
            return


class _Turn:
    """The file for one reader of pyarrow, whose threads may read on when it is given up."""

    closed = False

    def __init__(self, file: Any, begin: int) -> None:
        self._file: Any = file
        self._lock = threading.Lock()
        file.seek(begin)

    def __enter__(self) -> _Turn:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._file = None

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with self._lock:
            return b"" if self._file is None else bytes(self._file.read(size))

    def close(self) -> None:
        """The file stays open for the next turn."""


_FEW_COLUMNS = 1024
"""A file may have so many, however small it is."""

_DELIMITERS = ",;\t|"
"""What usually parts columns."""

_NULLS = ("", "NA", "N/A", "n/a", "#N/A", "NULL", "null")
"""Texts that are nulls among numbers. Among texts only a cell without quotes and text does."""

_INTEGER = r"^(0|-?[1-9][0-9]*)$"
_FRACTION = r"(0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+"
_NUMBER = rf"^(-?((0|[1-9][0-9]*)([eE][+-][0-9]+)?|({_FRACTION})([eE][+-]?[0-9]+)?)|-?inf|nan|NaN)$"
"""An exponent needs a point or a sign: 12e3 may be a name."""
_LONG = r"[eE][+-]?[0-9]{3}|.{18}"
"""Letters that no float has."""
_EXACT = 1 << 53
_TRUTH = r"^(true|false)$"
_MARKS = pa.large_string()
"""The type of texts that all stand for nulls: a text type that joins any other."""


def pieces_of(
    file: Any, stored: int, delimiter: str = ",", *, is_sure: bool = True
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some rows at a time, how many they are, and their columns as arrays of texts; the first has
    no rows. The file has ``stored`` bytes, or is packed into them: each column's name takes one.
    Bytes that are not UTF-8 are an error, and so is a single column whose name holds what usually
    parts columns, if nobody is sure of the delimiter."""
    most = min(json_lines.MOST_FIELDS, max(_FEW_COLUMNS, stored))
    begin, names = header_of(file, delimiter, most)
    _check_names(names)
    if len(names) == 1 and not is_sure:
        _check_delimiter(names[0], delimiter)
    yield 0, {name: pa.array([], pa.string()) for name in names}
    for batch in rows_of_texts(file, begin, names, delimiter):
        yield batch.num_rows, dict(zip(names, batch.columns, strict=True))


def _check_names(names: list[str]) -> None:
    counts = Counter(names)
    for name in names:
        if counts[name] > 1:
            raise ValueError(f"{counts[name]} columns are named {name!r}; rename all but one")


def _check_delimiter(name: str, delimiter: str) -> None:
    held = [other for other in _DELIMITERS if other != delimiter and other in name]
    if held:
        most, this = (json.dumps(each) for each in (max(held, key=name.count), delimiter))
        raise ValueError(
            f"its header is one column {name!r}; pass delimiter={most} if that parts the columns, "
            f"or delimiter={this} if it is one column indeed"
        )


def type_of(texts: Any) -> Any:
    """The Arrow type that holds what these texts say. Numbers with leading zeros are texts, and so
    are dates."""
    held = _without_nulls(texts).drop_null()
    if not len(held):
        return pa.null() if texts.null_count == len(texts) else _MARKS
    if _all(held, _TRUTH, ignore_case=True):
        return pa.bool_()
    if _all(held, _INTEGER):
        return _integer_type(held)
    return pa.float64() if _all(held, _NUMBER) and _held_by_floats(held) else pa.string()


def _held_by_floats(held: Any) -> bool:
    """Integers aside: what they lose beside fractions is an error."""
    fractions = held.filter(pc.invert(pc.match_substring_regex(held, _INTEGER)))
    long = fractions.filter(pc.match_substring_regex(fractions, _LONG))
    return all(map(float64_holds, long.to_pylist()))


def _integer_type(held: Any) -> Any:
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
    if _MARKS in (one, two):
        other = two if one == _MARKS else one
        return _MARKS if pa.types.is_null(other) else other
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
    held = values.drop_null()
    whole = held.filter(pc.match_substring_regex(held, _INTEGER))
    return list(whole.filter(pc.greater(pc.utf8_length(whole), digits)).to_pylist())


def as_type(texts: Any, kind: Any) -> Any:
    """The values of the texts. ValueError for one that is none."""
    if pa.types.is_string(kind) or kind == _MARKS:
        return texts
    values = _without_nulls(texts)
    if pa.types.is_floating(kind):
        _check_exact(values)
    return (pc.utf8_lower(values) if pa.types.is_boolean(kind) else values).cast(kind)


def as_values(texts: Any, feature: Feature) -> list[Any]:
    """Python values of the texts, as a feature of this dtype takes them."""
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
    for text in _integers(texts, 15 if kind.itemsize == 8 else 0):
        as_whole(int(text), kind)
    values = texts.cast(pa.float64())
    for text in texts.filter(pc.is_inf(values)).drop_null().to_pylist():
        if "n" not in text.lower():
            raise ValueError(f"it holds {text[:60]}, which no {kind.name} holds")
    return list(values.to_pylist())


def _without_nulls(texts: Any) -> Any:
    """The texts without the blanks around them, and nulls for what stands for one."""
    trimmed = pc.utf8_trim_whitespace(texts)
    marks = pc.is_in(trimmed, value_set=pa.array(_NULLS))
    return pc.if_else(marks, pa.scalar(None, pa.string()), trimmed)


def _all(texts: Any, pattern: str, *, ignore_case: bool = False) -> bool:
    found = pc.match_substring_regex(texts, pattern, ignore_case=ignore_case)
    return bool(pc.all(found).as_py())

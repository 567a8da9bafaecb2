"""The batches of a CSV file by pyarrow, whose blocks grow until they hold the longest row."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

__all__ = ["header_of", "rows_of_texts"]

_BLOCK = 1 << 20
_LONGEST = 256 << 20
_LOOK = 4 << 10

_TOO_SMALL = ("straddl", "Empty CSV file or block")
"""What pyarrow says of a row or a header that is longer than its blocks."""


def header_of(file: Any) -> tuple[int, list[str]]:
    """Where the header begins, and the names in it."""
    import pyarrow.csv as csv

    begin, block = _first_line(file), _BLOCK
    while True:
        with _Turn(file, begin) as turn:
            try:
                return begin, list(csv.open_csv(turn, **_options(block)).schema.names)
            except ValueError as error:
                block = _larger(block, error)


def rows_of_texts(file: Any, begin: int, names: list[str]) -> Iterator[Any]:
    """Batches of texts. Where a block is too small, the file is read anew, by larger ones."""
    import pyarrow as pa
    import pyarrow.csv as csv

    given, block = 0, _BLOCK
    converting = csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    while True:
        options = _options(block, blank_rows=len(names) == 1)
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


def _options(block: int, *, blank_rows: bool = False) -> dict[str, Any]:
    """An empty line of one column is a null, also at the end: convert writes nulls so."""
    import pyarrow.csv as csv

    return {
        "read_options": csv.ReadOptions(block_size=block),
        "parse_options": csv.ParseOptions(
            newlines_in_values=True, ignore_empty_lines=not blank_rows
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

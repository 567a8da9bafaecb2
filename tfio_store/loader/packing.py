"""`Packing`: how documents of tokens become rows of one length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

from tfio_store.dataset.checks import check_positive
from tfio_store.example.codec import is_list_of_numbers
from tfio_store.example.schema import Schema, column_names

__all__ = [
    "POSITIONS",
    "SEGMENTS",
    "Packing",
    "check_packing",
    "mark_of",
    "packing_of",
    "padding_of",
    "rows_at_once",
    "rows_together",
]

SEGMENTS, POSITIONS = "segment_ids", "positions"

_LONGEST = (1 << 31) - 1
"""Tokens of a row: positions are int32."""
_ROWS_AT_ONCE, _TOKENS_AT_ONCE = 64, 1 << 18
_WINDOW, _LEAST_WINDOW, _WINDOW_TOKENS = 128, 8, 8 << 20


@dataclass(frozen=True, slots=True)
class Packing:
    """Rows of ``length`` tokens, made of documents of any length.

    `TFRecordIterable` and Grain's ``stream`` take it as ``pack=``. A row holds ``segment_ids``, the
    numbers of its documents from 1 on and 0 in the padding, and ``positions``, from 0 on in each
    document and 0 in the padding. Both are int32. A document without tokens gives nothing;
    ``metrics()`` counts these as ``empty``.

    "first_fit" keeps documents whole. It reads as many as fill ``window`` rows, and puts the
    longest first into the first row with room. The rows then come in the order of their first
    documents. "concat" lays documents end to end and cuts them where a row ends; what is behind the
    cut is a segment of its own in the next row. Only the last row of a share has padding.

    Args:
        columns (str | list[str]): The feature of tokens; or some features that have as many values
            in each record, such as tokens and labels.
        length (int): The tokens of a row.
        how (str): "first_fit" or "concat". Default "first_fit".
        window (int | None): The rows of "first_fit" that are filled together. More leave less
            padding, and take more memory. Default None: 128, or fewer of very long rows.
        padding (int | dict): What stands behind the last document of a row, for all columns or by
            column. Default 0.
        long (str): What "first_fit" does with a document that is longer than a row. "split":
            it becomes pieces of ``length``, each a segment, and no token is lost. "error": it is a
            SchemaError. Default "split".

    Raises:
        ValueError: An argument is not as described.

    Example:
        >>> packing = tfs.Packing(["tokens", "labels"], 2048, padding={"labels": -100})
        >>> packing.how, packing.columns
        ('first_fit', ('tokens', 'labels'))
    """

    columns: Sequence[str]
    length: int
    _: KW_ONLY
    how: Literal["first_fit", "concat"] = "first_fit"
    window: int | None = None
    padding: float | Mapping[str, float] = 0
    long: Literal["split", "error"] = "split"

    def __post_init__(self) -> None:
        columns = [self.columns] if isinstance(self.columns, str) else self.columns
        object.__setattr__(self, "columns", tuple(column_names(columns)))
        if not self.columns:
            raise ValueError("columns= of a packing names no feature")
        for name in (SEGMENTS, POSITIONS):
            if name in self.columns:
                raise ValueError(f"columns= names {name!r}, which a packing makes itself")
        check_positive("length=", self.length, also=" of tokens in a row")
        if self.length > _LONGEST:
            raise ValueError(f"length= takes at most {_LONGEST} tokens, not {self.length}")
        if self.how not in ("first_fit", "concat"):
            raise ValueError(f'how= takes "first_fit" or "concat", not {self.how!r}')
        if self.long not in ("split", "error"):
            raise ValueError(f'long= takes "split" or "error", not {self.long!r}')
        if self.how == "concat" and (self.window is not None or self.long != "split"):
            raise ValueError('window= and long= are for how="first_fit"; "concat" cuts anywhere')
        if self.window is not None:
            check_positive("window=", self.window, also=" of rows, or None")
        if isinstance(self.padding, Mapping) and (odd := self.padding.keys() - set(self.columns)):
            raise ValueError(f"padding= names {min(odd)!r}, which columns= does not")


def rows_together(packing: Packing) -> int:
    """The rows of a window."""
    fitting = max(_LEAST_WINDOW, min(_WINDOW, _WINDOW_TOKENS // packing.length))
    return packing.window or fitting


def rows_at_once(packing: Packing) -> int:
    """How many rows are made together for callers who take single ones."""
    return max(1, min(_ROWS_AT_ONCE, _TOKENS_AT_ONCE // packing.length))


def mark_of(packing: Packing) -> str:
    """What two packings have in common if one goes on with the other's states."""
    if packing.how == "concat":
        return f"concat of {packing.columns[0]}"
    return f"first_fit of {packing.columns[0]} in {rows_together(packing)} rows of {packing.length}"


def padding_of(packing: Packing, column: str) -> float:
    """What stands in a column behind the last document of a row."""
    padding = packing.padding
    return padding.get(column, 0) if isinstance(padding, Mapping) else padding


def check_packing(packing: Packing, schema: Schema | None) -> None:
    """ValueError unless the schema's features are lists of numbers that padding can be in."""
    if schema is None:
        raise ValueError(
            "pack= needs to know the features: pass schema=, for example "
            f'{{{packing.columns[0]!r}: tfio_store.Feature("int64", (None,))}}'
        )
    for name in packing.columns:
        feature = schema[name]
        dtype = feature.item_dtype()
        if not is_list_of_numbers(feature):
            raise ValueError(
                f"pack= takes features of numbers of the shape (None,), and {name!r} is {feature!r}"
            )
        padding = padding_of(packing, name)
        try:
            fits = bool(np.full(1, padding, dtype)[0] == padding)
        except (OverflowError, TypeError, ValueError):
            fits = False
        if not fits:
            raise ValueError(f"padding={padding!r} is no {dtype}, which {name!r} is")


def packing_of(pack: Packing | str | Sequence[str] | None, length: int | None) -> Packing | None:
    """Read ``pack=`` and its short form with ``length=``. ValueError for one without the other."""
    if isinstance(pack, Packing) or pack is None:
        if length is not None:
            raise ValueError(
                'length= goes with the name of a feature: pack="tokens", length=2048'
                if pack is None
                else "length= is for the short form of pack=: the Packing has a length"
            )
        return pack
    if length is None:
        raise ValueError(f"pack={pack!r} needs length=, the tokens of a row")
    return Packing(pack, length)

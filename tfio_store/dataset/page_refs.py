"""`PageRef`: what the root of a long dataset tells of one page of its list of shards. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tfio_store.dataset.checks import check_name
from tfio_store.dataset.shard_page import (
    LIST_HEADER_BYTES,
    MOST_PAGE_BYTES,
    PAGE_SHARDS,
    PageTotals,
)

__all__ = ["PageRef", "pages_from_json", "pages_to_json"]

_NUMBERS = 8
_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page is bytes ``start:start + nbytes`` of the object ``name``, and ends in ``crc32c``."""

    name: str
    start: int
    nbytes: int
    totals: PageTotals
    crc32c: int

    @property
    def place(self) -> tuple[str, int, int]:
        """Its object, where it begins there, and its bytes."""
        return self.name, self.start, self.nbytes


def pages_to_json(refs: Sequence[PageRef]) -> dict[str, Any]:
    """The value of "shards" in the root."""
    objects = list(dict.fromkeys(ref.name for ref in refs))
    number = {name: i for i, name in enumerate(objects)}
    rows = [[number[r.name], r.start, r.nbytes, *r.totals, r.crc32c] for r in refs]
    return {"objects": objects, "pages": rows}


def pages_from_json(document: Any) -> tuple[PageRef, ...]:
    """ValueError for anything that `pages_to_json` does not make."""
    objects, rows = document.get("objects"), document.get("pages")
    if not isinstance(objects, list) or not isinstance(rows, list):
        raise ValueError('"shards" has no lists of objects and pages')
    for name in objects:
        if not isinstance(name, str):
            raise ValueError(f"a name is {type(name).__name__}, not a string")
        check_name(name)
    refs = tuple(_ref(row, objects) for row in rows)
    if sum(ref.totals.blocks for ref in refs) >= _MOST:
        raise ValueError("its pages tell of more blocks than there can be")
    _check_apart(refs)
    return refs


def _check_apart(refs: Sequence[PageRef]) -> None:
    """A page that is named twice would give its records twice."""
    placed = sorted(refs, key=lambda ref: (ref.name, ref.start))
    for one, following in pairwise(placed):
        if one.name == following.name and following.start < one.start + one.nbytes:
            raise ValueError(
                f"two pages overlap in {one.name}: one begins at byte {following.start}, inside "
                "another"
            )


def _ref(row: Any, objects: list[str]) -> PageRef:
    if not isinstance(row, list) or len(row) != _NUMBERS or not all(map(_is_count, row)):
        raise ValueError(f"a page is {str(row)[:100]}, not {_NUMBERS} counts")
    number, start, nbytes, *sums, crc = row
    totals = PageTotals(*sums)
    if number >= len(objects):
        raise ValueError(f"a page lies in object {number} of {len(objects)}")
    if start < LIST_HEADER_BYTES or not 0 < nbytes <= MOST_PAGE_BYTES or crc >> 32:
        raise ValueError(f"no page lies at byte {start} with {nbytes} bytes")
    if not 1 <= totals.shards <= PAGE_SHARDS:
        raise ValueError(f"a page has {totals.shards} shards, not 1 to {PAGE_SHARDS}")
    if totals.records and not totals.blocks:
        raise ValueError(f"a page has {totals.records} records and no block")
    if totals.blocks and not totals.records:
        raise ValueError(f"a page has {totals.blocks} blocks and no record")
    return PageRef(objects[number], start, nbytes, totals, crc)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST

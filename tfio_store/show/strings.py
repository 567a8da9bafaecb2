"""Keeps count of the byte strings of a feature: which occur often, and which are odd."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from tfio_store.tables.held_numbers import Budget, Held
from tfio_store.tables.media_types import is_text, media_type

_SHORT = 64
"""Longer strings are compared by the beginning of a digest."""

_DIGEST = 16
_EXCERPT = 120
_MOST_DISTINCT = 20_000
_MOST_LOOKED_AT = 1 << 20
"""Longer strings are not looked at for letters that went wrong."""

_LOST = "\N{REPLACEMENT CHARACTER}".encode()
_TWICE = re.compile("[\u00c2-\u00c3][\u0080-\u00bf]|\u00e2\u20ac[\u0153\u2122\u02dc\u201c]")
"""Signs of UTF-8 that was read as Latin-1 or cp1252, and written as UTF-8 again."""

_MOST_ROWS = 100


@dataclass(slots=True)
class Issue:
    """How many values have it, and rows of the sample that do."""

    count: int = 0
    rows: list[int] = field(default_factory=list)

    def note(self, row: int, count: int = 1) -> None:
        self.count += count
        if row >= 0 and len(self.rows) < _MOST_ROWS and row not in self.rows[-1:]:
            self.rows.append(row)


class Strings:
    """Takes values with the rows of their records; row -1 is that of a record that is not kept."""

    def __init__(self, budget: Budget, seed: int) -> None:
        self._budget = budget
        self.exact = True
        """Whether every value was given."""
        self.given = 0
        self.lengths = Held(budget, seed)
        """The number of all values. Their owner adds them."""
        self.counted: Counter[bytes] | None = Counter()
        """How often each value, or its digest, occurs. None once there are too many."""
        self.letters: Counter[int] = Counter()
        """How often texts of so many characters occur, if few numbers of these do."""
        self.excerpts: dict[bytes, bytes] = {}
        """Of digests."""
        self.repeats: dict[bytes, list[int]] = {}
        """The rows of digests that came more than once."""
        self.first_rows: dict[bytes, int] = {}
        self.media: Counter[str] = Counter()
        self.texts = 0
        self.looked_at = 0
        """For whether they are texts."""
        self.not_utf8 = Issue()
        self.lost = Issue()
        self.twice = Issue()
        self.empty = Issue()

    def add(self, values: Sequence[bytes], rows: Sequence[int]) -> None:
        self.given += len(values)
        if self.counted is not None:
            before = len(self.counted)
            self.counted.update(self._names(values, rows))
            count = len(self.counted)
            if not self._budget.take_distinct(count, before) or count > _MOST_DISTINCT:
                self._budget.distinct += count
                self.counted = None
                self.excerpts, self.first_rows, self.repeats = {}, {}, {}
        kinds = [media_type(value) for value in values]
        self.media.update(kind for kind in kinds if kind is not None)
        others = [
            (value, row)
            for value, row, kind in zip(values, rows, kinds, strict=True)
            if kind is None and len(value) <= _MOST_LOOKED_AT
        ]
        self._look(others)

    def _names(self, values: Sequence[bytes], rows: Sequence[int]) -> Iterable[bytes]:
        """The values; of long ones a digest, which has its own first byte."""
        for value, row in zip(values, rows, strict=True):
            if len(value) <= _SHORT:
                yield b"v" + value
                continue
            name = b"d" + blake2b(value, digest_size=_DIGEST).digest()
            if name not in self.excerpts:
                self.excerpts[name] = value[:_EXCERPT]
                self.first_rows[name] = row
            else:
                found = self.repeats.setdefault(name, [self.first_rows.get(name, -1)])
                if len(found) < _MOST_ROWS:
                    found.append(row)
            yield name

    def _look(self, values: list[tuple[bytes, int]]) -> None:
        self.looked_at += len(values)
        joined = b"\n".join(value for value, _ in values)
        try:
            text = joined.decode()
        except UnicodeDecodeError:
            self._look_at_each(values)
            return
        plain = joined.isascii()  # or a character may take several bytes
        self._measure(len(value) if plain else len(value.decode()) for value, _ in values)
        if is_text(joined):
            self.texts += len(values)
        else:
            self.texts += sum(is_text(value) for value, _ in values)
        if not joined or joined.startswith(b"\n") or joined.endswith(b"\n") or b"\n\n" in joined:
            self._note(self.empty, [(value, row) for value, row in values if not value])
        if _LOST in joined:
            self._note(self.lost, [pair for pair in values if _LOST in pair[0]])
        if _TWICE.search(text):
            self._note(self.twice, [pair for pair in values if _TWICE.search(pair[0].decode())])

    def _measure(self, lengths: Iterable[int]) -> None:
        if len(self.letters) < _MOST_DISTINCT:
            self.letters.update(lengths)

    def _look_at_each(self, values: list[tuple[bytes, int]]) -> None:
        for value, row in values:
            if not value:
                self.empty.note(row)
            try:
                text = value.decode()
            except UnicodeDecodeError:
                self.not_utf8.note(row)
                continue
            self._measure([len(text)])
            self.texts += is_text(value)
            if _LOST in value:
                self.lost.note(row)
            if _TWICE.search(text):
                self.twice.note(row)

    def _note(self, issue: Issue, pairs: list[tuple[bytes, int]]) -> None:
        for _, row in pairs:
            issue.note(row)

    def value_of(self, name: bytes) -> bytes:
        """A value, or the beginning of a long one, by what `counted` calls it."""
        return name[1:] if name.startswith(b"v") else self.excerpts.get(name, b"")

    def is_digest(self, name: bytes) -> bool:
        return name.startswith(b"d")

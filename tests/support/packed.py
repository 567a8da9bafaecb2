"""Documents in rows of one length by plain Python, beside which tests hold ours; and such documents
in datasets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import tfio_store as tfs
from tfio_store.loader.packing import rows_together

Document = Sequence[int]
Row = tuple[list[int], list[int], list[int]]
"""Tokens, segment ids and positions."""


def row_of(pieces: Sequence[Document], length: int, padding: int) -> Row:
    tokens = [token for piece in pieces for token in piece]
    segments = [number for number, piece in enumerate(pieces, 1) for _ in piece]
    positions = [place for piece in pieces for place in range(len(piece))]
    left = length - len(tokens)
    return tokens + [padding] * left, segments + [0] * left, positions + [0] * left


def concat(documents: Sequence[Document], length: int, padding: int = 0) -> list[Row]:
    tokens = [(number, token) for number, one in enumerate(documents) for token in one]
    rows = []
    for at in range(0, len(tokens), length):
        row = tokens[at : at + length]
        numbers = dict.fromkeys(number for number, _ in row)
        pieces = [[token for each, token in row if each == number] for number in numbers]
        rows.append(row_of(pieces, length, padding))
    return rows


def first_fit(
    documents: Sequence[Document], length: int, window: int, padding: int = 0
) -> list[Row]:
    rows: list[Row] = []
    left = list(documents)
    while left:
        sums = accumulate(max(1, len(one)) for one in left)
        count = next((i for i, held in enumerate(sums, 1) if held >= window * length), len(left))
        rows += _window(left[:count], length, padding)
        left = left[count:]
    return rows


def _window(documents: Sequence[Document], length: int, padding: int) -> list[Row]:
    pieces = [one[at : at + length] for one in documents for at in range(0, len(one), length)]
    bins: list[list[int]] = []
    for number in sorted(range(len(pieces)), key=lambda number: -len(pieces[number])):
        size = len(pieces[number])
        fitting = (one for one in bins if sum(len(pieces[i]) for i in one) + size <= length)
        found = next(fitting, None)
        if found is None:
            bins.append(found := [])
        found.append(number)
    return [
        row_of([pieces[i] for i in sorted(one)], length, padding)
        for one in sorted(map(sorted, bins))
    ]


def packed(documents: Sequence[Document], packing: tfs.Packing, padding: int = 0) -> list[Row]:
    if packing.how == "concat":
        return concat(documents, packing.length, padding)
    return first_fit(documents, packing.length, rows_together(packing), padding)


def documents_of(seed: int, count: int, longest: int) -> list[list[int]]:
    """Documents of a random length, some of them empty. Each token is there once, from 1 on."""
    drawn = random.Random(seed)
    sizes = [drawn.choice((0, 1, drawn.randint(0, longest))) for _ in range(count)]
    ends = list(accumulate(sizes, initial=1))
    return [list(range(end, end + size)) for end, size in zip(ends, sizes, strict=False)]


def written(url: str, documents: Sequence[Document], *, num_shards: int = 1) -> str:
    """A dataset of documents, whose labels are their tokens with the other sign. Each record is so
    long that few of them fill a block."""
    schema = {name: tfs.Feature("int64", (None,)) for name in ("tokens", "labels")}
    with tfs.ShardedWriter(
        url, num_shards=num_shards, block_bytes=4096, schema={**schema, "other": "bytes"}
    ) as writer:
        for one in documents:
            labels = [-token for token in one]
            writer.write({"tokens": list(one), "labels": labels, "other": bytes(1000)})
    return url


def rows_in(batch: Any) -> list[Row]:
    """The rows of a batch."""
    columns = [batch[name].tolist() for name in ("tokens", "segment_ids", "positions")]
    return [(row, segments, places) for row, segments, places in zip(*columns, strict=True)]


def tokens_in(rows: Sequence[Row]) -> list[int]:
    """The tokens of rows, without padding."""
    return [
        token
        for tokens, segments, _ in rows
        for token, of in zip(tokens, segments, strict=True)
        if of
    ]

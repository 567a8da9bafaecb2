"""A dataset whose months have other columns is read by every door as plain dicts say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.growing import Grown, Row, grown, plain, rows_of

SEEDS = range(40)

Reading = Callable[[Grown], list[Row]]


def by_table(data: Grown) -> list[Row]:
    return rows_of(tfs.read_table(data.url), data.columns)


def by_reader(data: Grown) -> list[Row]:
    records = list(tfs.RecordReader(data.url))
    schema = tfs.open(data.url).schema
    assert schema is not None
    return rows_of(tfs.decode_examples(records, schema), data.columns)


def by_number(data: Grown) -> list[Row]:
    source = tfs.RecordSource(data.url)
    schema = tfs.infer_schema(data.url)
    found = [tfs.decode_examples([source[i]], schema) for i in range(len(source))]
    return [row for columns in found for row in rows_of(columns, data.columns)]


def by_named_columns(data: Grown) -> list[Row]:
    found: list[Row] = [{} for _ in data.rows]
    for name in data.columns:
        column = tfs.read_table(data.url, columns=[name])
        for row, one in zip(found, rows_of(column, [name]), strict=True):
            row |= one
    return found


def by_arrow(data: Grown) -> list[Row]:
    return list(map(plain_row, tfs.read_table(data.url).to_arrow().to_pylist()))


def by_stream(data: Grown) -> list[Row]:
    reader = tfs.iter_tables(data.url, batch_rows=2)
    return list(map(plain_row, reader.read_all().to_pylist()))


def by_arrow_dataset(data: Grown) -> list[Row]:
    return list(map(plain_row, tfs.arrow_dataset(data.url).to_table().to_pylist()))


def by_partitions(data: Grown) -> list[Row]:
    parts = tfs.partitions(data.url, target_bytes=1)
    batches = [batch for part in parts for batch in part.arrow_batches()]
    return [plain_row(row) for batch in batches for row in batch.to_pylist()]


def by_pandas(data: Grown) -> list[Row]:
    frame = tfs.read_table(data.url).to_pandas()
    nulls = frame.isna()
    return [
        {name: None if nulls[name][i] else plain(frame[name][i]) for name in data.columns}
        for i in range(len(frame))
    ]


def by_sliced(data: Grown) -> list[Row]:
    middle = len(data.rows) // 2
    parts = [tfs.slice(data.url, f":{middle}"), tfs.slice(data.url, f"{middle}:")]
    return [row for part in parts for row in rows_of(tfs.read_table(part), data.columns)]


def plain_row(row: Row) -> Row:
    return {name: plain(value) for name, value in row.items()}


DOORS: list[Reading] = [
    by_table, by_reader, by_number, by_named_columns, by_arrow, by_stream, by_arrow_dataset,
    by_partitions, by_pandas, by_sliced,
]  # fmt: skip


def shown_before(data: Grown) -> list[set[str]]:
    """The columns that were there before each append."""
    appends = [names for _, names in data.appends]
    return [set().union(*appends[:number]) for number in range(len(appends))]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_door_gives_what_was_appended(tmp_path: Path, seed: int) -> None:
    data = grown(tmp_path, seed)
    for door in DOORS:
        assert door(data) == data.rows, door.__name__
    assert [(each.record, set(each.added)) for each in tfs.info(data.url).growth if each.added] == [
        (first, names - shown)
        for (first, names), shown in zip(data.appends, shown_before(data), strict=True)
        if shown and names - shown
    ]
    filled = tfs.infer_schema(data.url).with_defaults(data.defaults)
    found = tfs.read_table(data.url, schema=filled, nulls="default")
    wanted = [{name: row[name] for name in data.defaults} for row in data.filled()]
    assert rows_of(found, data.defaults) == wanted

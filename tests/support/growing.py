"""Datasets that grow: months of random columns, appended by random doors, and as plain dicts."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tfio_store as tfs
from tfio_store.tables.write_table import TableJob

Row = dict[str, Any]


class Column(NamedTuple):
    """A feature, a value of it, and what a reader without nulls is given in its place."""

    feature: tfs.Feature
    make: Callable[[random.Random], Any]
    default: Any


def _some(chance: random.Random) -> list[int]:
    return [chance.randint(-9, 9) for _ in range(chance.randint(0, 3))]


PLAIN = {
    "i": Column(tfs.Feature("int64"), lambda chance: chance.randint(-(2**40), 2**40), -1),
    "f": Column(tfs.Feature("float32"), lambda chance: chance.randint(-9, 9) / 4, -0.5),
    "b": Column(tfs.Feature("bytes"), lambda chance: chance.randbytes(3), b"none"),
    "v": Column(tfs.Feature("int64", (2,)), lambda chance: [chance.randint(0, 9), 7], [8, 9]),
}
"""Columns of which a record shows all that a schema says."""

RICH = {
    **PLAIN,
    "r": Column(tfs.Feature("int64", (None,)), _some, []),
    "s": Column(tfs.Feature("str"), lambda chance: chance.choice(["ä", "", "text"]), "none"),
    "u": Column(tfs.Feature("uint8"), lambda chance: chance.randint(0, 255), 9),
    "t": Column(
        tfs.Feature("datetime64[ms]"),
        lambda chance: datetime(2026, 1, 1) + timedelta(milliseconds=chance.randint(0, 10**9)),
        datetime(2000, 1, 1),
    ),
}

Writing = Callable[[str, list[Row], tfs.Schema], object]


def _dicts(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    with tfs.ShardedWriter(url, num_shards=1, schema=schema, if_exists="append") as writer:
        writer.write_batch(rows)


def _learned(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
        for row in rows:
            writer.write({name: value for name, value in row.items() if value is not None})


def _job(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    with tfs.WriteJob(url, schema=schema, if_exists="append") as job:
        job.commit([job.write([row], number) for number, row in enumerate(rows)])


def _columns(rows: list[Row], schema: tfs.Schema) -> dict[str, Any]:
    return {name: [row[name] for row in rows] for name in schema}


def _table(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    tfs.write_table(_columns(rows, schema), url, schema=schema, if_exists="append")


def _arrow(rows: list[Row], schema: tfs.Schema) -> Any:
    import pyarrow as pa

    kinds: dict[str, Any] = {
        "i": pa.int64(), "f": pa.float32(), "b": pa.binary(), "v": pa.list_(pa.int64(), 2),
        "r": pa.list_(pa.int64()), "s": pa.string(), "u": pa.uint8(), "t": pa.timestamp("ms"),
    }  # fmt: skip
    return pa.table(_columns(rows, schema), schema=pa.schema({n: kinds[n] for n in schema}))


def _arrow_table(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    tfs.write_table(_arrow(rows, schema), url, if_exists="append")


def _engine(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    """As Ray, Spark, Dask and Beam write tables."""
    job = TableJob.begin(url, if_exists="append")
    table = _arrow(rows, schema)
    job.commit([job.write([table[i : i + 1]], i) for i in range(len(rows))])


def _converted(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    from pyarrow import feather

    feather.write_feather(_arrow(rows, schema), f"{url}.arrow")
    tfs.convert(f"{url}.arrow", url, if_exists="append")


def _copied(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    tfs.write_table(_columns(rows, schema), f"{url}.month", schema=schema, if_exists="overwrite")
    tfs.copy(f"{url}.month", url, if_exists="append")


def _copied_files(url: str, rows: list[Row], schema: tfs.Schema) -> None:
    with tfs.TFRecordWriter(f"{url}.tfrecord") as writer:
        for row in rows:
            writer.write(tfs.encode_example({n: v for n, v in row.items() if v is not None}))
    tfs.copy(f"{url}.tfrecord", url, if_exists="append")


DOORS: list[Writing] = [_dicts, _job, _table, _arrow_table, _engine, _converted, _copied]
"""These are told what each column is."""

LOOKING: list[Writing] = [_learned, _copied_files]
"""These look at the records."""


class Grown(NamedTuple):
    """A dataset, its columns, its rows with all of them, and of each append: how many rows it
    found, and which columns it showed."""

    url: str
    columns: dict[str, Column]
    rows: list[Row]
    appends: list[tuple[int, set[str]]]

    @property
    def defaults(self) -> dict[str, Any]:
        """Those of the features that have no rows of any length."""
        columns = self.columns.items()
        return {name: each.default for name, each in columns if not each.feature.ragged}

    def filled(self) -> list[Row]:
        """The rows, with a default in the place of each null."""
        return [
            {
                name: self.columns[name].default if value is None else value
                for name, value in row.items()
            }
            for row in self.rows
        ]


def grown(folder: Path, seed: int) -> Grown:
    """Three to six appends. Each brings some of the columns, some of which miss in some rows."""
    chance = random.Random(seed)
    known, doors = (RICH, DOORS) if seed % 2 else (PLAIN, [*DOORS, *LOOKING])
    url = str(folder / f"grown-{seed}")
    appends: list[tuple[int, set[str]]] = []
    found: list[Row] = []
    for month in range(chance.randint(3, 6)):
        names = chance.sample(sorted(known), chance.randint(1, len(known)))
        lacking = {name for name in names if chance.random() < 0.3}
        features = {
            name: tfs.Feature(of.dtype, of.shape, nullable=name in lacking)
            for name, of in ((name, known[name].feature) for name in names)
        }
        rows: list[Row] = [
            {
                name: None
                if name in lacking and chance.random() < 0.5
                else known[name].make(chance)
                for name in names
            }
            for _ in range(chance.randint(1, 4))
        ]
        write = chance.choice(doors if month else DOORS)
        has = {name for name in names if any(row[name] is not None for row in rows)}
        appends.append((len(found), has if write in LOOKING else set(names)))
        write(url, rows, tfs.Schema(features))
        found += rows
    schema = tfs.infer_schema(url)
    columns = {name: known[name] for name in schema}
    return Grown(
        url, columns, [{name: row.get(name) for name in columns} for row in found], appends
    )


def plain(value: Any) -> Any:
    """A value of any door: arrays as lists, a masked row as None."""
    if isinstance(value, np.ma.MaskedArray) or value is np.ma.masked:
        value = value.tolist()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        found = [plain(each) for each in value]
        return None if found and all(each is None for each in found) else found
    return value


def rows_of(columns: Any, names: Any) -> list[Row]:
    """The rows of decoded columns."""
    lists = {name: columns[name].tolist() for name in names}
    count = max(map(len, lists.values()))
    return [{name: plain(lists[name][i]) for name in names} for i in range(count)]


def number(value: Any) -> Any:
    """A time as where there are none: its milliseconds."""
    return (
        int(np.datetime64(value, "ms").astype(np.int64)) if isinstance(value, datetime) else value
    )

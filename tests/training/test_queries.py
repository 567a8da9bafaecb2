"""Query engines over a dataset: the recipes of docs/tables.md as they stand, and what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tests.support.pages import blocks_of

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed")
pl = pytest.importorskip("polars", reason="Polars is not installed")
pa = pytest.importorskip("pyarrow")

RECIPES = blocks_of("docs/tables.md", "python", "Queries")
ROWS = 20_000
LABELS = [("cat", "dog", None)[i % 3] for i in range(ROWS)]
PRICES = [float(i * 37 % 101) if i % 7 else None for i in range(ROWS)]
COLUMNS = {"label": LABELS, "price": pa.array(PRICES), "photo": [b"%d" % i for i in range(ROWS)]}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    url = f"{tmp_path_factory.mktemp('tables')}/train"
    tfs.write_table(pa.table(COLUMNS), url, max_shard_bytes=1 << 18)
    return url


def run(number: int, url: str) -> dict[str, Any]:
    names: dict[str, Any] = {"tfs": tfs}
    recipe = RECIPES[number].replace("s3://bucket/train", url)
    exec(compile(recipe, f"docs/tables.md, query {number}", "exec"), names)
    return names


def prices(label: str | None) -> list[float]:
    rows = zip(LABELS, PRICES, strict=True)
    return [price for each, price in rows if each == label and price is not None]


def test_duckdb(url: str) -> None:
    count = Counter(LABELS)
    wanted = [(x, count[x], pytest.approx(np.mean(prices(x)))) for x in ("cat", "dog", None)]
    assert run(0, url)["prices"] == wanted


def test_polars(url: str) -> None:
    found = {row["label"]: row["len"] for row in run(1, url)["counts"].to_dicts()}
    labels = ("cat", "dog", None)
    assert found == {x: sum(price > 50 for price in prices(x)) for x in labels}


def test_pandas(url: str) -> None:
    assert run(2, url)["total"] == sum(price for price in PRICES if price is not None)


def test_pyarrow(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(3, url)
    found = pl.read_parquet("dear/*.parquet")
    assert found.columns == ["label", "price"]
    assert sorted(found["price"]) == sorted(p for p in PRICES if p is not None and p > 50)


def test_a_reader_that_is_read_once(url: str) -> None:
    reader = tfs.iter_tables(url)
    assert isinstance(reader, pa.RecordBatchReader)
    assert duckdb.sql("select count(*) from reader").fetchall() == [(ROWS,)]
    assert pl.from_arrow(tfs.iter_tables(url)).height == ROWS


def test_a_dataset_is_queried_again_and_joined_with_itself(url: str) -> None:
    train = tfs.arrow_dataset(url)
    same = train
    for _ in range(2):
        assert duckdb.sql("select count(*) from train").fetchall() == [(ROWS,)]
    joined = "select count(*) from train join same using (photo) where train.price > 50"
    wanted = sum(price > 50 for price in PRICES if price is not None)
    assert duckdb.sql(joined).fetchall() == [(wanted,)]
    assert same is train


WHERE = {
    "label is null": lambda label, price: label is None,
    "price >= 50 and label = 'dog'": lambda label, price: (price or 0) >= 50 and label == "dog",
    "price in (1, 2, 3) or label = 'cat'": lambda label, price: (
        price in (1, 2, 3) or label == "cat"
    ),
    "not (price < 50)": lambda label, price: price is not None and price >= 50,
}


@pytest.mark.parametrize("where", WHERE)
def test_filters_of_both_engines_are_plain_python_s(url: str, where: str) -> None:
    train = tfs.arrow_dataset(url)
    rows = zip(LABELS, PRICES, COLUMNS["photo"], strict=True)
    wanted = [photo for label, price, photo in rows if WHERE[where](label, price)]
    found = duckdb.sql(f"select photo from train where {where}").fetchall()
    assert sorted(photo for (photo,) in found) == sorted(wanted)
    lazy = pl.SQLContext(train=pl.scan_pyarrow_dataset(train))
    frame = lazy.execute(f"select photo from train where {where}").collect()
    assert sorted(frame["photo"]) == sorted(wanted)


def test_an_error_in_the_middle_names_path_and_offset(tmp_path: Path) -> None:
    records = [tfs.encode_example({"x": np.arange(i, i + 2000)}) for i in range(600)]
    (tmp_path / "f").write_bytes(flipped(framed(records), -100))
    where = rf"{tmp_path}/f.*{len(framed(records[:-1]))}"
    train = tfs.arrow_dataset(tmp_path / "f", {"x": ("int64", (2000,))})
    with pytest.raises(Exception, match=where):
        duckdb.sql("select count(x) from train").fetchall()
    with pytest.raises(Exception, match=where):
        pl.scan_pyarrow_dataset(train).select(pl.col("x").count()).collect()


_PEAK = """
import sys, duckdb, polars as pl, tfio_store as tfs
duckdb.sql("set enable_progress_bar = false")  # which a busy machine would see
def peak():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) >> 10
engine, url = sys.argv[1:]
small = tfs.arrow_dataset(url + "-small", memory_budget=32 << 20)
whole = tfs.arrow_dataset(url, memory_budget=32 << 20)
def ask(train):
    if engine == "duckdb":
        return duckdb.sql("select count(*), sum(octet_length(blob)), max(x) from train").fetchall()
    frame = pl.scan_pyarrow_dataset(train).select(
        pl.len(), pl.col("blob").bin.size().sum(), pl.col("x").max()
    )
    return frame.collect(engine="streaming").rows()
ask(small)
before = peak()
print(*ask(whole)[0], peak() - before)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize("engine", ["duckdb", "polars"])
def test_what_is_longer_than_memory_is_read_in_little(tmp_path: Path, engine: str) -> None:
    """512 MiB of rows. The engine's own pools are warm by then."""

    def rows(count: int) -> Any:
        for x in range(count):
            yield pa.table({"x": [x] * 64, "blob": [b"%08d" % x * (1 << 11)] * 64})

    url = f"{tmp_path}/train"
    tfs.write_table(rows(512), url, num_shards=2, compression="GZIP")
    tfs.write_table(rows(16), f"{url}-small", num_shards=2, compression="GZIP")
    found = subprocess.run(
        [sys.executable, "-c", _PEAK, engine, url],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    count, nbytes, most, grown = map(int, found.stdout.split())
    assert (count, nbytes, most) == (512 * 64, 512 << 20, 511)
    assert grown < 160

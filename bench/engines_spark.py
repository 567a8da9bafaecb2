"""Spark: a data frame to a dataset and back, beside Parquet of the same rows.

Two worker threads (``local[2]``). Files are local, and uncompressed in both formats. Reading counts
as Spark's own benchmarks do: the rows go to its ``noop`` sink.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.timing import machine, medians, table
from tests.engines.spark_session import spark_session

ROWS = 1_000_000

COLUMNS = (
    *(f"id * {k + 1} as i{k}" for k in range(4)),
    *(f"cast(id as float) / {k + 3} as f{k}" for k in range(4)),
    *(f"concat('word-', id % {1000 + k}) as s{k}" for k in range(2)),
)
"""4 of int64, 4 of float32, 2 of short strings."""


class Ways:
    """Writing ``rows`` rows into ``folder``, and reading them back."""

    def __init__(self, spark: Any, folder: Path, rows: int) -> None:
        self.spark, self.folder = spark, folder
        self.frame = spark.range(0, rows, 1, 4).selectExpr(*COLUMNS).cache()
        self.frame.count()

    def write(self, form: str) -> None:
        writer = self.frame.write.format(form).mode("overwrite")
        if form == "parquet":
            writer = writer.option("compression", "none")
        else:
            shutil.rmtree(self.folder / form, ignore_errors=True)
            writer = writer.option("keepReplaced", "0")
        writer.save(str(self.folder / form / "t"))

    def read(self, form: str, columns: str | None = None) -> None:
        reader = self.spark.read.format(form)
        reader = reader if columns is None else reader.schema(columns)
        rows = reader.load(str(self.folder / form / "t"))
        rows.write.format("noop").mode("overwrite").save()


def report(*, rows: int = ROWS, rounds: int = 3) -> str:
    """The table."""
    with (
        tempfile.TemporaryDirectory() as folder,
        spark_session(Path(folder), "local[2]") as spark,
    ):
        ways = Ways(spark, Path(folder), rows)
        calls: dict[str, Callable[[], object]] = {}
        for form in ("parquet", "tfio_store"):
            calls[f"write {form}"] = lambda f=form: ways.write(f)
        for call in calls.values():
            call()
        for form in ("parquet", "tfio_store"):
            calls[f"read {form}"] = lambda f=form: ways.read(f)
            calls[f"read one column of {form}"] = lambda f=form: ways.read(f, "i0 bigint")
        times = medians(calls, rounds=rounds, round_s=0)
    lines = []
    for what in ("write", "read", "read one column of"):
        own, ours = times[f"{what} parquet"], times[f"{what} tfio_store"]
        speed = [f"{rows / seconds / 1e3:.0f}" for seconds in (own, ours)]
        lines.append([what.removesuffix(" of"), *speed, f"{own / ours:.2f}x"])
    title = f"Spark, {rows:,} rows of 10 columns: thousand rows/s"
    return table(title, ["", "Parquet", "tfio_store", "times"], lines)


if __name__ == "__main__":
    print(machine(), report(), sep="\n\n")

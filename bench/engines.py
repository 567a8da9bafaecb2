"""``make bench-engines``: local files read and written by Beam, Ray and Spark.

Beam: beside its own ``ReadFromTFRecord``, on its FnApiRunner in this process. Ray: two workers
beside its own ``read_tfrecords``, which checks no CRC; reading ends when all blocks are in Ray's
object store. Spark: two threads (``local[2]``) beside Parquet, uncompressed in both formats; what
is read goes to Spark's ``noop`` sink, as its own benchmarks do it.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.timing import machine, medians, table

Ways = dict[str, Callable[[], object]]

# --- Beam -------------------------------------------------------------------------------

BEAM_ROWS = {"100 B": (100, 400_000), "1 KiB": (1024, 400_000), "100 KiB": (100 << 10, 4_000)}
"""Bytes of a record, and how many there are."""


def beam(folder: Path) -> str:
    from apache_beam.io import ReadFromTFRecord as Own

    from tfio_store.beam import ReadFromTFRecord

    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    rows = []
    for name, (nbytes, count) in BEAM_ROWS.items():
        url, data = f"{folder}/{nbytes}", np.random.default_rng(0).bytes(nbytes - 30)
        with tfs.ShardedWriter(url, num_shards=1, schema={"x": "int64", "data": "bytes"}) as writer:
            writer.write_batch(tfs.encode_examples({"x": np.arange(count), "data": [data] * count}))
        (file,) = map(str, folder.glob(f"{nbytes}-*"))
        ways: Ways = {
            "Beam's own": lambda f=file: beam_counts(Own(f)),
            "one by one": lambda u=url: beam_counts(ReadFromTFRecord(u)),
            "batched": lambda u=url: beam_counts(ReadFromTFRecord(u, batched=True), rows_of),
            "batched, 1 of 2 columns": lambda u=url: beam_counts(
                ReadFromTFRecord(u, batched=True, columns=["x"]), rows_of
            ),
        }
        own, *times = medians(ways, rounds=3).values()
        speeds = [f"{count / taken / 1e3:.0f} ({own / taken:.1f}x)" for taken in times]
        rows.append([name, f"{count / own / 1e3:.0f}", *speeds])
    return table("Beam reads one local file: thousand records/s", ["record", *ways], rows)


def rows_of(batch: Any) -> int:
    return int(batch.num_rows)


def beam_counts(source: Any, size: Callable[[Any], int] | None = None) -> None:
    """Count what ``source`` reads: elements, or so many in each."""
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    with beam.Pipeline("FnApiRunner", options=PipelineOptions([])) as p:
        elements = p | source
        if size is None:
            _ = elements | beam.combiners.Count.Globally()
        else:
            _ = elements | beam.Map(size) | beam.CombineGlobally(sum)


# --- Ray --------------------------------------------------------------------------------

RAY_ROWS = {"100 B": (100, 4_000), "1 KiB": (1 << 10, 4_000), "100 KiB": (100 << 10, 1_500)}
"""Bytes of a record, and how many there are. Ray's own reader makes a table of each."""
NUMBERS, STRINGS = 4, 12
"""Columns of int64, as many of float32, and of byte strings."""


def ray(folder: Path) -> str:
    os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_worker_niceness="0")
    import ray

    ray.init(
        num_cpus=2,
        include_dashboard=False,
        object_store_memory=2 << 30,
        log_to_driver=False,
        logging_level="ERROR",
        _temp_dir=f"{folder}/ray",
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    lines = []
    for size, (nbytes, count) in RAY_ROWS.items():
        for what, ways in ray_ways(folder / str(nbytes), nbytes, count).items():
            theirs, ours = medians(ways, rounds=1).values()
            speeds = [f"{count / taken:,.0f}" for taken in (theirs, ours)]
            lines.append([size, what, *speeds, f"{theirs / ours:.1f}x"])
    ray.shutdown()
    return table("Ray: rows/s", ["record", "", "Ray's own", "tfio_store", "times"], lines)


def ray_ways(folder: Path, nbytes: int, count: int) -> dict[str, Ways]:
    """Ray's own way and ours, of reading and of writing."""
    from ray import data

    from tfio_store.ray import read_tfrecords, write_tfrecords

    made, url = ray_rows(nbytes, count), str(folder / "train")
    tfs.write_table(made, url, num_shards=2)
    files = sorted(map(str, folder.glob("train-*")))
    blocks = data.from_arrow([made[: count // 2], made[count // 2 :]])

    def taken(rows: Any) -> None:
        assert rows.materialize().count() == count

    def theirs() -> Any:
        return data.read_tfrecords(files, override_num_blocks=2)

    def ours() -> Any:
        return read_tfrecords(url, override_num_blocks=2)

    def written(write: Callable[[str], object]) -> None:
        shutil.rmtree(folder / "out", ignore_errors=True)
        write(f"{folder}/out/train")

    return {
        "read": {"theirs": lambda: taken(theirs()), "ours": lambda: taken(ours())},
        "read 1 of 20 columns": {
            "theirs": lambda: taken(theirs().select_columns(["i0"])),
            "ours": lambda: taken(ours().select_columns(["i0"])),
        },
        "write": {
            "theirs": lambda: written(blocks.write_tfrecords),
            "ours": lambda: written(lambda target: write_tfrecords(blocks, target)),
        },
    }


def ray_rows(nbytes: int, rows: int) -> Any:
    """Columns whose values take about so many bytes a row."""
    import pyarrow as pa

    chance = np.random.default_rng(nbytes)
    width = max(2, (nbytes - 12 * NUMBERS) // STRINGS)
    columns: dict[str, Any] = {}
    for i in range(NUMBERS):
        columns[f"i{i}"] = chance.integers(0, 1000, rows)
        columns[f"f{i}"] = chance.random(rows, np.float32)
    for i in range(STRINGS):
        offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * width)
        buffers = [None, offsets, pa.py_buffer(chance.bytes(width * rows))]
        columns[f"b{i}"] = pa.Array.from_buffers(pa.binary(), rows, buffers)
    return pa.table(columns)


# --- Spark ------------------------------------------------------------------------------

SPARK_ROWS = 1_000_000
SPARK_COLUMNS = (
    *(f"id * {k + 1} as i{k}" for k in range(4)),
    *(f"cast(id as float) / {k + 3} as f{k}" for k in range(4)),
    *(f"concat('word-', id % {1000 + k}) as s{k}" for k in range(2)),
)
"""4 of int64, 4 of float32, 2 of short strings."""


def spark(folder: Path) -> str:
    from tests.engines.spark_session import spark_session

    with spark_session(folder, "local[2]") as session:
        frame = session.range(0, SPARK_ROWS, 1, 4).selectExpr(*SPARK_COLUMNS).cache()
        frame.count()

        def write(form: str) -> None:
            shutil.rmtree(folder / form, ignore_errors=True)
            options = {"compression": "none"} if form == "parquet" else {"keepReplaced": "0"}
            writer = frame.write.format(form).mode("overwrite").options(**options)
            writer.save(str(folder / form / "t"))

        def read(form: str, columns: str | None = None) -> None:
            reader = session.read.format(form)
            reader = reader if columns is None else reader.schema(columns)
            rows = reader.load(str(folder / form / "t"))
            rows.write.format("noop").mode("overwrite").save()

        calls: dict[str, Callable[[str], None]] = {
            "write": write,
            "read": read,
            "read one column": lambda form: read(form, "i0 bigint"),
        }
        lines = []
        for what, call in calls.items():
            ways: Ways = {f: lambda f=f, c=call: c(f) for f in ("parquet", "tfio_store")}
            own, ours = medians(ways, rounds=3).values()
            speeds = [f"{SPARK_ROWS / taken / 1e3:.0f}" for taken in (own, ours)]
            lines.append([what, *speeds, f"{own / ours:.2f}x"])
    title = f"Spark, {SPARK_ROWS:,} rows of 10 columns: thousand rows/s"
    return table(title, ["", "Parquet", "tfio_store", "times"], lines)


ENGINES: dict[str, Callable[[Path], str]] = {"beam": beam, "ray": ray, "spark": spark}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as top:
        print(machine(), ENGINES[sys.argv[1]](Path(top)), sep="\n\n")

"""Ray: datasets read and written by two workers, beside Ray's own ``read_tfrecords``.

The same local files for both: 20 columns, of which 4 are int64, 4 float32 and 12 byte strings.
Reading ends when all blocks are in Ray's object store. Ray's reader checks no CRC; ours checks all.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import tfio_store as tfs
from bench.timing import machine, medians, table

ROWS = {"100 B": 4_000, "1 KiB": 4_000, "100 KiB": 1_500}
"""Of each size of record. Ray's own reader makes a table of each."""

NBYTES = {"100 B": 100, "1 KiB": 1 << 10, "100 KiB": 100 << 10}
NUMBERS = 4
STRINGS = 12


def rows_of(nbytes: int, rows: int) -> pa.Table:
    """Columns whose values take about so many bytes a row."""
    chance = np.random.default_rng(nbytes)
    width = max(2, (nbytes - 12 * NUMBERS) // STRINGS)
    columns: dict[str, Any] = {}
    for i in range(NUMBERS):
        columns[f"i{i}"] = chance.integers(0, 1000, rows)
        columns[f"f{i}"] = chance.random(rows, np.float32)
    for i in range(STRINGS):
        data = chance.bytes(width * rows)
        offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * width)
        buffers = [None, offsets, pa.py_buffer(data)]
        columns[f"b{i}"] = pa.Array.from_buffers(pa.binary(), rows, buffers)
    return pa.table(columns)


class Ways:
    """Reading and writing the rows of one size."""

    def __init__(self, folder: Path, size: str) -> None:
        import ray

        self.data, self.folder = ray.data, folder / size.replace(" ", "")
        self.rows = ROWS[size]
        self.table = rows_of(NBYTES[size], self.rows)
        self.folder.mkdir()
        tfs.write_table(self.table, str(self.folder / "train"), num_shards=2)
        self.files = sorted(str(path) for path in self.folder.glob("train-*"))
        half = self.rows // 2
        self.blocks = self.data.from_arrow([self.table[:half], self.table[half:]])

    def ours(self, columns: list[str] | None = None) -> None:
        from tfio_store.ray import read_tfrecords

        self._take(read_tfrecords(str(self.folder / "train"), override_num_blocks=2), columns)

    def theirs(self, columns: list[str] | None = None) -> None:
        self._take(self.data.read_tfrecords(self.files, override_num_blocks=2), columns)

    def _take(self, dataset: Any, columns: list[str] | None) -> None:
        taken = dataset if columns is None else dataset.select_columns(columns)
        assert taken.materialize().count() == self.rows

    def write_ours(self) -> None:
        from tfio_store.ray import write_tfrecords

        target = self.folder / "ours"
        shutil.rmtree(target, ignore_errors=True)
        write_tfrecords(self.blocks, str(target / "train"))

    def write_theirs(self) -> None:
        target = self.folder / "theirs"
        shutil.rmtree(target, ignore_errors=True)
        self.blocks.write_tfrecords(str(target))


def ratios(folder: Path, rounds: int) -> Iterator[list[str]]:
    """A line for each size and way: rows/s of Ray's and ours."""
    for size in ROWS:
        ways = Ways(folder, size)
        pairs: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "read": (ways.theirs, ways.ours),
            "read 1 of 20 columns": (
                lambda w=ways: w.theirs(["i0"]),
                lambda w=ways: w.ours(["i0"]),
            ),
            "write": (ways.write_theirs, ways.write_ours),
        }
        for what, (theirs, ours) in pairs.items():
            times = medians({"theirs": theirs, "ours": ours}, rounds=rounds, round_s=0)
            speed = [f"{ways.rows / times[name]:,.0f}" for name in ("theirs", "ours")]
            yield [size, what, *speed, f"{times['theirs'] / times['ours']:.1f}x"]


@contextlib.contextmanager
def cluster(folder: str) -> Iterator[None]:
    """Ray on this machine, as silent as it can be."""
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
    try:
        yield
    finally:
        ray.shutdown()


def report(*, rounds: int = 1) -> str:
    """The table."""
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as folder, cluster(folder):
        lines = list(ratios(Path(folder), rounds))
    return table("Ray: rows/s", ["record", "", "Ray's own", "tfio_store", "times"], lines)


if __name__ == "__main__":
    print(machine(), report(), sep="\n\n")

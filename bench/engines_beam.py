"""Beam: reading beside Beam's own `ReadFromTFRecord`, on its FnApiRunner in this process.

It counts the records of one local file, or the rows of its batches.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.timing import machine, medians, table

SIZES = {"100 B": (100, 400_000), "1 KiB": (1024, 400_000), "100 KiB": (100 << 10, 4_000)}
"""Bytes of a record, and how many there are."""


def write_file(folder: str, nbytes: int, count: int) -> str:
    """A dataset of one shard, whose records are Examples of about so many bytes."""
    name = f"{folder}/{nbytes}"
    data = np.random.default_rng(0).bytes(nbytes)
    rows = tfs.encode_examples({"x": np.arange(count), "data": [data[: nbytes - 30]] * count})
    with tfs.ShardedWriter(name, num_shards=1, schema={"x": "int64", "data": "bytes"}) as writer:
        writer.write_batch(rows)
    return name


def read(source: Any, size: Callable[[Any], int] | None = None) -> None:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    with beam.Pipeline("FnApiRunner", options=PipelineOptions([])) as p:
        elements = p | source
        if size is None:
            _ = elements | beam.combiners.Count.Globally()
        else:
            _ = elements | beam.Map(size) | beam.CombineGlobally(sum)


def reading(folder: str, rounds: int) -> str:
    from apache_beam.io import ReadFromTFRecord as Own

    from tfio_store.beam import ReadFromTFRecord

    rows = []
    for name, (nbytes, count) in SIZES.items():
        url = write_file(folder, nbytes, count)
        (file,) = Path(folder).glob(f"{nbytes}-*")
        ways: dict[str, Callable[[], object]] = {
            "Beam's own": lambda f=file: read(Own(str(f))),
            "one by one": lambda u=url: read(ReadFromTFRecord(u)),
            "batched": lambda u=url: read(
                ReadFromTFRecord(u, batched=True), lambda batch: batch.num_rows
            ),
            "batched, 1 column": lambda u=url: read(
                ReadFromTFRecord(u, batched=True, columns=["x"]), lambda batch: batch.num_rows
            ),
        }
        times = medians(ways, rounds=rounds, round_s=0)
        own = times["Beam's own"]
        rows.append(
            [name, f"{count / own / 1e3:.0f}"]
            + [f"{count / times[way] / 1e3:.0f} ({own / times[way]:.1f}x)" for way in [*ways][1:]]
        )
    columns = ["record", "Beam's own", "one by one", "batched", "batched, 1 of 2 columns"]
    return table("Beam reads one local file: thousand records/s", columns, rows)


def report(*, rounds: int = 3) -> str:
    """The table."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        return reading(folder, rounds)


if __name__ == "__main__":
    print(machine(), report(), sep="\n\n")

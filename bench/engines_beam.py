"""Beam: reading and writing beside Beam's own `ReadFromTFRecord` and `WriteToTFRecord`.

All run on Beam's FnApiRunner in this process. Reading counts the records of one local file, or the
rows of its batches. Writing goes to an S3 server (moto) through a proxy that notes each request.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.timing import medians, table
from tests.conftest import fresh_bucket
from tests.servers.moto import KEY, SECRET, moto
from tests.servers.shaping_proxy import shaped

SIZES = {"100 B": (100, 400_000), "1 KiB": (1024, 400_000), "100 KiB": (100 << 10, 4_000)}
"""Bytes of a record, and how many there are."""

SHARDS, RECORDS = 100, 10_000
"""Of the dataset on S3."""


def pipeline(**options: Any) -> Any:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    return beam.Pipeline("FnApiRunner", options=PipelineOptions([], **options))


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

    with pipeline() as p:
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


def writing() -> str:
    """Requests of a dataset of `SHARDS` shards."""
    import apache_beam as beam
    from apache_beam.io import WriteToTFRecord as Own

    from tfio_store.beam import WriteToTFRecord

    records = [b"%07d" % i * 100 for i in range(RECORDS)]
    lines = []
    with moto() as endpoint:
        for name in ("Beam's own", "tfio_store"):
            bucket = fresh_bucket(endpoint)
            with shaped(endpoint) as proxy:
                where = {**bucket.storage_options, "endpoint_url": proxy.endpoint}
                own = Own(bucket.url("t"), num_shards=SHARDS)
                ours = WriteToTFRecord(bucket.url("t"), num_shards=SHARDS, storage_options=where)
                start = time.perf_counter()
                with pipeline(**own_options(proxy.endpoint)) as p:
                    _ = p | beam.Create(records) | (ours if name == "tfio_store" else own)
                seconds = time.perf_counter() - start
                kinds = proxy.kinds()
            asked = [kinds.get(kind, 0) for kind in KINDS]
            lines.append([name, *map(str, asked), str(sum(kinds.values())), f"{seconds:.1f}"])
    title = f"Beam writes {SHARDS} shards to S3: requests"
    return table(title, ["", *KINDS, "in all", "seconds"], lines)


KINDS = ("PUT", "POST", "GET", "HEAD", "COPY", "DELETE")


def own_options(endpoint: str) -> dict[str, Any]:
    """How Beam's own client finds the server."""
    return {
        "s3_endpoint_url": endpoint,
        "s3_access_key_id": KEY,
        "s3_secret_access_key": SECRET,
        "s3_region_name": "us-east-1",
    }


def report(*, rounds: int = 3) -> str:
    """Both tables."""
    logging.getLogger("apache_beam").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        return f"{reading(folder, rounds)}\n{writing()}"

"""``make long ONLY=resident``: what each door holds resident above its imports, beside its budget.

Records of 100 B, 100 kB and 20 MB, raw and GZIP, local and from a bucket (`bench.fast_store`), on 2
cores and on 64 pretended ones. Each run is a process of its own: the most that it held while it
read all, less what it held after it had read a small dataset in the same way. A row gives the worst
of its kinds of records, and which that was.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZES = {"100 B": 100, "100 kB": 100_000, "20 MB": 20_000_000}
BATCHES = {"100 B": 1024, "100 kB": 32, "20 MB": 1}
CODECS = ("raw", "GZIP")
BUDGETS = (32, 256)
CORES = (2, 64)
MIB = 1 << 20


def batch_size(url: str) -> int:
    """Rows of a batch that is smaller than the budgets, which hold for no single batch."""
    return next(count for name, count in BATCHES.items() if f"{name.replace(' ', '')}-" in url)


def records(url: str, budget: int, options: dict[str, Any]) -> None:
    import tfio_store as tfs

    for _ in tfs.RecordReader(url, memory_budget=budget, **options).batches():
        pass


def tables(url: str, budget: int, options: dict[str, Any]) -> None:
    del budget  # its own
    import tfio_store as tfs

    for _ in tfs.iter_tables(url, **options):
        pass


def tensors(url: str, budget: int, options: dict[str, Any]) -> None:
    from tfio_store.torch import TFRecordIterable

    for _ in TFRecordIterable(url, batch_size=batch_size(url), memory_budget=budget, **options):
        pass


def shuffled(url: str, budget: int, options: dict[str, Any]) -> None:
    from tfio_store.torch import TFRecordIterable

    for _ in TFRecordIterable(
        url, batch_size=batch_size(url), shuffle=True, memory_budget=budget, **options
    ):
        pass


def pipeline(url: str, budget: int, options: dict[str, Any]) -> None:
    import numpy as np

    import tfio_store as tfs

    dataset = tfs.TFRecordDataset(url, batch_size=batch_size(url), memory_budget=budget, **options)
    dataset.reduce(np.int64(0), lambda count, _: count + 1)


DOORS: dict[str, tuple[str, Callable[[str, int, dict[str, Any]], None]]] = {
    "RecordReader": ("tfio_store", records),
    "iter_tables": ("pyarrow", tables),
    "TFRecordIterable": ("torch", tensors),
    "TFRecordIterable, shuffled": ("torch", shuffled),
    "TFRecordDataset": ("tensorflow", pipeline),
}


def write(folder: str, mib: int) -> None:
    import numpy as np

    import tfio_store as tfs

    values = np.random.default_rng(1)
    for (name, size), codec in itertools.product(SIZES.items(), CODECS):
        noise = values.integers(0, 64, size, dtype=np.uint8).tobytes()
        row = tfs.encode_example({"x": noise})
        for where, count in (("", mib * MIB // size), ("small-", 2)):
            with tfs.ShardedWriter(
                f"{folder}/bench/{where}{_key(name, codec)}",
                num_shards=4 if count > 4 else 1,
                compression=None if codec == "raw" else codec,
                schema={"x": "bytes"},
            ) as writer:
                writer.write_batch([row] * count)


def _key(name: str, codec: str) -> str:
    return f"{name.replace(' ', '')}-{codec}"


def resident(field: str) -> float:
    """VmRSS, or VmHWM: the most since it was last set back."""
    status = Path("/proc/self/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith(field))
    return int(line.split()[1]) / 1024


def one(door: str, prefix: str, endpoint: str, key: str, budget: int, cores: int) -> None:
    """In a process of its own."""
    from tfio_store.storage import Storage, cores as counted
    from tfio_store.storage.threads import PerProcess

    counted._cores = PerProcess(lambda: cores)
    options: dict[str, Any] = {}
    if endpoint:
        keys = {"key": "bench", "secret": "bench-secret"}
        options["storage"] = Storage({"endpoint_url": endpoint, **keys})
    read = DOORS[door][1]
    read(f"{prefix}/small-{key}", budget * MIB, options)
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins anew
    before = resident("VmRSS")
    read(f"{prefix}/{key}", budget * MIB, options)
    print(json.dumps(resident("VmHWM") - before))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=512, help="data of each kind")
    parser.add_argument("--only", default="", help="some of the doors, by commas")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        door, prefix, endpoint, key, budget, cores = given.one
        one(door, prefix, endpoint, key, int(budget), int(cores))
        return
    from bench.fast_store import fast_store
    from bench.timing import machine, table

    doors = [
        door
        for door, (module, _) in DOORS.items()
        if importlib.util.find_spec(module) and (not given.only or door in given.only.split(","))
    ]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        write(folder, given.mib)
        with fast_store(folder) as endpoint:
            for door, codec, cores in itertools.product(doors, CODECS, CORES):
                cells = []
                for budget in BUDGETS:
                    worst = max(
                        (
                            _taken(door, where, endpoint, folder, _key(name, codec), budget, cores),
                            name,
                            where,
                        )
                        for name in SIZES
                        for where in ("local", "bucket")
                    )
                    cells += [f"{worst[0]:.0f}", f"{worst[1]}, {worst[2]}"]
                rows.append([f"{door}, {codec}, {cores} cores", *cells])
                print(*rows[-1], flush=True)
    print(machine())
    heads = [cell for budget in BUDGETS for cell in (f"budget {budget}", "with")]
    print(table("Resident above the imports, MiB", ["", *heads], rows))


def _taken(
    door: str, where: str, endpoint: str, folder: str, key: str, budget: int, cores: int
) -> float:
    prefix = f"{folder}/bench" if where == "local" else "s3://bench"
    given = [door, prefix, endpoint if where == "bucket" else "", key, str(budget), str(cores)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.resident", "--one", *given],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if ran.returncode:
        raise RuntimeError(f"{given}: {ran.stderr[-2000:]}")
    return float(ran.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()

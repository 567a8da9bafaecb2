"""How much memory a pass over a dataset takes, in a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

import tfio_store as tfs

PASS = """
import sys
{imports}
from tests.training.resident import resident

url, budget, shuffle = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
dataset = {dataset}
before, rows = resident(), 0
for batch in dataset:
    rows += len(batch["z"])
print(resident() - before, rows)
"""


def resident() -> int:
    """The most bytes that were resident so far."""
    status = Path("/proc/self/status").read_text("ascii")
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def check_little_is_resident(
    url: str, imports: str, dataset: str, *, rows: int, columns: int, shuffle: bool
) -> None:
    """With a budget of 32 MiB a pass takes at most 64 MiB more. ``dataset`` is an expression of
    ``url``, ``budget`` and ``shuffle``, for batches of so many rows of ``z``."""
    values = np.random.default_rng(1).random((rows, columns), dtype=np.float32)
    tfs.write_table({"z": values}, url, num_shards=2)
    del values
    program = PASS.format(imports=imports, dataset=dataset)
    command = [sys.executable, "-c", program, url, str(32 << 20), str(shuffle)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    grown, given = map(int, ran.stdout.split())
    assert given == rows
    assert grown <= (32 + 64) << 20

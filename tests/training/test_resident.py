"""How much memory a pass over a dataset takes, in a program of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs

PASS = """
import sys
{imports}
from tests.training.test_resident import resident

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


DOORS = {
    "torch": (
        "from tfio_store.torch import TFRecordIterable",
        "TFRecordIterable(url, batch_size=512, memory_budget=budget, shuffle=shuffle, window=4)",
    ),
    "grain": (
        "import tfio_store.grain",
        "tfio_store.grain.stream(url, memory_budget=budget, shuffle=shuffle, window=4).batch(512)",
    ),
}
"""What each imports, and batches of a dataset."""
ROWS = 50_000


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux what is resident")
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("door", DOORS)
def test_little_is_resident_with_a_small_budget(tmp_path: Path, door: str, shuffle: bool) -> None:
    """With a budget of 32 MiB a pass over 100 MB takes at most 64 MiB more."""
    pytest.importorskip(door)
    url = str(tmp_path / "train")
    values = np.random.default_rng(1).random((ROWS, 500), dtype=np.float32)
    tfs.write_table({"z": values}, url, num_shards=2)
    del values
    imports, dataset = DOORS[door]
    program = PASS.format(imports=imports, dataset=dataset)
    command = [sys.executable, "-c", program, url, str(32 << 20), str(shuffle)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    grown, given = map(int, ran.stdout.split())
    assert given == ROWS
    assert grown <= (32 + 64) << 20

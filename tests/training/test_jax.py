"""JAX on two devices: the blocks of docs/jax.md as they stand, and the example that trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.pages import blocks_of

for _package in ("jax", "grain", "orbax.checkpoint"):
    pytest.importorskip(_package, reason=f"{_package} is not installed")

ROOT = Path(__file__).parents[2]
ROWS = 1000

CHECK = f"""
import numpy as np

assert jax.device_count() == 2
assert batch["tokens"].shape == (64, 8)
assert len(batch["tokens"].addressable_shards) == 2
assert all(shard.data.shape == (32, 8) for shard in batch["tokens"].addressable_shards)
np.testing.assert_array_equal(batch["tokens"][:, 0], batch["label"])

for name in expected:
    np.testing.assert_array_equal(found[name], expected[name])
assert iterator.get_state()["global_next_index"] == 11 * 64
assert state["weights"].tolist() == [1, 1, 1]

epoch = iter(batches(batch_size=50))
labels = np.concatenate([next(epoch)["label"] for _ in range({ROWS} // 50)])
assert sorted(labels) == list(range({ROWS}))
halves = [iter(batches(50, (host, 2))) for host in range(2)]
for _ in range({ROWS} // 50):
    both = np.concatenate([next(half)["label"] for half in halves])
    assert sorted(both) == sorted(labels[:50])
    labels = labels[50:]

rows = other
try:
    restore(10, {{"weights": jax.numpy.zeros(3)}}, iter(batches(batch_size=64)))
except ValueError as error:
    assert "the state is of <RecordSource of 1,000 records" in str(error)
else:
    raise AssertionError("a state of another dataset was taken")

assert count == {ROWS} // 32 * 32
streamed = [*given, *rest]
assert sorted(np.concatenate([batch["label"] for batch in streamed])) == list(range({ROWS}))
assert len(first["label"]) == 64
assert sum(first["label"] < 10_000) == 48
print("page done")
"""


def run(*arguments: str, ends: int = 0) -> str:
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]),
    }
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == ends, done.stdout + done.stderr
    return done.stdout


def write(url: str, first: int) -> None:
    labels = np.arange(first, first + ROWS)
    tokens = np.add.outer(labels, np.arange(8)).astype(np.int32)
    tfs.write_table({"tokens": tokens, "label": labels, "rest": labels}, url, num_shards=4)


def test_the_page(tmp_path: Path) -> None:
    write(f"{tmp_path}/train", 0)
    write(f"{tmp_path}/other", 10_000)
    program = "\n".join([*blocks_of("docs/jax.md", "python"), CHECK]).replace(
        "s3://bucket", str(tmp_path)
    )
    (tmp_path / "page.py").write_text(
        program.replace("/tmp/checkpoints", f"{tmp_path}/checkpoints"), encoding="utf-8"
    )
    assert run(str(tmp_path / "page.py")).endswith("page done\n")


def test_the_example_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    """The losses of a run that is killed and goes on are those of one that is not."""
    example = str(ROOT / "examples" / "grain_jax.py")
    whole = losses(run(example, f"{tmp_path}/whole", "--steps", "12"))
    assert list(whole) == list(range(1, 13))
    assert whole[12] < whole[1] / 2
    first = losses(run(example, f"{tmp_path}/killed", "--steps", "12", "--kill-at", "7", ends=-9))
    assert list(first) == list(range(1, 8))
    rest = losses(run(example, f"{tmp_path}/killed", "--steps", "12"))
    assert list(rest) == list(range(5, 13))  # from the checkpoint of step 4 on
    assert first | rest == whole


def test_the_example_of_maxtexts_batches() -> None:
    for package in ("moto", "s3fs"):
        pytest.importorskip(package)
    told = run(str(ROOT / "examples" / "grain_maxtext.py")).splitlines()
    names = ["inputs", "inputs_position", "inputs_segmentation"]
    names += [name.replace("inputs", "targets") for name in names]
    assert told[:6] == [f"{name:<22}int32(8, 256)" for name in names]
    assert told[-1] == "gone on from step 6: the same batch"


def losses(printed: str) -> dict[int, float]:
    found = re.findall(r"^step (\d+): loss (\S+)$", printed, re.MULTILINE)
    return {int(step): float(loss) for step, loss in found}

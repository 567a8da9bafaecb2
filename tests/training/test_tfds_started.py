"""A program that reads by TensorFlow Datasets, accelerated from outside."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.started import run

pytest.importorskip("tensorflow_datasets", reason="tensorflow_datasets is missing")

PROGRAM = """
import sys
import tensorflow as tf
import tensorflow_datasets as tfds

tf.keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
builder = tfds.builder_from_directory(sys.argv[1])
reading = tfds.ReadConfig(shuffle_seed=4, interleave_cycle_length=1)
rows = builder.as_dataset(split="train", shuffle_files=True, read_config=reading)
batches = rows.shuffle(100, seed=5).batch(32).map(lambda row: (row["x"], row["y"]))
built = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
built.compile("sgd", "mse")
done = built.fit(batches.prefetch(1), epochs=2, verbose=0)
print([float(loss).hex() for loss in done.history["loss"]])
"""


@pytest.mark.long  # tests/tf/test_startup.py has such programs, and test_tfds.py accelerated splits
def test_as_dataset_has_the_same_losses(tmp_path: Path) -> None:
    xs = np.random.default_rng(1).random((640, 8), np.float32)
    rows = [{"x": x, "y": x.sum()} for x in xs]
    folder = tmp_path / "rows" / "1.0.0"
    features = {"x": tfs.Feature("float32", (8,)), "y": "float32"}
    tfs.write_tfds(str(folder), rows, features, num_shards=4)
    (tmp_path / "program.py").write_text(PROGRAM)
    plain = run("program.py", str(folder), cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr[-3000:]
    by = ("-m", "tfio_store.accelerate", "--report-to", "told")
    faster = run(*by, "program.py", str(folder), cwd=tmp_path)
    assert faster.returncode == 0, faster.stderr[-3000:]
    assert faster.stdout == plain.stdout
    told = (tmp_path / "told").read_text()
    assert "but parsed by the batch" in told, told

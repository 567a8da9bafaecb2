"""Programs that are accelerated from outside: what they print stays the same, to the last bit."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.long import first
from tests.support.started import run

pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

ROWS = 640

COMMON = """
import glob, sys
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
tf.config.experimental.enable_op_determinism()
FILES = sorted(glob.glob(sys.argv[1] + "/rows-*"))
SPEC = {"x": tf.io.FixedLenFeature([8], tf.float32), "y": tf.io.FixedLenFeature([], tf.float32)}


def parse(record):
    found = tf.io.parse_single_example(record, SPEC)
    return found["x"], found["y"]


def model():
    made = tf.keras.Sequential([tf.keras.layers.Dense(8, "relu"), tf.keras.layers.Dense(1)])
    made.compile("sgd", "mse")
    return made


def told(losses):
    print([float(each).hex() for each in losses], sys.argv[2:], __name__)
"""

PROGRAMS = {
    "fit": """
        training = tf.data.TFRecordDataset(FILES[:3]).shuffle(100, seed=1).map(parse).batch(32)
        validation = tf.data.TFRecordDataset(FILES[3:]).map(parse).batch(32)
        done = model().fit(training.prefetch(1), epochs=2, verbose=0, validation_data=validation)
        told(done.history["loss"] + done.history["val_loss"])
    """,
    "tape": """
        weights = tf.Variable(tf.zeros([8, 1]))
        dataset = (tf.data.Dataset.list_files(sys.argv[1] + "/rows-*", seed=2)
                   .interleave(tf.data.TFRecordDataset, cycle_length=3)
                   .shuffle(100, seed=4).map(parse).batch(32))
        losses = []
        for epoch in range(2):
            for x, y in dataset:
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean((tf.squeeze(x @ weights, 1) - y) ** 2)
                weights.assign_sub(0.1 * tape.gradient(loss, weights))
                losses.append(loss)
        told(losses)
    """,
    "batched features": """
        dataset = tf.data.experimental.make_batched_features_dataset(
            FILES, 32, SPEC, label_key="y", num_epochs=1, shuffle_buffer_size=100, shuffle_seed=6)
        built = model()
        told(built.train_on_batch(features["x"], y) for _ in range(2) for features, y in dataset)
    """,
    "mirrored": """
        strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        with strategy.scope():
            built = model()
        dataset = tf.data.TFRecordDataset(FILES, num_parallel_reads=2).shuffle(100, seed=8)
        batches = dataset.map(parse).batch(32).repeat()
        done = built.fit(batches, epochs=3, steps_per_epoch=9, verbose=0)
        told(done.history["loss"])
    """,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    dice = np.random.default_rng(1)
    columns: dict[str, Any] = {"x": dice.random((ROWS, 8), np.float32)}
    columns["y"] = columns["x"].sum(1)
    tfs.write_table(columns, str(made / "rows"), num_shards=4)
    for name, body in PROGRAMS.items():
        text = f"{COMMON}\nROWS = {ROWS}\n{textwrap.dedent(body)}"
        (made / f"{name.replace(' ', '_')}.py").write_text(text)
    return made


@pytest.mark.parametrize("name", first(1, list(PROGRAMS)))
def test_a_program_has_the_same_losses(folder: Path, name: str) -> None:
    program = [f"{name.replace(' ', '_')}.py", str(folder), "--its", "own"]
    plain = run(*program, cwd=folder)
    assert plain.returncode == 0, plain.stderr[-3000:]
    faster = run("-m", "tfio_store.accelerate", "--report-to", "told", *program, cwd=folder)
    assert faster.returncode == 0, faster.stderr[-3000:]
    assert faster.stdout == plain.stdout
    assert "['--its', 'own'] __main__" in plain.stdout
    assert ": fused: one call of an op makes each element" in (folder / "told").read_text()


def test_a_program_ends_as_it_would(folder: Path) -> None:
    """A module by its name, its status, a report on standard error, and errors of its own."""
    (folder / "ends.py").write_text(
        "import sys, tensorflow as tf\n"
        "dataset = tf.data.TFRecordDataset(sys.argv[1]).batch(2)\n"
        "print(len(list(dataset)), type(tf.data.TFRecordDataset(sys.argv[1])).__name__)\n"
        "sys.exit(3)\n"
    )
    shard = str(folder / "rows-00000-of-00004.tfrecord")
    done = run("-m", "tfio_store.accelerate", "--report", "-m", "ends", shard, cwd=folder)
    assert (done.returncode, done.stdout) == (3, f"{ROWS // 8} _PlannedReader\n")
    assert "batch(2): not fused: the batches are so small" in done.stderr
    gone = run("-m", "tfio_store.accelerate", "nothing.py", cwd=folder)
    assert gone.returncode != 0
    assert "nothing.py" in gone.stderr


def test_a_url_that_tensorflow_opens_itself_names_the_option(folder: Path) -> None:
    (folder / "lists.py").write_text(
        "import tensorflow as tf\nprint(list(tf.data.Dataset.list_files('s3://bucket/x-*')))\n"
    )
    done = run("-m", "tfio_store.accelerate", "lists.py", cwd=folder)
    assert done.returncode != 0
    assert "UnimplementedError" in done.stderr
    assert "TensorFlow itself opens s3:// here; --filesystem s3 lets it" in done.stderr


def test_the_environment_accelerates_any_start_of_python(folder: Path) -> None:
    """By the line that the installed package has in a .pth file."""
    (line,) = Path(__file__).parents[2].joinpath("tfio_store/startup.pth").open()
    (folder / "started.py").write_text(
        f"{line}\nimport sys\nprint('tensorflow' in sys.modules)\nimport tensorflow as tf\n"
        "print(type(tf.data.TFRecordDataset(sys.argv[1])).__name__)\n"
    )
    shard = str(folder / "rows-00000-of-00004.tfrecord")
    for value, name in (
        ("1", "_PlannedReader"),
        ("0", "TFRecordDatasetV2"),
        ("memory", "_Planned"),
    ):
        done = run("started.py", shard, cwd=folder, TFIO_STORE_ACCELERATE=value)
        assert done.stdout.startswith(f"False\n{name}"), done.stderr[-2000:]


def test_the_module_is_the_function() -> None:
    code = "import tfio_store.accelerate as one, tfio_store as tfs; print(one is tfs.accelerate)"
    assert run("-c", code, cwd=Path.cwd()).stdout == "True\n"

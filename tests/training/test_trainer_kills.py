"""docs/trainers.md: each block is a program that is killed three times, and trains on each record
once."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.long import long
from tests.support.pages import blocks_of
from tests.training.lives import COUNT, killed_and_restored

TORCH = """
import torch

torch.manual_seed(1)

class Model({base}):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.register_buffer("times", torch.zeros(COUNT, dtype=torch.int64))
        self.register_buffer("step", torch.zeros(COUNT, dtype=torch.int64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, batch):
        self.steps += 1
        self.times[batch["x"]] += 1
        self.step[batch["x"]] = self.steps
        step_done(int(self.steps))
        x, y = batch["x"].float() / COUNT, batch["y"]
        return (self.layer(x[:, None])[:, 0] - y).square().mean()

    def training_step(self, batch, _):
        return self(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    def left(self):
        return {{name: value.tolist() for name, value in self.state_dict().items()}}

model = Model()
optimizer = model.configure_optimizers()
"""
TRANSFORMERS = TORCH.replace(
    "forward(self, batch):", 'forward(self, x, y):\n        batch = {{"x": x, "y": y}}'
).replace(
    "return (self.layer(x[:, None])[:, 0] - y).square().mean()",
    'return {{"loss": (self.layer(x[:, None])[:, 0] - y).square().mean()}}',
)
LIGHTNING = "import lightning.pytorch\n" + TORCH.format(base="lightning.pytorch.LightningModule")
TORCH, TRANSFORMERS = (each.format(base="torch.nn.Module") for each in (TORCH, TRANSFORMERS))

KERAS = """
import keras
from keras import ops

keras.utils.set_random_seed(1)

class Noting(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        step_done(self.begin + batch + 1)

@keras.saving.register_keras_serializable()
class Model(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.layer = keras.layers.Dense(1)
        zeros = {"trainable": False, "initializer": "zeros", "dtype": "int32"}
        self.times = self.add_weight(shape=(COUNT,), name="times", **zeros)
        self.step = self.add_weight(shape=(COUNT,), name="step", **zeros)
        self.steps = self.add_weight(shape=(), name="steps", **zeros)

    def call(self, x, training=False):
        if training:
            given = ops.sum(ops.one_hot(x, COUNT, dtype="int32"), axis=0)
            self.steps.assign(self.steps + 1)
            self.times.assign(self.times + given)
            self.step.assign(self.step + given * self.steps)
        return self.layer(ops.cast(x, "float32")[:, None] / COUNT)[:, 0]

    def fit(self, batches, *, callbacks, **options):
        noting = Noting()
        noting.begin = int(self.steps)
        return super().fit(batches, callbacks=[noting, *callbacks], **options)

    def left(self):
        return {each.path.split("/")[-1]: each.numpy().tolist() for each in self.weights}

def made():
    model = Model()
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse")
    return model
"""

TORCH_TRAINERS = {
    "A plain loop": (TORCH, "torchdata"),
    "Lightning": (LIGHTNING, "lightning"),
    "Accelerate": (TORCH, "accelerate"),
    "transformers": (TRANSFORMERS, "transformers"),
}


def needs(*packages: str) -> None:
    """Without an import, which takes seconds."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")


@pytest.fixture
def url(tmp_path: Path) -> str:
    columns = {"x": np.arange(COUNT), "y": np.arange(COUNT, dtype="float32") / 7}
    tfs.write_table(columns, f"{tmp_path}/train", num_shards=4)
    return f"{tmp_path}/train"


@pytest.mark.parametrize("trainer", TORCH_TRAINERS)
def test_a_trainer_of_torch_goes_on_behind_each_kill(
    trainer: str, url: str, tmp_path: Path
) -> None:
    model, package = TORCH_TRAINERS[trainer]
    needs("torchdata", package)
    (block,) = blocks_of("docs/trainers.md", "python", trainer)
    killed_and_restored(model, block, url, tmp_path)


@pytest.mark.parametrize(
    ("backend", "way"),
    [
        pytest.param("tensorflow", 0, marks=[pytest.mark.tensorflow, pytest.mark.long]),
        pytest.param("tensorflow", 1, marks=pytest.mark.tensorflow),
        *map(long, [("jax", 0), ("torch", 0)]),
    ],
)
def test_keras_goes_on_behind_each_kill(backend: str, way: int, url: str, tmp_path: Path) -> None:
    """``way``: by Grain, or by tf.data."""
    needs("keras", "grain", backend)
    saving, *ways = blocks_of("docs/trainers.md", "python", "Keras")
    killed_and_restored(KERAS, saving + ways[way], url, tmp_path, KERAS_BACKEND=backend)

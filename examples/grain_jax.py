"""Training a language model with JAX and Grain on all devices, as MaxText does, in little.

    python examples/grain_jax.py FOLDER [--steps 40] [--kill-at 25]

Writes sequences of tokens as a dataset, and trains a model that predicts the next token. Each
fourth step Orbax saves the model and the place in the data. Run it again after it was killed, and
it goes on: the losses are those of a run that was not killed. Two devices on a CPU:

    XLA_FLAGS=--xla_force_host_platform_device_count=2 python examples/grain_jax.py /tmp/lm
"""

from __future__ import annotations

import argparse
import os
import signal
from pathlib import Path
from typing import Any

import grain
import jax
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tfio_store as tfs

VOCABULARY, LENGTH, WIDTH = 64, 32, 32
BATCH = 64
SAVE_EVERY = 4
RATE = 20.0

Arrays = dict[str, Any]


def write(url: str) -> None:
    """Sequences that follow a rule: each token decides the next one."""
    generator = np.random.default_rng(0)
    follows = generator.permutation(VOCABULARY)
    tokens = np.empty((4096, LENGTH + 1), np.int32)
    tokens[:, 0] = generator.integers(0, VOCABULARY, len(tokens))
    for place in range(LENGTH):
        tokens[:, place + 1] = follows[tokens[:, place]]
    tfs.write_table({"tokens": tokens}, url, num_shards=4)


class Read(grain.transforms.Map):
    """Numbers of records in, tokens out. Of each batch a host reads its own part."""

    def __init__(self, source: tfs.RecordSource, schema: tfs.Schema) -> None:
        self.source, self.schema = source, schema
        self.host, self.hosts = jax.process_index(), jax.process_count()

    def map(self, numbers: Any) -> Arrays:
        mine = numbers.reshape(self.hosts, -1)[self.host]
        return dict(tfs.decode_examples(self.source[mine], self.schema))


def batches(url: str) -> tuple[Any, str]:
    """An iterator of batches of all epochs, and what its source says of itself."""
    source = tfs.RecordSource(url)
    numbers = grain.MapDataset.range(len(source)).shuffle(seed=1).repeat()
    dataset = numbers.batch(BATCH, drop_remainder=True).map(Read(source, tfs.infer_schema(url)))
    reading = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)
    return iter(dataset.to_iter_dataset(reading)), repr(source)


def new_model() -> Arrays:
    keys = jax.random.split(jax.random.key(0), 2)
    return {
        "embedding": jax.random.normal(keys[0], (VOCABULARY, WIDTH)),
        "logits": jax.random.normal(keys[1], (WIDTH, VOCABULARY)) / WIDTH,
    }


@jax.jit
def train(model: Arrays, tokens: Any) -> tuple[Arrays, Any]:
    """One step of gradient descent."""

    def loss(model: Arrays) -> Any:
        logits = model["embedding"][tokens[:, :-1]] @ model["logits"]
        right = jax.nn.one_hot(tokens[:, 1:], VOCABULARY)
        return -(jax.nn.log_softmax(logits) * right).sum(-1).mean()

    value, slopes = jax.value_and_grad(loss)(model)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, model, slopes), value


class Checkpoints:
    """Model and place, saved and restored together."""

    def __init__(self, folder: Path, source: str) -> None:
        self.manager = ocp.CheckpointManager(folder)
        self.source = source

    def save(self, step: int, model: Arrays, iterator: Any) -> None:
        place = {"grain": iterator.get_state(), "source": self.source}
        saved = {"model": ocp.args.StandardSave(model), "data": ocp.args.JsonSave(place)}
        self.manager.save(step, args=ocp.args.Composite(**saved))
        self.manager.wait_until_finished()

    def restore(self, model: Arrays, iterator: Any) -> tuple[int, Arrays]:
        """The last step that was saved, and the model after it. The iterator goes on there."""
        step = self.manager.latest_step()
        if step is None:
            return 0, model
        wanted = {"model": ocp.args.StandardRestore(model), "data": ocp.args.JsonRestore()}
        found = self.manager.restore(step, args=ocp.args.Composite(**wanted))
        if found["data"]["source"] != self.source:
            raise ValueError(f"the checkpoint is of another dataset, {found['data']['source']}")
        iterator.set_state(found["data"]["grain"])
        return step, found["model"]


def run(folder: Path, steps: int, kill_at: int | None) -> None:
    url = str(folder / "data" / "train")
    if not list(folder.glob("data/_train.manifest.json")):
        write(url)
    mesh = Mesh(jax.devices(), ("data",))
    by_row = NamedSharding(mesh, PartitionSpec("data"))
    iterator, source = batches(url)
    checkpoints = Checkpoints(folder / "checkpoints", source)
    everywhere = NamedSharding(mesh, PartitionSpec())
    done, model = checkpoints.restore(jax.device_put(new_model(), everywhere), iterator)
    for step in range(done + 1, steps + 1):
        tokens = jax.make_array_from_process_local_data(by_row, next(iterator)["tokens"])
        model, loss = train(model, tokens)
        print(f"step {step}: loss {loss:.6f}", flush=True)
        if step % SAVE_EVERY == 0:
            checkpoints.save(step, model, iterator)
        if step == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--kill-at", type=int)
    run(**vars(parser.parse_args()))

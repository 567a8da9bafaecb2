"""Trainers that read ahead of what they train on, and go on from a state in mid-epoch: each record
is trained on once in an epoch. And those that ask a loader for its length first."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.training.loading import numbers, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

from tfio_store.torch import TFRecordIterable, reshard  # noqa: E402

COUNT, SIZE, STEPS = 500, 10, 13
ALL = list(range(COUNT))

orders = pytest.mark.parametrize("shuffle", [False, True])
workers = pytest.mark.parametrize("count", [0, 2])


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"), COUNT)


def made(url: str, count: int, **options: Any) -> Any:
    dataset = TFRecordIterable(url, batch_size=SIZE, **options)
    return torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=count)


def assert_epochs(given: list[int], rest: list[int]) -> None:
    """That both together are two epochs."""
    both = given + rest
    assert len(given) == STEPS * SIZE
    assert sorted(both[:COUNT]) == ALL
    assert sorted(both[COUNT:]) == ALL


# Lightning


def module(pl: Any) -> Any:
    class Noting(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: list[int] = []

        def training_step(self, batch: Any, _: int) -> Any:
            self.seen += batch["x"].tolist()
            return self.weight.sum() * 0

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Noting()


def trained(folder: Path, first: Any, second: Any) -> tuple[list[int], list[int]]:
    """What one trainer trains on until it saves, and another that goes on, up to two epochs."""
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is not installed")
    quiet = {"accelerator": "cpu", "logger": False, "enable_model_summary": False}
    quiet["enable_progress_bar"] = False
    saving = pl.callbacks.ModelCheckpoint(
        folder, "saved", every_n_train_steps=STEPS, save_on_train_epoch_end=False
    )
    before, after = module(pl), module(pl)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.filterwarnings("default", "Lightning reads one batch ahead")
        pl.Trainer(max_steps=STEPS, callbacks=[saving], **quiet).fit(before, first)
        trainer = pl.Trainer(max_epochs=2, enable_checkpointing=False, **quiet)
        trainer.fit(after, second, ckpt_path=str(folder / "saved.ckpt"), weights_only=False)
    return before.seen, after.seen


@orders
@workers
def test_lightning_goes_on_in_mid_epoch(
    url: str, tmp_path: Path, count: int, shuffle: bool
) -> None:
    assert_epochs(*trained(tmp_path, *(made(url, count, shuffle=shuffle) for _ in range(2))))


def test_lightning_is_warned_of_what_it_leaves_out(url: str, tmp_path: Path) -> None:
    """No length: which records are damaged is not known before they are read."""
    with pytest.warns(UserWarning, match="a checkpoint in mid-epoch leaves this batch out"):
        before, after = trained(tmp_path, *(made(url, 0, on_corrupt="skip") for _ in range(2)))
    assert len(before) + len(after) == 2 * COUNT - SIZE


# Accelerate


@orders
@workers
@pytest.mark.parametrize("dispatch", [False, True])
def test_accelerate_goes_on_in_mid_epoch(
    url: str, count: int, shuffle: bool, dispatch: bool
) -> None:
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    how = accelerate.utils.DataLoaderConfiguration(
        use_stateful_dataloader=True, dispatch_batches=dispatch
    )

    def prepared() -> Any:
        accelerator = accelerate.Accelerator(cpu=True, dataloader_config=how)
        return accelerator.prepare(made(url, count, shuffle=shuffle))

    loader, batches = prepared(), []
    for batch in loader:
        batches.append(batch)
        if len(batches) == STEPS:
            state = deepcopy(loader.state_dict())
            break
    again = prepared()
    again.load_state_dict(state)
    assert_epochs(numbers(batches), [*numbers(again), *numbers(again)])


@workers
def test_accelerate_goes_on_in_a_later_epoch(url: str, count: int) -> None:
    """Its loader counts epochs from 0 in each process, so it must hear in which one it goes on."""
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    how = accelerate.utils.DataLoaderConfiguration(use_stateful_dataloader=True)
    accelerator = accelerate.Accelerator(cpu=True, dataloader_config=how)
    whole, loader, again = (accelerator.prepare(made(url, count, shuffle=True)) for _ in range(3))
    epochs = [numbers(whole) for _ in range(3)]
    assert numbers(loader) == epochs[0]
    batches = iter(loader)
    given = numbers(next(batches) for _ in range(STEPS))
    again.load_state_dict(deepcopy(loader.state_dict()))
    again.set_epoch(1)
    assert given + numbers(again) == epochs[1]
    assert numbers(again) == epochs[2]


def shared_out(dataset: Any, how: str, method: str | None) -> Any:
    """A loader of rank 0 by which Accelerate shares out the batches among two ranks."""
    sharing = pytest.importorskip("accelerate.data_loader", reason="Accelerate is not installed")
    loader = {"num_workers": int(method is not None), "multiprocessing_context": method}
    if how == "dispatched":
        return sharing.DataLoaderDispatcher(dataset, batch_size=SIZE, **loader)
    part = sharing.IterableDatasetShard(dataset, SIZE, num_processes=2)
    return torch.utils.data.DataLoader(part, SIZE, **loader)


@pytest.mark.parametrize("how", ["dispatched", "cut"])
@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_what_accelerate_shares_out_is_not_shared_out_before(
    url: str, how: str, method: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the records of two ranks would be lost."""
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    state = accelerate.PartialState(cpu=True)  # which looks at the environment
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with monkeypatch.context() as two, pytest.raises(ValueError, match="records would be lost"):
        two.setattr(state, "num_processes", 2)
        list(shared_out(TFRecordIterable(url), how, method))
    whole = shared_out(TFRecordIterable(url, rank=0, world_size=1), how, method)
    assert len(numbers(whole)) == (COUNT if how == "dispatched" else COUNT // 2)


def test_an_accelerate_that_knows_of_no_other_ranks_shares_nothing_out(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("accelerate", reason="Accelerate is not installed").PartialState(cpu=True)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert len(numbers(shared_out(TFRecordIterable(url), "dispatched", None))) == COUNT // 2


# Ignite


@orders
@workers
def test_ignite_goes_on_in_mid_epoch(url: str, count: int, shuffle: bool) -> None:
    engines = pytest.importorskip("ignite.engine", reason="Ignite is not installed")
    loader, again = (made(url, count, shuffle=shuffle) for _ in range(2))
    given: list[int] = []
    rest: list[int] = []
    states: list[Any] = []

    def take(engine: Any, batch: Any) -> None:
        given.extend(batch["x"].tolist())
        if engine.state.iteration == STEPS:
            states.append(json.loads(json.dumps(loader.state_dict())))
            engine.terminate()

    engines.Engine(take).run(loader)
    again.load_state_dict(states[0])
    for length in (COUNT // SIZE - STEPS, COUNT // SIZE):
        going_on = engines.Engine(lambda _, batch: rest.extend(batch["x"].tolist()))
        going_on.run(again, epoch_length=length)
    assert_epochs(given, rest)


# Hugging Face


@orders
def test_the_trainer_of_transformers_goes_on(url: str, tmp_path: Path, shuffle: bool) -> None:
    """It reads the epoch from its beginning, and passes by what it had."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")

    class Noting(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: list[int] = []

        def forward(self, x: Any) -> Any:
            self.seen += x.tolist()
            return {"loss": self.weight.sum() * 0}

    def trainer(steps: int) -> Any:
        how = transformers.TrainingArguments(
            str(tmp_path / "out"), per_device_train_batch_size=SIZE, max_steps=steps,
            save_steps=STEPS, report_to=[], use_cpu=True, disable_tqdm=True,
            remove_unused_columns=False, logging_strategy="no",
        )  # fmt: skip
        dataset = TFRecordIterable(url, shuffle=shuffle)
        return transformers.Trainer(Noting(), how, train_dataset=dataset)

    first, second = trainer(STEPS), trainer(2 * COUNT // SIZE)
    first.train()
    second.train(resume_from_checkpoint=True)
    assert_epochs(first.model.seen, second.model.seen)


# torchdata itself


def test_a_loaders_count_of_batches_is_of_one_size(url: str) -> None:
    """Behind its last snapshot a loader counts batches: those of another size are others."""

    def loader(size: int) -> Any:
        dataset = TFRecordIterable(url, batch_size=size)
        return torchdata.StatefulDataLoader(
            dataset, batch_size=None, num_workers=1, snapshot_every_n_steps=2
        )

    batches = loader(10)
    taken = iter(batches)
    given = numbers(next(taken) for _ in range(3))
    late, state = batches.state_dict(), None
    again = loader(16)
    again.load_state_dict(late)
    with pytest.raises(ValueError, match="counts batches of batch_size=10, and the dataset has"):
        list(again)
    given += next(taken)["x"].tolist()
    state = batches.state_dict()  # at a snapshot
    dataset = TFRecordIterable(url, batch_size=16)
    dataset.load_state_dict(reshard([state], num_workers=1)[0])
    rest = torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=1)
    assert sorted(given + numbers(rest)) == ALL


# Lengths


def test_accelerate_asks_for_rows_and_for_batches(url: str) -> None:
    accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed")
    plain = torch.utils.data.DataLoader(TFRecordIterable(url), 13, num_workers=2)
    loader = accelerate.Accelerator(cpu=True).prepare(plain)
    assert len(list(loader)) == len(loader)
    assert loader.total_dataset_length == COUNT


def test_there_is_no_length_where_nobody_knows_it(url: str) -> None:
    dataset = TFRecordIterable(url, batch_size=SIZE)
    assert not hasattr(dataset, "__len__")
    assert len(torchdata.StatefulDataLoader(dataset, batch_size=None)) == COUNT // SIZE
    assert hasattr(TFRecordIterable(url, batch_size=SIZE, num_workers=2), "__len__")
    skipping = TFRecordIterable(url, on_corrupt="skip", num_workers=0)
    assert not hasattr(skipping, "__len__")
    with pytest.raises(TypeError, match="on_corrupt= may skip"):
        len(torchdata.StatefulDataLoader(skipping, batch_size=None))


def test_shuffled_blocks_of_a_long_list_have_no_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = written(str(tmp_path / "train"), COUNT)
    dataset = TFRecordIterable(url, batch_size=SIZE, shuffle=True)
    monkeypatch.setattr(dataset, "_splits", False)  # as where cutting them takes all its pages
    with pytest.raises(TypeError, match=r'not the same in each epoch.*pass even="split"'):
        len(torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=2))
    assert len(torchdata.StatefulDataLoader(dataset, batch_size=None)) == COUNT // SIZE


def test_even_shares_of_each_record_once(url: str) -> None:
    reader = tfs.RecordReader(url).shuffle(3)
    shares = [list(reader.shard(index, 7, even="split")) for index in range(7)]
    assert sorted(map(len, shares)) == [COUNT // 7] * 4 + [COUNT // 7 + 1] * 3
    assert sorted(record for share in shares for record in share) == sorted(tfs.RecordReader(url))


# Keras


KERAS = """
import itertools, os, sys
os.environ["KERAS_BACKEND"] = "torch"
import keras
from torch.utils.data import DataLoader
from tfio_store.torch import TFRecordIterable
seen = []

class Noting(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x, training=False):
        if training:
            seen.extend(x.reshape(-1).int().tolist())
        return self.dense(x)

def pair(batch):
    x = batch["x"].reshape(-1, 1).float()
    return x, x

model = Noting()
model.build((None, 1))
model.compile("sgd", "mse", run_eagerly=True)
for count, known, shuffle in itertools.product((0, 2), (False, True), (False, True)):
    options = {"num_workers": count} if known else {}
    dataset = TFRecordIterable(
        sys.argv[1], batch_size=10, transform=pair, shuffle=shuffle, **options
    )
    seen.clear()
    loader = DataLoader(dataset, batch_size=None, num_workers=count)
    history = model.fit(loader, epochs=3, verbose=0)
    assert len(history.history["loss"]) == 3
    assert len(seen) == 1500, (count, known, shuffle, len(seen))
    for epoch in range(3):
        assert sorted(seen[epoch * 500 : (epoch + 1) * 500]) == list(range(500)), epoch
"""


def test_keras_trains_on_a_loader(url: str) -> None:
    """With a length and without. A process of its own takes the other backend, and seconds for
    its imports."""
    pytest.importorskip("keras", reason="Keras is not installed")
    program = [sys.executable, "-W", "ignore", "-c", KERAS, url]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]

"""The memory in which batches leave a worker: whole, used again, given back, and small."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tfio_store as tfs
from tests.training.loading import COUNT, loader, numbers, torch_data, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import (  # noqa: E402
    NullableTensor,
    RaggedTensor,
    TFRecordIterable,
    TFRecordMap,
)

ROWS, WIDTH = 4000, 1000
"""Rows of 4 kB."""


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Rows whose values are all their number."""
    url = str(tmp_path_factory.mktemp("wide") / "train")
    values = np.arange(ROWS, dtype=np.int32)[:, None].repeat(WIDTH, 1)
    tfs.write_table({"x": np.arange(ROWS), "values": values}, url, num_shards=4)
    return url


def pieces() -> list[str]:
    """The workers' memory that this process has mapped."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if "tfio_store.batches" in line]


linux = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No memory stays when the loader is gone."""
    yield
    gc.collect()
    if Path("/proc/self/maps").exists():
        assert pieces() == []


def whole(batches: Any) -> None:
    """The batches hold each row once, and each row its own values."""
    found = []
    for batch in batches:
        assert (batch["values"] == batch["x"][:, None]).all()
        found += batch["x"].tolist()
    assert sorted(found) == list(range(ROWS))


@linux
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_memory_is_used_again(wide: str, method: str) -> None:
    most, found, batches = 0, [], loader(TFRecordIterable(wide, batch_size=40), 2, method)
    for batch in batches:
        assert (batch["values"] == batch["x"][:, None]).all()
        found += batch["x"].tolist()
        most = max(most, len(pieces()))
    assert sorted(found) == list(range(ROWS))
    assert 0 < most <= 2 * 5  # of a hundred batches


@pytest.mark.parametrize("workers", [1, 3])
def test_batches_that_are_kept_stay_as_they_are(wide: str, workers: int) -> None:
    whole(list(loader(TFRecordIterable(wide, batch_size=40), workers)))


def test_a_part_that_is_kept_keeps_its_batch(wide: str) -> None:
    kept = []
    for batch in loader(TFRecordIterable(wide, batch_size=40), 1):
        kept.append((int(batch["x"][7]), batch["values"][7, 3:9]))
        del batch
    assert len(kept) == ROWS // 40
    for number, part in kept:
        assert part.tolist() == [number] * 6


def test_batches_may_be_changed_in_place(wide: str) -> None:
    found = []
    for batch in loader(TFRecordIterable(wide, batch_size=40), 1):
        assert (batch["values"] == batch["x"][:, None]).all()
        found += batch["x"].tolist()
        batch["values"].fill_(-1)
        batch["x"].fill_(-1)
    assert sorted(found) == list(range(ROWS))


def test_workers_that_stay_for_the_next_epoch(wide: str) -> None:
    batches = loader(TFRecordIterable(wide, batch_size=40), 2, persistent_workers=True)
    for _ in range(3):
        whole(batches)
    for batch in batches:
        assert (batch["values"] == batch["x"][:, None]).all()
        break
    whole(batches)
    if Path("/proc/self/maps").exists():
        assert len(pieces()) <= 2 * 5
    del batch


def halved(batch: dict[str, Any]) -> Any:
    """What people make: a tuple, of views of the same memory and of what is new."""
    values = batch["values"]
    return values[: len(values) // 2], values[len(values) // 2 :], batch["x"] + 0, "text"


@pytest.mark.parametrize("workers", [0, 1])
def test_what_a_transform_makes(wide: str, workers: int) -> None:
    found = []
    for first, second, x, text in loader(
        TFRecordIterable(wide, batch_size=40, transform=halved), workers
    ):
        assert text == "text"
        assert (torch.cat([first, second]) == x[:, None]).all()
        found += x.tolist()
    assert sorted(found) == list(range(ROWS))


class SameAgain:
    """A transform that gives the tensors of the first batch beside each batch."""

    first: Any = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.first = self.first or {"first": batch["values"], "pair": [batch["x"], batch["x"]]}
        return {**batch, **self.first}


def test_a_tensor_that_leaves_a_worker_with_each_batch(wide: str) -> None:
    for batch in list(loader(TFRecordIterable(wide, batch_size=40, transform=SameAgain()), 1)):
        first, second = batch["pair"]
        assert (batch["values"] == batch["x"][:, None]).all()
        assert (batch["first"] == first[:, None]).all()
        assert (first == second).all()


class Copies(torch_data.IterableDataset):
    """A dataset of the user's, which copies and pickles what the library gives."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        for batch in self.dataset:
            pickled = pickle.dumps(batch)
            yield copy.deepcopy(batch)
            yield pickle.loads(pickled)
            forked = ForkingPickler.loads(ForkingPickler.dumps(batch["x"] + 0))
            yield {**batch, "x": forked}


def test_who_else_pickles_a_batch_in_a_worker(wide: str) -> None:
    batches = list(loader(Copies(TFRecordIterable(wide, batch_size=40)), 1))
    for kind in range(3):
        whole(batches[kind::3])


def odd(batch: dict[str, Any]) -> dict[str, Any]:
    """Tensors of every kind, and nothing at all."""
    x = batch["x"]
    return {
        "turned": torch.arange(12).reshape(3, 4).T,
        "wide": torch.arange(5).expand(3, 5),
        "one": x.sum(),
        "empty": x[:0],
        "none": None,
        "half": x.to(torch.bfloat16),
        "eighth": x.to(torch.float32).to(torch.float8_e4m3fn),
        "complex": torch.complex(x.float(), -x.float()).conj(),
        "sparse": torch.eye(3).to_sparse(),
        "nested": {"deep": x, "pair": RaggedTensor(x, torch.tensor([0, len(x)]))},
        "nullable": NullableTensor(x, x > 5),
        "learned": x.float().requires_grad_().detach().requires_grad_(),
        "list": [x, x + 1],
        "numpy": x.numpy(),
        "bytes": [b"a", b""],
    }


def test_tensors_of_every_kind(wide: str) -> None:
    options: dict[str, Any] = {"batch_size": 40, "transform": odd}
    for batch, wanted in zip(
        loader(TFRecordIterable(wide, **options), 1),
        loader(TFRecordIterable(wide, **options), 0),
        strict=True,
    ):
        assert type(batch) is type(wanted)
        assert list(batch) == list(wanted)
        for name in ("turned", "wide", "one", "empty", "complex", "half"):
            assert torch.equal(batch[name], wanted[name]), name
            assert batch[name].dtype == wanted[name].dtype
        assert torch.equal(batch["eighth"].float(), wanted["eighth"].float())
        assert torch.equal(batch["sparse"].to_dense(), torch.eye(3))
        assert torch.equal(batch["nested"]["deep"], wanted["nested"]["deep"])
        assert torch.equal(batch["nested"]["pair"].rows()[0], wanted["nested"]["deep"])
        assert torch.equal(batch["nullable"].valid, wanted["nullable"].valid)
        assert batch["learned"].requires_grad
        assert torch.equal(batch["list"][1], wanted["list"][1])
        assert batch["none"] is None
        assert batch["bytes"] == [b"a", b""]


@pytest.mark.parametrize("size", [3, 700])
def test_rows_of_which_a_loader_makes_batches(wide: str, size: int) -> None:
    batches = torch_data.DataLoader(TFRecordIterable(wide), batch_size=size, num_workers=2)
    whole(batches)
    whole(list(batches))


@pytest.mark.parametrize("persistent", [False, True])
def test_a_dataset_with_a_sampler(wide: str, persistent: bool) -> None:
    batches = torch_data.DataLoader(
        TFRecordMap(wide), 50, shuffle=True, num_workers=2, persistent_workers=persistent
    )
    for _ in range(2):
        whole(batches)
        whole(list(batches))


@linux
def test_a_job_of_batches_of_all_sizes(tmp_path: Path) -> None:
    """What fits no batch is dropped, in both processes."""
    url = str(tmp_path / "train")
    lengths = [10 * 4 ** (number // 60 % 7) for number in range(3000)]
    values = [np.full(length, number) for number, length in enumerate(lengths)]
    tfs.write_table({"x": values}, url, schema={"x": tfs.Feature("int64", shape=(None,))})
    nbytes = 0
    for number, batch in enumerate(loader(TFRecordIterable(url, batch_size=30), 1)):
        rows = batch["x"].rows()
        assert [len(row) for row in rows] == lengths[30 * number : 30 * number + 30]
        assert all(int(row[0]) == 30 * number + i for i, row in enumerate(rows))
        spans = [line.split()[0].split("-") for line in pieces()]
        nbytes = max(nbytes, sum(int(stop, 16) - int(start, 16) for start, stop in spans))
    assert nbytes < 80 << 20  # 8 MB each


def forked(work: Any) -> int:
    """Do the work in a child; its number."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            os._exit(2)
    return child


def ended_well(child: int) -> bool:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def are_whole(held: list[Any]) -> bool:
    """As `whole`, by numpy: torch has threads, which a child that is forked has not."""
    pairs = [(one["values"].numpy(), one["x"].numpy()) for one in held]
    return all((values == x[:, None]).all() for values, x in pairs)


@linux
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_the_training_process_gives_nothing_back(wide: str) -> None:
    batches = iter(loader(TFRecordIterable(wide, batch_size=40), 1))
    held = [next(batches) for _ in range(3)]

    def work() -> bool:
        found = are_whole(held)
        held.clear()
        gc.collect()
        return found

    assert ended_well(forked(work))
    whole([*held, *batches])
    held.clear()
    del batches


@linux
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_child_of_the_training_process_has_stays_as_it_is(wide: str) -> None:
    """The training process lets go of it, and reads on."""
    batches = iter(loader(TFRecordIterable(wide, batch_size=40), 1))
    held = [next(batches) for _ in range(3)]
    read, write = os.pipe()
    found = [x for one in held for x in one["x"].tolist()]
    same = found[:]

    def work() -> bool:
        os.read(read, 1)
        return are_whole(held) and [x for one in held for x in one["x"].numpy().tolist()] == same

    child = forked(work)
    held.clear()
    for batch in batches:
        found += batch["x"].tolist()
    os.write(write, b"!")
    assert ended_well(child)
    assert sorted(found) == list(range(ROWS))
    os.close(read)
    os.close(write)
    del batch, batches


KILLED = """
import gc, multiprocessing, os, signal, sys, time
from pathlib import Path
from torch.utils.data import DataLoader
from tfio_store.torch import TFRecordIterable
batches = iter(DataLoader(TFRecordIterable(sys.argv[1], batch_size=10), None, num_workers=1))
held = next(batches)
time.sleep(3)  # it is idle, and holds no lock of torch's
try:
    os.kill(multiprocessing.active_children()[0].pid, signal.SIGKILL)
    time.sleep(10)  # torch raises out of its handler of a child's end
except RuntimeError as error:
    assert "is killed by signal" in str(error), error
    error.__traceback__ = None
else:
    sys.exit("the loader saw no end of its worker")
assert (held["values"] == held["x"][:, None]).all()
del held, batches
gc.collect()
assert "tfio_store.batches" not in Path("/proc/self/maps").read_text()
"""


@linux
def test_a_worker_that_is_killed_leaves_no_memory(wide: str) -> None:
    """By itself, for torch raises wherever it hears of it."""
    command = [sys.executable, "-c", KILLED, wide]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


@linux
def test_no_descriptors_and_few_mappings_are_kept(wide: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    batches = loader(TFRecordIterable(wide, batch_size=3), 2)
    held = list(batches)
    assert len(os.listdir("/proc/self/fd")) <= before + 8
    assert 500 < len(pieces()) <= 2 * 512  # of 1,334 batches
    whole(held)
    del batches, held


SMALL = """
import sys
from torch.utils.data import DataLoader
from tfio_store.torch import TFRecordIterable
found = [x for batch in DataLoader(TFRecordIterable(sys.argv[1], batch_size=500), batch_size=None,
         num_workers=1) for x in batch["x"].tolist()]
assert sorted(found) == list(range(int(sys.argv[2])))
"""


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="needs root on Linux")
def test_a_container_with_a_small_dev_shm(wide: str) -> None:
    """A batch takes 2 MB, and ``/dev/shm`` has 64 kB."""
    mount = "mount -t tmpfs -o size=64k tmpfs /dev/shm"
    inside = f'{mount} && exec "$0" -c "$1" "$2" "$3"'
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this host lets no process mount")
    command = ["unshare", "-m", "sh", "-c", inside, sys.executable, SMALL, wide, str(ROWS)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("schema", [None, "bytes"])
@pytest.mark.parametrize("lengths", [(0, 1, 9000), (40,), (5000,), (0,)])
def test_byte_strings(tmp_path: Path, lengths: tuple[int, ...], schema: Any) -> None:
    """Long ones cross in the memory, short ones by pickle."""
    wanted = [os.urandom(lengths[number % len(lengths)]) for number in range(200)]
    url = str(tmp_path / "train")
    with tfs.ShardedWriter(url, schema=None if schema else {"x": "bytes", "n": "int64"}) as writer:
        for number, string in enumerate(wanted):
            writer.write(string if schema else {"x": string, "n": number})
    batches = list(loader(TFRecordIterable(url, batch_size=30, schema=schema), 1))
    assert [x for one in batches for x in (one if schema else one["x"])] == wanted
    same = list(loader(TFRecordIterable(url, batch_size=30, schema=schema), 0))
    assert [type(one) for one in batches] == [type(one) for one in same]


def test_an_array_of_a_tensor_that_is_sent_on(wide: str) -> None:
    queue = torch.multiprocessing.get_context("fork").Queue()
    kept, sent = list[Any](), list[Any]()
    for batch in loader(TFRecordIterable(wide, batch_size=40), 1):
        if len(kept) < 3:
            kept.append((int(batch["x"][0]), batch["values"].numpy()))
            queue.put(batch["values"])
            sent.append(queue.get(timeout=60))
    for (first, values), other in zip(kept, sent, strict=True):
        assert values[0, 0] == other[0, 0] == first
        assert (values == other.numpy()).all()
    kept.clear()


def forking(batch: dict[str, Any]) -> dict[str, Any]:
    """A function of the user's that has a child, which pickles tensors of its own."""

    def work() -> bool:
        pickled = ForkingPickler.dumps([torch.full((40, WIDTH), -7, dtype=torch.int32)])
        return b"tfio_store" not in bytes(pickled)

    assert ended_well(forked(work))
    return batch


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_child_of_a_worker_writes_nothing_there(wide: str) -> None:
    """It has the memory that its parent uses."""
    whole(list(loader(TFRecordIterable(wide, batch_size=400, transform=forking), 1)))


class Checked(NamedTuple):
    """Of which a class follows that looks at what it is given."""

    x: Any


class Careful(Checked):
    __slots__ = ()

    def __new__(cls, x: Any) -> Careful:
        assert isinstance(x, torch.Tensor)
        return super().__new__(cls, x)


TABLE = torch.arange(20_000_000, dtype=torch.int32)


def forms(batch: dict[str, Any]) -> dict[str, Any]:
    """Tensors whose form is to stay, and small parts of large memory."""
    x = batch["x"]
    pixels = torch.arange(2 * 3 * 40 * 50).reshape(2, 3, 40, 50).float()
    start = int(x[0])
    return {
        "last": pixels.contiguous(memory_format=torch.channels_last),
        "turned": torch.arange(12).reshape(3, 4).T,
        "expanded": torch.zeros(1, 1000).expand(20_000, 1000),
        "twice": (same := x + 0),
        "again": same,
        "fours": torch.empty(6, dtype=torch.uint4) if hasattr(torch, "uint4") else None,
        "careful": Careful(x),
        "part": TABLE[start : start + 10],
        "parts": [TABLE[start : start + 2000], TABLE],
        "large": torch.full((2_000_000,), start),
    }


@linux
def test_the_form_of_tensors(wide: str) -> None:
    for batch in loader(TFRecordIterable(wide, batch_size=400, transform=forms), 1):
        assert batch["last"].is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(batch["last"].flatten(), torch.arange(12_000).float())
        assert batch["turned"].stride() == (1, 4)
        assert batch["expanded"].stride() == (0, 1)
        assert batch["expanded"].untyped_storage().nbytes() == 4000
        assert batch["twice"].data_ptr() == batch["again"].data_ptr()
        assert type(batch["careful"]) is Careful
        assert torch.equal(batch["careful"].x, batch["twice"])
        start = int(batch["twice"][0])
        assert batch["part"].tolist() == list(range(start, start + 10))
        part, table = batch["parts"]
        assert part.tolist() == list(range(start, start + 2000))
        assert int(table[-1]) == len(TABLE) - 1
        assert (batch["large"] == start).all()
    spans = [line.split()[0].split("-") for line in pieces()]
    nbytes = sum(int(stop, 16) - int(begin, 16) for begin, stop in spans)
    assert nbytes < 250 << 20  # TABLE, of 80 MB, went in a piece once, and then by torch
    del batch, part, table


@linux
@pytest.mark.parametrize("size", [None, 40])
def test_who_keeps_a_little_keeps_little(wide: str, size: int | None) -> None:
    """A row, or one batch of many."""
    kept = []
    for number, one in enumerate(loader(TFRecordIterable(wide, batch_size=size), 1)):
        if number % 100 == 7 or size is None:
            kept.append((int(one["x"].max()), one["values"]))
    assert all(int(values.max()) == x for x, values in kept)
    del one
    gc.collect()
    spans = [line.split()[0].split("-") for line in pieces()]
    nbytes = sum(int(stop, 16) - int(start, 16) for start, stop in spans)
    assert nbytes <= 2 * sum(values.nbytes for _, values in kept)
    kept.clear()


def test_numbers_of_a_small_batch(tmp_path: Path) -> None:
    found = numbers(loader(TFRecordIterable(written(str(tmp_path / "train")), batch_size=1), 2))
    assert sorted(found) == list(range(COUNT))


@pytest.mark.parametrize(("rows", "name"), [(2, "x"), (40, "values")])
def test_an_array_of_what_is_sent_on_stays(wide: str, rows: int, name: str) -> None:
    """Of a batch that came in its pickle, and of one that lies in a piece."""
    dataset = TFRecordIterable(wide, batch_size=rows, columns=[name])
    queue = torch.multiprocessing.get_context("fork").Queue()
    kept: list[tuple[Any, Any]] = []
    for batch in loader(dataset, 1):
        tensor = batch[name]
        if len(kept) < 40:
            kept.append((tensor.numpy(), tensor.clone()))
            queue.put(tensor)
            assert (queue.get() == tensor).all()
    del tensor, batch
    junk = [torch.full((3, 300), -1) for _ in range(200)]
    assert all((torch.from_numpy(array) == copied).all() for array, copied in kept)
    del junk


def test_a_first_batch_that_cannot_be_pickled(wide: str) -> None:
    """torch prints the worker's error, and waits for the batch for ever."""

    def spoilt(batch: Any) -> Any:
        return {**batch, "spoilt": lambda: None} if 0 in batch["x"] else batch

    batches = iter(loader(TFRecordIterable(wide, batch_size=40, transform=spoilt), 1))
    with pytest.raises(RuntimeError, match="could not be pickled"):
        next(batches)

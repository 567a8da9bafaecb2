"""The workers of a pass agree on its epoch, whoever comes first, and passes that run at once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
import time
from itertools import permutations, product
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from tests.support.long import first
from tests.training.loading import COUNT, loader, numbers, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import TFRecordIterable  # noqa: E402
from tfio_store.torch.epochs import (  # noqa: E402
    Epochs,
    Worker,
    starter,
)


def one_of(count: int, number: int, process: int = 0, loader: int | None = None) -> Worker:
    """A worker of ``count``, whose loader started ``process`` others before its first one."""
    return Worker(number, count, 7, loader or os.getpid(), process + number)


def begun(epochs: Epochs, key: list[int] | None, worker: int, at: int | None = None) -> int:
    return epochs.begin(key, one_of(3, worker), at).epoch


def test_the_first_worker_of_a_pass_takes_the_next_epoch_for_all() -> None:
    epochs = Epochs()
    assert [begun(epochs, [7, 1], worker) for worker in (2, 0, 1)] == [0, 0, 0]
    assert [begun(epochs, [7, 2], worker) for worker in (0, 1, 2)] == [1, 1, 1]
    assert epochs.next == 2


def test_threads_that_begin_passes_take_an_epoch_each() -> None:
    epochs = Epochs()
    found: list[int] = []

    def several() -> None:
        for _ in range(25):
            found.append(epochs.begin(None, Worker(0, 1, None, os.getpid())).epoch)

    threads = [threading.Thread(target=several) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(200))


def test_a_handler_of_a_signal_may_ask_meanwhile() -> None:
    """As one does that saves a state before the machine is taken away."""
    epochs, found = Epochs(3), list[int]()

    def handler() -> None:
        with epochs._locked(os.getpid()):
            found.append(epochs.next)  # as in a handler, which runs in between

    thread = threading.Thread(target=handler, daemon=True)
    thread.start()
    thread.join(30)
    assert found == [3]


@pytest.mark.parametrize("method", first(1, ["fork", "spawn"]))
def test_a_pass_that_begins_while_workers_start(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another thread of the program may begin it. It has an epoch of its own."""
    dataset = TFRecordIterable(written(f"{tmp_path}/a"), batch_size=64, shuffle=True)
    start = BaseProcess.start

    def started(process: BaseProcess) -> None:
        start(process)
        next(iter(dataset))

    monkeypatch.setattr(BaseProcess, "start", started)
    assert sorted(numbers(loader(dataset, 3, method))) == list(range(COUNT))


def test_passes_at_once_do_not_mix() -> None:
    epochs = Epochs()
    order = [([7, 1], 0), ([8, 1], 1), ([8, 1], 0), ([7, 1], 1)]
    assert [begun(epochs, key, worker) for key, worker in order] == [0, 1, 1, 0]


def test_a_seed_that_comes_again_is_another_pass() -> None:
    """A script may seed torch before each epoch."""
    epochs = Epochs()
    order = [0, 1, 1, 0, 0, 1]
    assert [begun(epochs, [7, 1], worker) for worker in order] == [0, 0, 1, 1, 2, 2]


@pytest.mark.parametrize("counts", [(2, 2), (3, 1), (1, 3), (1, 1)])
def test_loaders_of_the_same_seed_do_not_mix(counts: tuple[int, int]) -> None:
    """In whatever order their workers come."""
    first = [one_of(counts[0], number, process=5) for number in range(counts[0])]
    second = [one_of(counts[1], number, process=5 + counts[0]) for number in range(counts[1])]
    for order in permutations(first + second):
        epochs = Epochs()
        found = {worker: epochs.begin([7, 1], worker).epoch for worker in order}
        of_each = [{found[worker] for worker in loader} for loader in (first, second)]
        assert sorted(of_each, key=min) == [{0}, {1}]


def test_processes_that_another_thread_starts_shift_the_workers() -> None:
    epochs = Epochs()
    order = [(0, 5), (3, 8), (1, 5), (2, 7)]
    found = [epochs.begin([7, 1], one_of(4, number, process)) for number, process in order]
    assert [one.epoch for one in found] == [0] * 4


def test_the_process_itself() -> None:
    epochs = Epochs(5)
    assert [begun(epochs, None, 0) for _ in range(2)] == [5, 6]
    assert not epochs.in_workers
    begun(epochs, [1, 1], 0)
    assert epochs.in_workers
    epochs.set_next(3)
    assert not epochs.in_workers
    assert begun(epochs, [2, 1], 0) == 3


def test_a_state_says_the_epoch() -> None:
    epochs = Epochs()
    assert begun(epochs, [7, 1], 0, at=4) == 4
    assert begun(epochs, [7, 1], 1, at=4) == 4
    assert begun(epochs, [8, 1], 0) == 5
    with pytest.raises(ValueError, match="epoch 2 in worker 1, and of epoch 5 in others"):
        begun(epochs, [8, 1], 1, at=2)


def test_a_pass_is_resumed_once() -> None:
    epochs = Epochs()
    epochs.set_next(2, {"a": 1})
    assert [epochs.begin([7, 1], one_of(2, each)).saved for each in range(2)] == [{"a": 1}] * 2
    assert epochs.begin([8, 1], one_of(2, 0)).saved is None


def test_a_state_that_is_refused_is_not_given_up() -> None:
    epochs = Epochs()
    epochs.set_next(2, {"a": 1})
    for key in (1, 2):
        found = [epochs.begin([key, 1], one_of(2, each)) for each in range(2)]
        assert [(one.epoch, one.saved) for one in found] == [(2, {"a": 1})] * 2
        for one in found:
            epochs.refuse(one)


def test_each_process_with_a_loader_has_epochs_of_its_own() -> None:
    """They begin where the process that made the dataset stands."""
    epochs = Epochs(3)
    mine, other = os.getpid(), os.getppid()
    order = [([7, 1], 0, mine), ([7, 1], 0, other), ([7, 1], 1, other), ([7, 2], 0, mine)]
    found = [epochs.begin(key, one_of(2, n, loader=pid)).epoch for key, n, pid in order]
    assert found == [3, 4, 4, 4]


def test_a_pickle_goes_on_by_itself() -> None:
    epochs = Epochs()
    begun(epochs, None, 0)
    other = pickle.loads(pickle.dumps(epochs))
    assert begun(other, None, 0) == 1
    assert begun(epochs, None, 0) == 1


def test_files_are_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        Epochs()
    assert len(os.listdir("/proc/self/fd")) <= before + 1


def take(epochs: Epochs, key: list[int], worker: int, queue: Any) -> None:
    queue.put(epochs.begin(key, one_of(3, worker, loader=starter())).epoch)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_processes_share_them(method: str) -> None:
    context: Any = multiprocessing.get_context(method)
    epochs, queue = Epochs(), context.Queue()
    for number in range(2):
        processes = [
            context.Process(target=take, args=(epochs, [number, 1], worker, queue))
            for worker in range(3)
        ]
        for process in processes:
            process.start()
        assert [queue.get(timeout=120) for _ in processes] == [number] * 3
        for process in processes:
            process.join()
    assert epochs.next == 2


def test_loaders_that_run_at_once_and_that_are_dropped(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=50, shuffle=True)
    with_workers = loader(dataset, 2)
    next(iter(with_workers))  # looks at a batch, as people do
    pairs = list(zip(with_workers, with_workers, strict=True))
    parts = [numbers(pair[side] for pair in pairs) for side in range(2)]
    assert [sorted(part) for part in parts] == [list(range(COUNT))] * 2
    assert parts[0] != parts[1]


@pytest.mark.parametrize("method", first(1, ["fork", "spawn"]))
def test_loaders_of_one_seed_at_once(tmp_path: Path, method: str) -> None:
    """Their workers come crosswise: one of the first, then one of the second, and so on."""
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=50, shuffle=True)
    unit = 0.3 if method == "fork" else 1.5  # a spawned worker takes a second to come
    passes = []
    for turns in ([0, 2], [3, 1]):
        seeded = torch.Generator().manual_seed(0)
        late = _Late([turn * unit for turn in turns])
        passes.append(iter(loader(dataset, 2, method, generator=seeded, worker_init_fn=late)))
    parts = [numbers(each) for each in passes]
    assert [sorted(part) for part in parts] == [list(range(COUNT))] * 2


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_threads_that_read_at_once(
    tmp_path: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their loaders have one seed, and start their workers crosswise."""
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=50, shuffle=True)
    found: list[list[int]] = []
    turn, start = threading.Barrier(2, timeout=60), BaseProcess.start

    def start_in_turn(process: BaseProcess) -> None:
        turn.wait()
        start(process)

    def read() -> None:
        seeded = torch.Generator().manual_seed(0)
        found.append(numbers(loader(dataset, 2, method, generator=seeded)))

    monkeypatch.setattr(BaseProcess, "start", start_in_turn)
    threads = [threading.Thread(target=read) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(part) for part in found] == [list(range(COUNT))] * 2
    assert found[0] != found[1]


def test_workers_of_one_loader_share_a_pipe() -> None:
    """However many processes other threads start in between."""
    epochs = Epochs()
    workers = {
        (loader, number): Worker(number, 3, 7, 1, process, frozenset({loader, 10 + process}))
        for process, (number, loader) in enumerate(product(range(3), range(1, 5)))
    }
    epoch = {at: epochs.begin([7, 1], worker).epoch for at, worker in workers.items()}
    assert epoch == {(loader, number): loader - 1 for loader, number in workers}


class _Late:
    """Has each worker of a loader wait so many seconds."""

    def __init__(self, seconds: list[float]) -> None:
        self._seconds = seconds

    def __call__(self, worker: int) -> None:
        time.sleep(self._seconds[worker])


def test_torch_seeded_before_each_epoch(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=50, shuffle=True)
    orders = []
    for _ in range(2):
        torch.manual_seed(0)
        orders.append(numbers(loader(dataset, 2)))
    assert [sorted(order) for order in orders] == [list(range(COUNT))] * 2
    assert orders[0] != orders[1]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_that_persist_take_a_state(tmp_path: Path, method: str) -> None:
    """Also one that their dataset was given when they had begun."""
    url = written(str(tmp_path / "train"))
    other = TFRecordIterable(url, batch_size=50, shuffle=True)
    steps = iter(other)
    states = []
    for _ in range(2):
        numbers(next(steps) for _ in range(3))
        states.append(other.state_dict())
    left = numbers(steps)
    dataset = TFRecordIterable(url, batch_size=50, shuffle=True)
    with_workers = loader(dataset, 1, method, persistent_workers=True)
    numbers(with_workers)
    for state, more in zip((*states, states[1]), (150, 0, 0), strict=True):
        dataset.load_state_dict(state)
        found = numbers(with_workers)
        assert found[more:] == left
    assert sorted(numbers(with_workers)) == list(range(COUNT))


def test_a_state_that_is_refused_is_refused_again(tmp_path: Path) -> None:
    url = written(str(tmp_path / "train"))
    other = TFRecordIterable(url, batch_size=50, shuffle=True, seed=1)
    next(iter(other))
    dataset = TFRecordIterable(url, batch_size=50, shuffle=True)
    dataset.load_state_dict(other.state_dict())
    for workers in (0, 1, 0):
        with pytest.raises(ValueError, match="another order"):
            next(iter(loader(dataset, workers)))
    dataset.set_epoch(1)
    assert sorted(numbers(dataset)) == list(range(COUNT))


def test_a_state_behind_a_pass_tells_the_epoch_that_was_set(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=50, shuffle=True)
    numbers(dataset)
    dataset.set_epoch(5)
    other = TFRecordIterable(str(tmp_path / "train"), batch_size=50, shuffle=True)
    other.load_state_dict(dataset.state_dict())
    assert numbers(other) == numbers(dataset)


def test_workers_that_persist_take_the_epoch_that_is_set(tmp_path: Path) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=64, shuffle=True)
    with_workers = loader(dataset, 1, persistent_workers=True)
    orders = []
    for epoch in (3, 1, 3):
        dataset.set_epoch(epoch)
        orders.append(numbers(with_workers))
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == list(range(COUNT))

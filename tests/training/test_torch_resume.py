"""A loader that stops in mid-epoch goes on with the very next record, on any number of ranks and
workers, however it was stopped."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.training.loading import COUNT, numbers, written

torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

from tfio_store.loader import gathering  # noqa: E402
from tfio_store.torch import TFRecordIterable, reshard  # noqa: E402
from tfio_store.torch.tensors import Content  # noqa: E402

ALL = list(range(COUNT))
SIZE = 32


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"))


def made(
    url: str,
    workers: int,
    ranks: tuple[int, int] = (0, 1),
    part: dict[str, Any] | None = None,
    *,
    loader_options: dict[str, Any] | None = None,
    **options: Any,
) -> Any:
    """A StatefulDataLoader of one rank, which begins with a state that `reshard` made."""
    rank, world_size = ranks
    options = {"batch_size": SIZE, "seed": 3, **options}
    dataset = TFRecordIterable(url, rank=rank, world_size=world_size, **options)
    if part is not None:
        dataset.load_state_dict(part)
    return torchdata.StatefulDataLoader(
        dataset, batch_size=None, num_workers=workers, **loader_options or {}
    )


def stepped(loader: Any, steps: int) -> tuple[list[int], dict[str, Any]]:
    """The x of some batches, and the state behind them, as JSON has kept it."""
    batches = iter(loader)
    given = numbers(next(batches) for _ in range(steps))
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    return given, state


# The same layout


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("workers", [0, 1, 2])
def test_each_step_can_be_gone_on_from(url: str, workers: int, shuffle: bool) -> None:
    loader = made(url, workers, shuffle=shuffle)
    whole, states = [], [loader.state_dict()]
    for batch in loader:
        whole.append(batch["x"].tolist())
        states.append(json.loads(json.dumps(loader.state_dict())))
    ended = loader.state_dict()
    second = numbers(loader)
    for step in sorted({0, 1, 2, 7, len(whole) // 2, len(whole) - 1, len(whole)}):
        again = made(url, workers, shuffle=shuffle)
        again.load_state_dict(states[step])
        assert [batch["x"].tolist() for batch in again] == whole[step:], step
        assert numbers(again) == second, step
    again = made(url, workers, shuffle=shuffle)
    again.load_state_dict(ended)
    assert numbers(again) == second


@pytest.mark.parametrize("size", [None, 7, 64])
def test_a_few_batches_are_decoded_together(
    url: str, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "_AT_ONCE", 1000)
    monkeypatch.setattr(gathering, "_LEAST", 1)
    decoded: list[int] = []

    def numbers(content: Content, parts: Any) -> Any:
        decoded.append(sum(part.nbytes for part in parts))
        return plain_numbers(content, parts)

    plain_numbers = Content.numbers
    monkeypatch.setattr(Content, "numbers", numbers)

    def dataset() -> TFRecordIterable:
        return TFRecordIterable(url, batch_size=size, shuffle=True)

    def rows(batch: Any) -> list[int]:
        found: list[int] = batch["x"].reshape(-1).tolist()
        return found

    whole, given, states = dataset(), [], []
    for batch in whole:
        given.append(rows(batch))
        states.append(whole.state_dict())
    assert sorted(x for part in given for x in part) == ALL
    assert 200 < max(decoded) <= max(1000, 32 * (size or 256))
    for step in range(0, len(given), 1 + len(given) // 20):
        again = dataset()
        again.load_state_dict(states[step])
        assert [rows(batch) for batch in again] == given[step + 1 :]


def test_workers_that_persist(url: str) -> None:
    options: dict[str, Any] = {"loader_options": {"persistent_workers": True}, "shuffle": True}
    loader = made(url, 2, **options)
    first = numbers(loader)
    given, state = stepped(loader, 5)
    again = made(url, 2, **options)
    again.load_state_dict(state)
    rest = numbers(again)
    assert sorted(given + rest) == ALL
    third = numbers(again)
    assert sorted(third) == ALL
    assert first != third != given + rest


@pytest.mark.parametrize("workers", [0, 2])
def test_single_rows_in_batches_of_the_loader(url: str, workers: int) -> None:
    def loader() -> Any:
        dataset = TFRecordIterable(url, shuffle=True)
        return torchdata.StatefulDataLoader(dataset, batch_size=10, num_workers=workers)

    given, state = stepped(loader(), 7)
    again = loader()
    again.load_state_dict(state)
    assert sorted(given + numbers(again)) == ALL


def test_a_loader_with_another_batch_size(url: str) -> None:
    given, state = stepped(made(url, 0), 3)
    again = made(url, 0, batch_size=50)
    again.load_state_dict(state)
    assert sorted(given + numbers(again)) == ALL


def test_from_s3_and_spawned_workers(s3: Place) -> None:
    url = written(s3.url("train"), storage_options=s3.storage_options)
    options: dict[str, Any] = {"storage_options": s3.storage_options, "shuffle": True}
    given, state = stepped(made(url, 1, **options), 5)
    again = made(url, 1, loader_options={"multiprocessing_context": "spawn"}, **options)
    again.load_state_dict(state)
    assert sorted(given + numbers(again)) == ALL


# Another layout


def resharded(url: str, states: list[Any], layout: tuple[int, int], **options: Any) -> list[Any]:
    """The loaders of all ranks of a new layout (ranks, workers)."""
    ranks, workers = layout
    parts = json.loads(json.dumps(reshard(states, world_size=ranks, num_workers=workers)))
    return [made(url, workers, (rank, ranks), part, **options) for rank, part in enumerate(parts)]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("layouts", [[(2, 2), (3, 1), (1, 0)], [(3, 0), (1, 2), (2, 1)]])
def test_ranks_and_workers_in_other_numbers(
    url: str, layouts: list[tuple[int, int]], shuffle: bool
) -> None:
    """Three layouts in one epoch; then the last one's next epoch is what it would be anyhow."""
    loaders = [
        made(url, layouts[0][1], (r, layouts[0][0]), shuffle=shuffle) for r in range(layouts[0][0])
    ]
    given: list[int] = []
    for layout in layouts[1:]:
        states = []
        for loader in loaders:
            part, state = stepped(loader, 4)
            given += part
            states.append(state)
        loaders = resharded(url, states, layout, shuffle=shuffle)
    given += [x for loader in loaders for x in numbers(loader)]
    assert sorted(given) == ALL
    ranks, workers = layouts[-1]
    for rank, loader in enumerate(loaders):
        fresh = made(url, workers, (rank, ranks), shuffle=shuffle)
        fresh.dataset.set_epoch(1)
        assert numbers(loader) == numbers(fresh)


@pytest.mark.parametrize("even", ["pad", "drop"])
def test_even_shares_stay_even(url: str, even: Any) -> None:
    states, given = [], []
    for rank in range(2):
        part, state = stepped(made(url, 2, (rank, 2), even=even, shuffle=True), 5)
        states.append(state)
        given += part
    steps = []
    for loader in resharded(url, states, (3, 1), even=even, shuffle=True):
        batches = [batch["x"].tolist() for batch in loader]
        steps.append([len(batch) for batch in batches])
        given += [x for batch in batches for x in batch]
    assert steps[0] == steps[1] == steps[2]
    if even == "pad":
        assert set(given) == set(ALL)
        assert len(given) < COUNT + 4 + 3
    else:
        assert len(set(given)) == len(given) > COUNT - 4 - 3


def test_at_the_end_of_an_epoch_the_next_one_begins(url: str) -> None:
    loaders = [made(url, 1, (rank, 2), shuffle=True) for rank in range(2)]
    first = [x for loader in loaders for x in numbers(loader)]
    states = [loader.state_dict() for loader in loaders]
    (loader,) = resharded(url, states, (1, 0), shuffle=True)
    second = numbers(loader)
    assert sorted(first) == sorted(second) == ALL
    fresh = made(url, 0, shuffle=True)
    fresh.dataset.set_epoch(1)
    assert second == numbers(fresh)


def test_states_that_do_not_go_together_are_refused(url: str, tmp_path: Path) -> None:
    loaders = [made(url, 2, (rank, 2), shuffle=True) for rank in range(2)]
    _, state = stepped(loaders[0], 3)
    _, other = stepped(loaders[1], 3)
    with pytest.raises(ValueError, match="lacks share 2 of 4: pass the states of all ranks"):
        reshard([state])
    with pytest.raises(ValueError, match="holds share 0 of 4 twice"):
        reshard([state, state])
    with pytest.raises(ValueError, match="no state of a TFRecordIterable"):
        reshard([{}])
    numbers(loaders[1])
    _, later = stepped(loaders[1], 3)
    with pytest.raises(ValueError, match=r"different epochs: \[0, 2\]"):
        reshard([state, later])
    elsewhere = written(str(tmp_path / "other"), COUNT + 1)
    (wrong,) = resharded(elsewhere, [state, other], (1, 0), shuffle=True)
    with pytest.raises(ValueError, match="another source"):
        next(iter(wrong))
    late = made(url, 1, loader_options={"snapshot_every_n_steps": 5})
    _, state = stepped(late, 3)
    with pytest.raises(ValueError, match="3 steps behind its last snapshot"):
        reshard([state])


def test_a_state_of_another_layout_is_refused(url: str) -> None:
    _, state = stepped(made(url, 1, (0, 2), shuffle=True), 3)
    for ranks in ((0, 3), (1, 2)):
        again = made(url, 1, ranks, shuffle=True)
        again.load_state_dict(state)
        with pytest.raises(ValueError, match=r"share 0\] of 2|\[0\] of 2, and this is share"):
            numbers(again)


def test_a_dataset_whose_workers_know_more_than_it_tells_no_state(url: str) -> None:
    loader = made(url, 1)
    next(iter(loader))
    with pytest.raises(RuntimeError, match="StatefulDataLoader"):
        loader.dataset.state_dict()


def test_what_is_no_state_is_refused(url: str) -> None:
    dataset = TFRecordIterable(url, batch_size=SIZE)
    good = dataset.state_dict()
    wrongs: list[Any] = [None, [1], {}, good | {"epoch": -1}, good | {"count": -1}]
    wrongs += [good | {"epoch": "x"}, good | {"shares": 5}, good | {"shares": {"0": {}}}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match="no state of a TFRecordIterable"):
            dataset.load_state_dict(wrong)


# Killed


def train(url: str, log: str, workers: int, ranks: tuple[int, int], part: Any) -> None:
    """Note each batch, together with the loader's state behind it, by one write."""
    loader = made(url, workers, ranks, part, shuffle=True)
    with open(log, "ab", buffering=0) as file:
        for batch in loader:
            line = {"x": batch["x"].tolist(), "state": loader.state_dict()}
            file.write(json.dumps(line).encode() + b"\n")
            time.sleep(0.05)
        file.write(b'{"x": []}\n')


def noted(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_bytes().splitlines(keepends=True) if log.exists() else ():
        if line.endswith(b"\n"):
            yield json.loads(line)


def run(url: str, folder: Path, layout: tuple[int, int], parts: Any, kill_after: int | None) -> Any:
    """What all ranks note until they end, or are killed behind so many batches of each."""
    ranks, workers = layout
    folder.mkdir()
    logs = [folder / str(rank) for rank in range(ranks)]
    processes = []
    for rank, log in enumerate(logs):
        arguments = (url, str(log), workers, (rank, ranks), parts[rank])
        context = multiprocessing.get_context("fork")
        processes.append(context.Process(target=train, args=arguments))
        processes[-1].start()
    while kill_after and any(len(list(noted(log))) < kill_after for log in logs):
        assert all(process.is_alive() for process in processes)
        time.sleep(0.01)
    for process in processes:
        if kill_after:
            assert process.pid is not None
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode == (-signal.SIGKILL if kill_after else 0)
    return [list(noted(log)) for log in logs]


@pytest.mark.parametrize("layouts", [[(1, 2), (1, 2)], [(2, 1), (3, 1)], [(3, 1), (1, 0)]])
def test_killed_in_mid_epoch(url: str, tmp_path: Path, layouts: list[tuple[int, int]]) -> None:
    first, second = layouts
    found = run(url, tmp_path / "first", first, [None] * first[0], kill_after=3)
    states = [lines[-1]["state"] for lines in found]
    parts = reshard(states, world_size=second[0], num_workers=second[1])
    found += run(url, tmp_path / "second", second, parts, kill_after=None)
    assert sorted(x for lines in found for line in lines for x in line["x"]) == ALL


def test_the_library_and_the_loader_agree_on_shares(url: str) -> None:
    """A worker of a rank has the share that `RecordReader.shard` counts through."""
    for rank in range(2):
        loader = made(url, 2, (rank, 2), shuffle=True)
        by_loader = numbers(loader)
        schema = {"x": "int64"}
        by_reader: list[int] = []
        for worker in range(2):
            reader = tfs.RecordReader(url).shuffle(3).shard(rank * 2 + worker, 4, even="split")
            by_reader += tfs.decode_examples(list(reader), schema)["x"].tolist()
        assert sorted(by_loader) == sorted(by_reader)

"""Windows of episodes in PyTorch's loaders: shares, epochs, states, workers and damage."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.robots import written
from tests.test_documents import blocks

torch = pytest.importorskip("torch", reason="torch is missing")
torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

from torch.utils.data import DataLoader  # noqa: E402

from tfio_store.torch import EpisodeWindows, reshard  # noqa: E402

LENGTHS = tuple(np.random.default_rng(0).integers(1, 30, 40).tolist())
ALL = sum(LENGTHS)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(tmp_path_factory.mktemp("robots") / "arm" / "1.0.0", LENGTHS, num_shards=3)


def windows_of(url: str, **options: Any) -> Any:
    return tfs.Episodes(url, cache_bytes=60_000).windows(**{"length": 4, "past": 1, **options})


def places(batches: Any) -> list[tuple[int, int]]:
    return [
        pair
        for batch in batches
        for pair in zip(batch["episode_index"].tolist(), batch["step_index"].tolist(), strict=True)
    ]


def test_a_batch_is_a_nested_dict_of_tensors(url: str) -> None:
    windows = windows_of(url)
    (batch, *_) = DataLoader(EpisodeWindows(windows, batch_size=5), batch_size=None)
    wanted = windows[[0, 1, 2, 3, 4]]
    assert batch["observation"]["image"].dtype == torch.uint8
    for path in (("observation", "image"), ("observation", "state"), ("mask", "action")):
        got, array = batch, wanted
        for key in path:
            got, array = got[key], array[key]
        assert torch.equal(got, torch.from_numpy(array))
    assert batch["language_instruction"] == wanted["language_instruction"].tolist()


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [False, True])
def test_all_ranks_and_workers_give_each_window_once(url: str, workers: int, shuffle: bool) -> None:
    found: list[tuple[int, int]] = []
    for rank in range(2):
        dataset = EpisodeWindows(
            windows_of(url), batch_size=16, shuffle=shuffle, rank=rank, world_size=2
        )
        found += places(DataLoader(dataset, batch_size=None, num_workers=workers))
    assert len(found) == len(set(found)) == ALL


def test_each_pass_is_the_next_epoch(url: str) -> None:
    dataset = EpisodeWindows(windows_of(url), batch_size=16, shuffle=True, seed=3)
    first, second = places(dataset), places(dataset)
    assert first != second
    assert sorted(first) == sorted(second)
    dataset.set_epoch(0)
    assert places(dataset) == first


@pytest.mark.parametrize("even", ["pad", "drop"])
def test_even_shares_have_as_many(url: str, even: Any) -> None:
    counts = set()
    for rank in range(3):
        dataset = EpisodeWindows(
            windows_of(url), batch_size=7, even=even, rank=rank, world_size=3, num_workers=0
        )
        assert len(dataset) == len(list(dataset))
        counts.add(len(places(dataset)))
    assert len(counts) == 1


def test_drop_last_and_single_windows(url: str) -> None:
    dataset = EpisodeWindows(windows_of(url), batch_size=64, drop_last=True, num_workers=0)
    assert {len(batch["step_index"]) for batch in dataset} == {64}
    assert len(dataset) == ALL // 64
    rows = list(EpisodeWindows(windows_of(url)))
    assert len(rows) == ALL
    assert rows[0]["action"].shape == (4, 3)
    (batch, *_) = DataLoader(EpisodeWindows(windows_of(url)), batch_size=8)
    assert batch["action"].shape == (8, 4, 3)


def test_a_map_style_loader_with_the_sampler(url: str) -> None:
    windows = windows_of(url, keys=["action", "observation"])
    shuffle = windows.shuffle_by_episode(seed=2)
    loader = DataLoader(windows, batch_size=16, sampler=shuffle, num_workers=2)
    first = places(loader)
    assert len(first) == len(set(first)) == ALL
    assert places(loader) != first
    by_batch = DataLoader(
        windows, batch_sampler=windows.shuffle_by_episode(seed=2, batch_size=16), num_workers=1
    )
    assert places(by_batch) == first


def test_spawned_workers(url: str) -> None:
    dataset = EpisodeWindows(windows_of(url), batch_size=32, shuffle=True)
    loader = DataLoader(dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn")
    assert len(places(loader)) == ALL
    assert len(pickle.dumps(dataset)) < 40_000


def loader_of(url: str, rank: int, ranks: int, workers: int, state: Any = None) -> Any:
    dataset = EpisodeWindows(
        windows_of(url), batch_size=8, shuffle=True, seed=5, rank=rank, world_size=ranks
    )
    if state is not None:
        dataset.load_state_dict(state)
    return torchdata.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)


def stepped(loader: Any, steps: int) -> tuple[list[tuple[int, int]], Any]:
    batches: Iterator[Any] = iter(loader)
    given = places(next(batches) for _ in range(steps))
    return given, json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize(("ranks", "workers"), [(1, 0), (3, 0), (1, 2), (2, 1)])
def test_it_goes_on_on_other_ranks_and_workers(url: str, ranks: int, workers: int) -> None:
    given: list[tuple[int, int]] = []
    states = []
    for rank in range(2):
        some, state = stepped(loader_of(url, rank, 2, 1), 4 + rank)
        given += some
        states.append(state)
    parts = reshard(states, world_size=ranks, num_workers=workers)
    states = []
    for rank in range(ranks):  # and once more, in the midst of what was left
        some, state = stepped(loader_of(url, rank, ranks, workers, parts[rank]), 2)
        given += some
        states.append(state)
    (part,) = reshard(states)
    given += places(loader_of(url, 0, 1, 0, part))
    assert Counter(given) == Counter(set(given))
    assert len(given) == ALL


def test_a_state_goes_on_with_the_very_next_window(url: str) -> None:
    whole = places(loader_of(url, 0, 1, 0))
    given, state = stepped(loader_of(url, 0, 1, 0), 7)
    other = loader_of(url, 0, 1, 0)
    other.load_state_dict(state)
    assert given + places(other) == whole


def test_a_state_of_single_windows(url: str) -> None:
    dataset = EpisodeWindows(windows_of(url), shuffle=True)
    rows = iter(dataset)
    given = [(int(r["episode_index"]), int(r["step_index"])) for r in islice(rows, 21)]
    other = EpisodeWindows(windows_of(url), shuffle=True)
    other.load_state_dict(dataset.state_dict())
    given += [(int(r["episode_index"]), int(r["step_index"])) for r in other]
    assert len(given) == len(set(given)) == ALL


def test_a_state_of_other_windows_is_refused(url: str) -> None:
    _, state = stepped(loader_of(url, 0, 1, 0), 2)
    dataset = EpisodeWindows(windows_of(url, past=2), batch_size=8, shuffle=True, seed=5)
    other = torchdata.StatefulDataLoader(dataset, batch_size=None)
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="not of this EpisodeWindows: it has source"):
        list(other)


def test_a_state_of_episodes_that_were_rewritten_is_refused(tmp_path: Path) -> None:
    url = written(tmp_path / "arm" / "1.0.0", LENGTHS, num_shards=2)
    _, state = stepped(loader_of(url, 0, 1, 0), 2)
    changed = max(tmp_path.rglob("*.tfrecord*"))
    os.utime(changed, (1, 1))  # as if it held others: names and sizes are the same
    loader = loader_of(url, 0, 1, 0)
    loader.load_state_dict(state)
    with pytest.raises(tfs.ReplacedError) as error:
        list(loader)
    assert error.value.filename == str(changed)


def train(url: str, states: str, kill_at: int, given: Any) -> None:
    loader = loader_of(url, 0, 1, 0)
    for step, batch in enumerate(loader):
        for pair in places([batch]):
            given.put(pair)
        Path(states).with_suffix(".new").write_text(json.dumps(loader.state_dict()))
        os.replace(Path(states).with_suffix(".new"), states)
        if step == kill_at:
            given.close()
            given.join_thread()
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_job_goes_on_on_two_ranks(url: str, tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    job = context.Process(target=train, args=(url, str(tmp_path / "state"), 9, queue))
    job.start()
    given = [queue.get(timeout=60) for _ in range(80)]
    job.join(60)
    assert job.exitcode == -signal.SIGKILL
    parts = reshard([json.loads((tmp_path / "state").read_text())], world_size=2)
    for rank in range(2):
        given += places(loader_of(url, rank, 2, 0, parts[rank]))
    assert len(given) == len(set(given)) == ALL


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    url = written(tmp_path / "arm" / "1.0.0", (6, 5, 4, 7), num_shards=1)
    shard = tmp_path / "arm" / "1.0.0" / "arm-train.tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    at = data.index(b"/data/2.h5")
    data[at] ^= 1
    shard.write_bytes(data)
    return url


@pytest.mark.parametrize("workers", [0, 1])
def test_damage_names_the_episode_in_the_training_process(damaged: str, workers: int) -> None:
    dataset = EpisodeWindows(windows_of(damaged), batch_size=4)
    with pytest.raises(tfs.CorruptRecordError, match="episode 2: "):
        list(DataLoader(dataset, batch_size=None, num_workers=workers))


@pytest.mark.parametrize("batch_size", [4, None])
def test_damaged_episodes_are_skipped_with_a_word(damaged: str, batch_size: int | None) -> None:
    dataset = EpisodeWindows(windows_of(damaged), batch_size=batch_size, on_corrupt="skip")
    with pytest.warns(tfs.errors.DataLossWarning, match="episode 2: .*left out") as told:
        found = list(dataset)
    assert len([each for each in told if "episode 2" in str(each.message)]) == 1
    episodes = torch.cat([batch["episode_index"].reshape(-1) for batch in found]).tolist()
    assert Counter(episodes) == {0: 6, 1: 5, 3: 7}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"batch_size": 0}, ValueError),
        ({"drop_last": True}, ValueError),
        ({"even": "more"}, ValueError),
        ({"on_corrupt": "ignore"}, ValueError),
        ({"seed": -1}, ValueError),
        ({"transform": 5}, TypeError),
        ({"rank": 1}, ValueError),
    ],
)
def test_wrong_arguments(url: str, options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match=f"{next(iter(options))}="):
        EpisodeWindows(windows_of(url), **options)


def test_what_is_no_windows_is_refused(url: str) -> None:
    with pytest.raises(TypeError, match=r"windows= takes what tfio_store.Episodes"):
        EpisodeWindows(tfs.Episodes(url))  # type: ignore[arg-type]


def test_grain_takes_windows(url: str) -> None:
    grain = pytest.importorskip("grain", reason="grain is missing")
    windows = windows_of(url, keys=["action"])
    rows = grain.MapDataset.source(windows).shuffle(seed=1).batch(16)
    found = places(rows[i] for i in range(len(rows)))
    assert len(found) == len(set(found)) == ALL
    assert rows[0]["action"].shape == (16, 4, 3)


def test_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of docs/robots.md run as they stand, the first one on a dataset of this test."""
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    written("bridge/0.1.0", (20, 30), num_shards=2)
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks("docs/robots.md")):
        code = block.replace("gs://gresearch/robotics/", "")
        code = code.replace('    storage_options={"token": "anon"},\n', "")
        exec(compile(code, f"docs/robots.md, block {number}", "exec"), names)
    assert names["batch"]["observation"]["image"].shape == (50, 2, 224, 224, 3)
    assert names["batch"]["action"].shape == (50, 16, 3)

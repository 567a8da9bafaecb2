"""PyTorch's datasets read whatever is a source: slices, mixtures, and lists of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.training.loading import COUNT, loader, numbers, written

pytest.importorskip("torchdata", reason="torchdata is not installed")

from torchdata.stateful_dataloader import StatefulDataLoader

from tfio_store.torch import TFRecordIterable, TFRecordMap, reshard


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"))


def test_slices_for_training_and_validation(url: str) -> None:
    parts = []
    for span in (":80%", "80%:"):
        dataset = TFRecordIterable(tfs.slice(url, span), batch_size=64, shuffle=True)
        parts.append(numbers(loader(dataset, 2)))
        assert numbers([TFRecordMap(tfs.slice(url, span))[:]]) == numbers(
            TFRecordIterable(tfs.slice(url, span), batch_size=64)
        )
    assert sorted(parts[0] + parts[1]) == list(range(COUNT))
    assert [len(part) for part in parts] == [802, 201]


def test_several_sources(url: str) -> None:
    source: Any = [tfs.slice(url, ":10"), tfs.slice(url, "-10:")]
    dataset = TFRecordIterable(source, schema={"x": "int64"}, batch_size=7)
    assert len(numbers(loader(dataset, 2))) == 20


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_mixture_that_goes_on_in_other_numbers(url: str, tmp_path: Path, shuffle: bool) -> None:
    """Where the share of one source ends before that of the other, it begins anew."""
    half = COUNT // 2
    halves: Any = {
        tfs.slice(url, f":{half}"): 1.0,
        tfs.slice(url, f"{half}:"): (COUNT - half) / half,
    }

    def made(rank: int, ranks: int, part: Any = None) -> Any:
        dataset = TFRecordIterable(
            tfs.mix(halves, seed=2), batch_size=16, shuffle=shuffle, rank=rank, world_size=ranks
        )
        if part is not None:
            dataset.load_state_dict(part)
        return StatefulDataLoader(dataset, batch_size=None, num_workers=1)

    given, states = [], []
    for rank in range(2):
        with_workers = made(rank, 2)
        batches = iter(with_workers)
        given += numbers(next(batches) for _ in range(4))
        states.append(with_workers.state_dict())
    for rank, part in enumerate(reshard(states, world_size=3, num_workers=1)):
        given += numbers(made(rank, 3, part))
    times = Counter(given)
    assert set(times) == set(range(COUNT))
    assert len(given) < COUNT * 1.5

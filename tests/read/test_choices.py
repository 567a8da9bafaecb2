"""Which source comes next: by weight over short stretches and long ones, everywhere the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfio_store.read.choices import Choices

weights = st.lists(st.floats(0.001, 1000), min_size=1, max_size=6).map(tuple)
places = st.integers(0, 100_000)


@given(weights, st.integers(0, 9), st.integers(0, 9), places, st.integers(0, 2000))
def test_a_place_is_a_place(
    weights: tuple[float, ...], seed: int, epoch: int, start: int, length: int
) -> None:
    choices = Choices(seed, weights)
    found = choices.between(epoch, start, start + length)
    assert len(found) == length
    whole = Choices(seed, weights).between(epoch, start - start % 256, start + length)
    assert found.tolist() == whole[start % 256 :].tolist()


@given(weights, st.integers(0, 9), st.integers(0, 400))
def test_each_stretch_keeps_to_the_weights(
    weights: tuple[float, ...], seed: int, block: int
) -> None:
    found = Choices(seed, weights).between(1, block * 256, block * 256 + 256)
    counts = np.bincount(found, minlength=len(weights))
    wanted = np.array(weights) / sum(weights) * 256
    assert np.abs(counts - wanted).max() <= 1 + 1e-6


def test_long_sums_keep_to_them_too() -> None:
    weights = (0.5, 0.3, 0.1999, 0.0001)
    found = Choices(3, weights).between(0, 0, 1 << 20)
    counts = np.bincount(found, minlength=4)
    assert np.abs(counts - np.array(weights) * (1 << 20)).max() < 10


@given(weights, st.integers(0, 3), st.integers(0, 5000), st.data())
def test_counts_and_places(
    weights: tuple[float, ...], epoch: int, stop: int, data: st.DataObject
) -> None:
    choices = Choices(5, weights)
    source = data.draw(st.integers(0, len(weights) - 1))
    found = choices.between(epoch, 0, stop)
    count = int((found == source).sum())
    assert choices.count(epoch, source, stop) == count
    place = choices.place(epoch, source, count)
    assert place >= stop
    assert choices.count(epoch, source, place) == count
    assert choices.between(epoch, place, place + 1).tolist() == [source]


@pytest.mark.parametrize("weight", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("count", [0, 1, 1_000_000])
def test_a_tiny_weight_is_counted_without_a_walk(weight: float, count: int) -> None:
    """Its last place may lie behind 10**15 others."""
    choices = Choices(5, (1.0, weight))
    place = choices.place(2, 1, count)
    assert choices.between(2, place, place + 1).tolist() == [1]
    assert choices.count(2, 1, place) == count
    assert choices.count(2, 0, place) == place - count
    share = float(np.diff(choices.bounds)[0]) / (1 << 32)
    assert abs(count - place * share) < 40


def test_other_seeds_and_epochs_mix_otherwise() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        found: list[int] = Choices(seed, (1, 1)).between(epoch, 0, 64).tolist()
        return found

    assert order(1, 0) == order(1, 0)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) != order(1, 1)


def test_the_order_stays_what_it_is() -> None:
    """A saved place would mean another source."""
    found = Choices(7, (2.0, 1.0, 1.0)).between(2, 250, 270).tolist()
    assert found == [0, 0, 1, 0, 2, 0, 1, 1, 0, 0, 2, 1, 1, 0, 2, 2, 2, 0, 0, 0]


@pytest.mark.parametrize("weights", [(0.0, 1.0), (-1.0,), (float("nan"), 1.0), (float("inf"),)])
def test_weights_are_positive(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights are positive numbers"):
        Choices(0, weights)


def test_a_weight_too_small_to_count() -> None:
    with pytest.raises(ValueError, match="too small beside"):
        Choices(0, (1e12, 1.0))
    with pytest.raises(ValueError, match="seed="):
        Choices(-1, (1.0,))

"""The order of windows: each once, mixed, each episode read about once, and the rest of an epoch
shared out anew."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from tfio_store.episodes.order import Order, Share, Stage

COUNTS = st.lists(st.integers(0, 20), min_size=1, max_size=30)


def numbers(share: Share, given: int = 0) -> list[int]:
    return [n for piece in share.numbers(given) for n in piece.tolist()]


@given(COUNTS, st.integers(0, 12), st.integers(1, 7), st.integers(0, 3))
def test_shares_have_each_window_once(
    counts: list[int], pool: int, shares: int, epoch: int
) -> None:
    order = Order(np.array(counts), pool, 5, epoch)
    total = sum(counts)
    found = [numbers(order.share(i, shares)) for i in range(shares)]
    assert sorted(n for share in found for n in share) == list(range(total))
    assert [len(order.share(i, shares)) for i in range(shares)] == list(map(len, found))
    assert max(map(len, found)) - min(map(len, found)) <= 1


@given(COUNTS, st.integers(0, 12), st.integers(1, 7))
def test_even_shares(counts: list[int], pool: int, shares: int) -> None:
    order = Order(np.array(counts), pool, 5)
    total = sum(counts)
    dropped = [numbers(order.share(i, shares, "drop")) for i in range(shares)]
    assert {len(share) for share in dropped} == {total // shares}
    given = [n for share in dropped for n in share]
    assert len(set(given)) == len(given)
    padded = [numbers(order.share(i, shares, "pad")) for i in range(shares)]
    assert {len(share) for share in padded} == {-(-total // shares)}
    assert {n for share in padded for n in share} == set(range(total))


@given(COUNTS, st.integers(0, 12), st.integers(0, 300))
def test_it_goes_on_from_any_place(counts: list[int], pool: int, given: int) -> None:
    share = Order(np.array(counts), pool, 1).share(0, 1)
    assert numbers(share, given) == numbers(share)[given:]


@given(
    COUNTS,
    st.integers(0, 12),
    st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from([None, "pad", "drop"]), st.integers(0, 99)),
        max_size=3,
    ),
)
def test_the_rest_of_an_epoch_is_shared_out_anew(
    counts: list[int], pool: int, stages: list[tuple[int, Any, int]]
) -> None:
    order = Order(np.array(counts), pool, 2)
    given: list[int] = []
    for shares, even, seed in stages:
        rng = np.random.default_rng(seed)
        told = []
        for i in range(shares):
            mine = numbers(order.share(i, shares, even))
            count = int(rng.integers(0, len(mine) + 1))
            given += mine[:count]
            told.append(count)
        # what an even share leaves out it does not give in another stage either
        kept = {n for i in range(shares) for n in numbers(order.share(i, shares, even))}
        order = replace(order, stages=(*order.stages, Stage(tuple(told), even)))
        rest = numbers(order.share(0, 1))
        assert len(set(rest)) == len(rest)
        assert set(rest) == kept - set(given)


def test_epochs_and_seeds_differ() -> None:
    counts = np.full(50, 10)
    orders = {
        tuple(numbers(Order(counts, 8, seed, epoch).share(0, 1)))
        for seed, epoch in ((0, 0), (0, 1), (1, 0))
    }
    assert len(orders) == 3


def reads(order: list[int], counts: np.ndarray[Any, Any], room: int) -> int:
    """How often an episode is fetched, if ``room`` of them are kept."""
    bounds = np.append(0, np.cumsum(counts))
    kept: OrderedDict[int, None] = OrderedDict()
    fetched = 0
    for episode in (np.searchsorted(bounds, order, side="right") - 1).tolist():
        if episode in kept:
            kept.move_to_end(episode)
            continue
        fetched += 1
        kept[episode] = None
        if len(kept) > room:
            kept.popitem(last=False)
    return fetched


def test_each_episode_is_read_about_once() -> None:
    counts = np.random.default_rng(0).integers(40, 200, 300)
    order = numbers(Order(counts, 30, 7).share(0, 1))
    assert reads(order, counts, 40) <= 1.1 * len(counts)
    plain = np.random.default_rng(0).permutation(int(counts.sum())).tolist()
    assert reads(plain, counts, 40) > 50 * len(counts)


def test_windows_of_a_pool_are_mixed() -> None:
    counts = np.full(200, 50)
    order = np.array(numbers(Order(counts, 32, 3).share(0, 1)))
    batches = (order[2000:8400] // 50).reshape(-1, 32)
    episodes = [len(set(batch.tolist())) for batch in batches]
    assert np.mean(episodes) > 15  # 32 of 32 episodes at random are of 20.4
    neighbours = np.abs(np.diff(order)) == 1
    assert neighbours.mean() < 0.02


@pytest.mark.parametrize("value", [{}, {"given": [], "even": None}, {"given": [-1], "even": None}])
def test_a_state_that_is_none(value: Any) -> None:
    with pytest.raises((ValueError, KeyError)):
        Stage.from_json(value)

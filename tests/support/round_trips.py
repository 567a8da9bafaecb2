"""How many round trips to a store followed each other."""

from __future__ import annotations

from collections.abc import Iterable

from tests.servers.shaping_proxy import Request

__all__ = ["round_trips"]


def round_trips(requests: Iterable[Request]) -> int:
    """The length of the longest chain of requests, each of which began when the one before it was
    answered."""
    chains: list[tuple[float, int]] = []
    for request in sorted(requests, key=lambda each: each.begin):
        before = [length for answered, length in chains if answered <= request.begin]
        assert request.answered is not None
        chains.append((request.answered, 1 + max(before, default=0)))
    return max((length for _, length in chains), default=0)

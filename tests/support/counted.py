"""Counts the ranges that a store is asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

__all__ = ["Counted"]


class Counted:
    """The ranges that all stores of one class are asked for, from now on."""

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ranges: list[tuple[int, int]] = []
        read: Callable[..., Future[bytes]] = type(store).read

        def counted(asked: Any, path: str, start: int, stop: int, **version: Any) -> Future[bytes]:
            self.ranges.append((start, stop))
            return read(asked, path, start, stop, **version)

        monkeypatch.setattr(type(store), "read", counted)
        if not hasattr(store, "read_at_hand"):
            return
        at_hand: Callable[..., Any] = type(store).read_at_hand

        def all_counted(asked: Any, path: str, pieces: Any, **version: Any) -> Any:
            found = at_hand(asked, path, pieces, **version)
            if found is not None:
                self.ranges += pieces
            return found

        monkeypatch.setattr(type(store), "read_at_hand", all_counted)

    @property
    def nbytes(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def clear(self) -> None:
        self.ranges.clear()

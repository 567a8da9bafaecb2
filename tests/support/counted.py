"""Counts the ranges that a store is asked for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest

from tfio_store.read import spans
from tfio_store.records.framing import FileScan
from tfio_store.storage.local import LocalStore

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
        if not isinstance(store, LocalStore):
            return
        at_hand: Callable[..., Any] = LocalStore.read_at_hand
        now: Callable[..., Any] = LocalStore.read_now

        def all_counted(asked: Any, path: str, pieces: Any, **version: Any) -> Any:
            found = at_hand(asked, path, pieces, **version)
            if found is not None:
                self.ranges += pieces
            return found

        def counted_now(
            asked: Any, path: str, start: int, stop: int, *args: Any, **how: Any
        ) -> Any:
            found = now(asked, path, start, stop, *args, **how)
            if found is not None:
                self.ranges.append((start, stop))
            return found

        monkeypatch.setattr(LocalStore, "read_at_hand", all_counted)
        monkeypatch.setattr(LocalStore, "read_now", counted_now)
        monkeypatch.setattr(spans, "FileScan", partial(_CountedScan, self.ranges))

    @property
    def nbytes(self) -> int:
        return sum(stop - start for start, stop in self.ranges)

    def clear(self) -> None:
        self.ranges.clear()


class _CountedScan:
    def __init__(self, ranges: list[Any], path: str, start: int, stop: int, **how: Any) -> None:
        self._ranges, self._range = ranges, (start, stop)
        self._scan = FileScan(path, start, stop, **how)
        self.begin, self.begins, self.done = self._scan.begin, self._scan.begins, self._scan.done

    def result(self) -> Any:
        found = self._scan.result()
        if found is not None:
            self._ranges.append(self._range)
        return found

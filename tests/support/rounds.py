"""Counts the requests to a store that follow each other, without a clock of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import wraps
from typing import Any

import pytest

import tfio_store.dataset.folder as folder
import tfio_store.dataset.resolver as resolver
from tfio_store.read import spans
from tfio_store.storage.local import LocalStore

__all__ = ["Rounds"]

_BLOCKING = ("info", "look", "get", "put", "copy", "glob", "delete", "pending_uploads")


class Rounds:
    """Makes all stores of one class as far away as a bucket. Each request takes one round: its
    answer is there one round after it was asked, and what is asked meanwhile takes no round more.
    """

    def __init__(self, store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        """Rounds so far."""
        self.requests = 0
        """Requests in all."""
        self.nbytes = 0
        """Bytes of small objects and ranges, there and back."""
        self._lock = threading.Lock()
        self._thread = threading.local()
        place = type(store)
        for name in _BLOCKING:
            monkeypatch.setattr(place, name, self._blocking(getattr(place, name)))
        monkeypatch.setattr(place, "read", self._reading(place.read))
        if isinstance(store, LocalStore):  # a bucket has nothing at hand
            monkeypatch.setattr(place, "read_now", _read_far)
            monkeypatch.setattr(spans, "FileScan", _NoScan)
        for name, value in (("in_flight", 16), ("most_in_flight", 64), ("lists_cheaply", True)):
            monkeypatch.setattr(place, name, value)
        for module in (folder, resolver):
            monkeypatch.setattr(module, "early", self._early)

    def clear(self) -> None:
        self.now = self.requests = self.nbytes = 0

    def _blocking(self, ask: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(ask)
        def asked(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._thread, "asks", False):  # one request that is made of others here
                return ask(*args, **kwargs)
            with self._lock:
                self.requests += 1
                self.now += 1
            self._thread.asks = True
            try:
                answer = ask(*args, **kwargs)
            finally:
                self._thread.asks = False
            self.nbytes += sum(len(one) for one in _parts(args, answer) if isinstance(one, bytes))
            return answer

        return asked

    def _reading(self, read: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
        @wraps(read)
        def begun(store: Any, path: str, start: int, stop: int, **kwargs: Any) -> Future[Any]:
            self.requests += 1
            self.nbytes += stop - start
            return _Later(self, read(store, path, start, stop, **kwargs))

        return begun

    def _early(self, store: Any, ask: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        del store
        asked = self.now

        def answer() -> Any:
            before, self.now = self.now, asked
            try:
                return ask(*args)
            finally:
                self.now = max(before, self.now)

        return answer


def _read_far(
    store: Any, path: str, start: int, stop: int, version: Any, *, cached: bool = False
) -> Any:
    return None if cached else store.read(path, start, stop, etag=version).result()


class _NoScan:
    def __init__(self, *_: Any, **__: Any) -> None:
        """Nothing is at hand."""

    def begin(self, threads: int, at_once: int) -> bool:
        return False

    def result(self) -> None:
        return None


def _parts(args: tuple[Any, ...], answer: Any) -> tuple[Any, ...]:
    return (*args, *answer) if isinstance(answer, tuple) else args


class _Later(Future[Any]):
    """An answer that comes one round later."""

    def __init__(self, rounds: Rounds, answer: Future[Any]) -> None:
        super().__init__()
        self._rounds, self._answer, self._at = rounds, answer, rounds.now + 1

    def done(self) -> bool:
        return self._rounds.now >= self._at

    def result(self, timeout: float | None = None) -> Any:
        self._rounds.now = max(self._rounds.now, self._at)
        return self._answer.result(timeout)

    def cancel(self) -> bool:
        return self._answer.cancel()

"""`CachedStore`: a store whose ranges are read through a `LocalCache`."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

from typing_extensions import Buffer as BytesLike

from tfio_store.storage import threads
from tfio_store.storage.cache import LocalCache
from tfio_store.storage.cache.folder import DIGEST_BYTES, CacheFolder, Found, folder_of
from tfio_store.storage.store import DISTANT, Store, Version
from tfio_store.storage.threads import PerProcess, cancelled_with

__all__ = ["cached"]

_turns: PerProcess[list[threading.Lock]] = PerProcess(lambda: [threading.Lock() for _ in range(64)])


def cached(store: Store, cache: LocalCache) -> Store:
    """The store, read through the cache. Or the store itself, if it is near, or if it can't name
    its service and the versions of its objects from all others: as most of fsspec's filesystems."""
    if store.in_flight < DISTANT or store.service is None:
        return store
    return cast(Store, CachedStore(store, folder_of(cache)))


class CachedStore:
    """Reads ranges of a known version from the cache if they are there, and keeps those that it
    fetches. All else is the store's.

    If a `Version` knows no etag yet, the store is first asked for it. If the store has none,
    or one that two versions may share, or if the caller takes any version, nothing is kept.
    """

    def __init__(self, store: Store, folder: CacheFolder) -> None:
        self._store = store
        self._folder = folder
        self._unversioned: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def __reduce__(self) -> tuple[object, ...]:
        return remade, (self._store, self._folder.cache)

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        if etag is None or stop <= start or path in self._unversioned:
            return self._store.read(path, start, stop, etag=etag)
        wanted = Wanted(self._store, self._folder, path, (start, stop), Version.of(etag))
        after(wanted.answer, wanted.serve, self._unversioned)
        return wanted.answer


def remade(store: Store, cache: LocalCache) -> CachedStore:
    return CachedStore(store, folder_of(cache))


def is_exact(etag: str) -> bool:
    """Whether no other version has it. A weak ETag and a date of whole seconds may be shared."""
    return not etag.startswith("W/") and not etag.endswith(" GMT")


class Wanted:
    """A range on its way out of the cache, or out of the store and into the cache."""

    def __init__(
        self,
        store: Store,
        folder: CacheFolder,
        path: str,
        span: tuple[int, int],
        version: Version,
    ) -> None:
        self.answer: Future[BytesLike] = Future()
        self._store = store
        self._folder = folder
        self._path = path
        self._span = span
        self._version = version

    def serve(self, unversioned: set[str]) -> None:
        if self.answer.cancelled():
            return
        etag = self._etag()
        if etag is None or not is_exact(etag):
            unversioned.add(self._path)
            self._fetch(self._span, self._deliver)
            return
        assert self._store.service is not None
        text = "\0".join([self._store.service, self._store.url(self._path), self._path, etag])
        digest = hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]
        found = self._folder.find(digest, *self._span)
        if found.gap is None:
            self._deliver(joined(found.before))
        else:
            self._fetch(found.gap, partial(self._keep, digest, found))

    def _etag(self) -> str | None:
        """The version's. One of all ranges that share the version looks for it."""
        if self._version.etag is None:
            with _turns.here[hash(self._path) % len(_turns.here)]:
                if self._version.etag is None:
                    info = self._store.info(self._path)
                    self._version.hold(info.etag, self._store.url(self._path))
        return self._version.etag

    def _fetch(self, span: tuple[int, int], then: Callable[[BytesLike], None]) -> None:
        fetched = self._store.read(self._path, *span, etag=self._version)
        cancelled_with(self.answer, fetched)
        # not on the thread that brings the bytes: it brings others' too
        fetched.add_done_callback(
            lambda fetched: after(self.answer, lambda: then(fetched.result()))
        )

    def _keep(self, digest: bytes, found: Found, data: BytesLike) -> None:
        assert found.gap is not None
        start, stop = found.gap
        self._folder.keep(digest, start, data)
        nbytes = len(memoryview(data))
        rest = found.after if nbytes == stop - start else []  # else the object ends here
        self._deliver(joined([*found.before, data, *rest]))

    def _deliver(self, data: BytesLike) -> None:
        if self.answer.set_running_or_notify_cancel():
            self.answer.set_result(data)


def after(answer: Future[BytesLike], work: Callable[..., None], *args: Any) -> None:
    """Let a thread do ``work``, which gives the answer. Its exception is the answer, too."""

    def run() -> None:
        try:
            work(*args)
        except BaseException as error:
            fail(answer, error)

    try:
        threads.pool("cache").submit(run)
    except RuntimeError as error:  # the interpreter is on its way out
        fail(answer, error)


def fail(answer: Future[BytesLike], error: BaseException) -> None:
    if answer.set_running_or_notify_cancel():
        answer.set_exception(error)


def joined(parts: list[Any]) -> BytesLike:
    """One buffer of all parts. A single one is not copied."""
    return parts[0] if len(parts) == 1 else b"".join(parts)

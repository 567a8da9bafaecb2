"""S3, GCS and Azure through obstore, whose requests run in threads of Rust."""

from __future__ import annotations

import asyncio
import atexit
import builtins
import errno
import os
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fsspec.asyn import get_loop

from tfio_store.storage.faults import redacted
from tfio_store.storage.globbing import literal_prefix, matcher
from tfio_store.storage.obstore_faults import is_beyond_end, meaning
from tfio_store.storage.obstore_options import native_store
from tfio_store.storage.obstore_output import ObstoreOutput
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, PendingUpload, Store

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["ObstoreStore"]

PARTING_S = 0.1


@atexit.register
def let_go() -> None:
    """Rust's threads drop what Python lent them a moment after they have answered. One that does so
    while the interpreter ends is stopped inside Rust, which aborts the process: let them finish."""
    time.sleep(PARTING_S)


T = TypeVar("T")

S3_SCHEMES = ("s3", "s3a")


class ObstoreStore:
    """A `Store` of objects on S3, GCS or Azure. Its paths are ``bucket/key``.

    Tokio, which runs obstore's requests, does not survive a fork: a child of a process that has
    used obstore goes through fsspec instead, where the package for its scheme is installed.
    What obstore has no request for (listing multipart uploads) goes there too.
    """

    conditional = True
    range_bytes = 4 << 20  # an answer is joined from its pieces, and so takes twice its size
    in_flight = 32

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._scheme = scheme
        self._options = dict(options)
        self._retry = retry
        self._buckets: dict[tuple[str, int], Any] = {}
        self._quotes_etags = True
        # Azure wants an identifier; Ceph drops headers with an underscore
        self._token_name = "tfio-store-attempt" if scheme in S3_SCHEMES else "tfio_store_attempt"
        native_store(scheme, "any", options, retry, 0)  # options that mean nothing fail here

    def __repr__(self) -> str:
        return f"ObstoreStore({self._scheme!r})"  # options may hold credentials

    def __reduce__(self) -> tuple[object, ...]:
        from tfio_store.storage.resolve import shared_store

        return shared_store, (type(self), self._scheme, self._options, self._retry)

    def url(self, path: str) -> str:
        return redacted(f"{self._scheme}://{path}")

    def info(self, path: str) -> ObjectInfo:
        return self._elsewhere().info(path) if self._forked() else self._wait(self._info(path))

    def read(self, path: str, start: int, stop: int) -> Future[BytesLike]:
        if self._forked():
            return self._elsewhere().read(path, start, stop)
        return self._start(self._read(path, start, stop))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        if self._forked():
            return self._elsewhere().list(folder)
        return iter(sorted(self._wait(self._listed(folder, deep=True)), key=by_path))

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        if self._forked():
            return self._elsewhere().glob(pattern)
        prefix, matches = literal_prefix(pattern), matcher(pattern)
        if "/" not in prefix:
            raise ValueError(f"{self.url(pattern)}: no patterns in the name of a bucket")
        deep = "/" in pattern[len(prefix) :] or "**" in pattern
        found = self._wait(self._listed(prefix.rpartition("/")[0], deep))
        return sorted((one for one in found if matches.match(one.path)), key=by_path)

    def open_output(self, path: str, *, part_bytes: int | None = None) -> Any:
        if self._forked():
            return self._elsewhere().open_output(path, part_bytes=part_bytes)
        return ObstoreOutput(ObstoreTarget(self, path, self.url(path)), part_bytes)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        if self._forked():
            return self._elsewhere().put(path, data, if_absent=if_absent, if_match=if_match)
        return self._wait(self._put(path, bytes(data), if_absent, if_match))

    def delete(self, paths: Iterable[str]) -> None:
        if self._forked():
            return self._elsewhere().delete(paths)
        return self._wait(self._delete(paths))

    def pending_uploads(self, folder: str) -> builtins.list[PendingUpload]:
        return self._elsewhere().pending_uploads(folder)

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self._elsewhere().abort_uploads(uploads)

    # --- where requests run

    def _forked(self) -> bool:
        """Whether this is the child of a process that has used obstore. Notes the use, too."""
        global _used_by
        if _used_by is None:
            _used_by = os.getpid()
        return _used_by != os.getpid()

    def _elsewhere(self) -> Store:
        from tfio_store.storage.resolve import fsspec_factory, shared_store

        return shared_store(fsspec_factory(self._scheme), self._scheme, self._options, self._retry)

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, get_loop())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _ask(self, path: str, ask: Callable[[], Awaitable[T]], *, nbytes: int = 0) -> T:
        """``ask()``, made again on passing faults."""
        url = self.url(path)

        async def attempt() -> T:
            try:
                return await ask()
            except Exception as fault:
                raise meaning(fault, url) from fault

        return await self._retry.run(attempt, url, nbytes=nbytes)

    def _place(self, path: str, *, retries: int = 0) -> tuple[Any, str]:
        """obstore's store of the path's bucket, and the key in it."""
        bucket, _, key = path.partition("/")
        found = self._buckets.get((bucket, retries))
        if found is None:
            made = native_store(self._scheme, bucket, self._options, self._retry, retries)
            found = self._buckets.setdefault((bucket, retries), made)
        return found, key

    # --- requests

    async def _info(self, path: str) -> ObjectInfo:
        import obstore

        store, key = self._place(path)
        try:
            if key:
                meta = await self._ask(path, lambda: obstore.head_async(store, key))
                return self._described(path, meta)
        except FileNotFoundError:
            if not await self._is_folder(path):
                raise
        else:
            await self._is_folder(path)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.url(path))

    async def _is_folder(self, path: str) -> bool:
        import obstore

        store, key = self._place(path)
        below = await self._ask(path, lambda: obstore.list_with_delimiter_async(store, key or None))
        return bool(below["objects"] or below["common_prefixes"])

    def _described(self, path: str, meta: Mapping[str, Any]) -> ObjectInfo:
        return ObjectInfo(path, meta["size"], self._version(meta))

    def _version(self, meta: Mapping[str, Any]) -> str | None:
        """What a conditional write compares: GCS's generation, others' ETag."""
        if self._scheme in ("gs", "gcs"):
            return meta.get("version")
        etag = meta.get("e_tag")
        return etag.strip('"') if etag else None

    async def _read(self, path: str, start: int, stop: int) -> BytesLike:
        import obstore

        if stop <= start:
            return b""
        store, key = self._place(path)

        async def ask() -> Any:
            try:
                return await obstore.get_range_async(store, key, start=start, end=stop)
            except Exception as fault:
                if is_beyond_end(fault):
                    return b""
                raise

        data: BytesLike = await self._ask(path, ask, nbytes=stop - start)
        return data

    async def _listed(self, folder: str, deep: bool) -> builtins.list[ObjectInfo]:
        import obstore

        bucket = folder.partition("/")[0]
        store, prefix = self._place(folder.rstrip("/"))

        async def ask() -> Any:
            if deep:
                return await obstore.list(store, prefix or None).collect_async()
            listing = await obstore.list_with_delimiter_async(store, prefix or None)
            return listing["objects"]

        try:
            found = await self._ask(folder, ask)
        except FileNotFoundError:  # no such bucket
            return []
        return [self._described(f"{bucket}/{meta['path']}", meta) for meta in found]

    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo:
        import obstore

        store, key = self._place(path)
        name, token = self._token_name, secrets.token_hex(16)
        conditional = if_absent or if_match is not None
        attributes = {name: token} if conditional else None

        async def ask() -> Any:
            mode = self._mode(if_absent, if_match)
            try:
                return await obstore.put_async(
                    store, key, data, mode=mode, attributes=attributes, use_multipart=False
                )
            except Exception as fault:
                lost = isinstance(meaning(fault, ""), (FileExistsError, FileNotFoundError))
                if not conditional or not lost:
                    raise
                current = await self._current(store, key)
                if current and current.attributes.get(name) == token:
                    return current.meta  # an attempt whose answer was lost
                if self._must_unquote(current, if_match):
                    self._quotes_etags = False
                    return await ask()
                raise FileExistsError(errno.EEXIST, "the condition does not hold") from fault

        answer = await self._ask(path, ask, nbytes=len(data))
        return ObjectInfo(path, len(data), self._version(answer))

    def _mode(self, if_absent: bool, if_match: str | None) -> Any:
        if if_absent:
            return "create"
        if if_match is None:
            return "overwrite"
        if self._scheme in ("gs", "gcs"):
            return {"version": if_match}
        return {"e_tag": f'"{if_match}"' if self._quotes_etags else if_match}

    def _must_unquote(self, current: Any, if_match: str | None) -> bool:
        """Ceph 16 finds no ETag equal to one in quotes."""
        return (
            current is not None
            and if_match is not None
            and self._quotes_etags
            and self._version(current.meta) == if_match
        )

    async def _current(self, store: Any, key: str) -> Any:
        import obstore

        try:
            return await obstore.get_async(store, key, options={"head": True})
        except FileNotFoundError:
            return None

    async def _delete(self, paths: Iterable[str]) -> None:
        turns = asyncio.Semaphore(self.in_flight)

        async def one(path: str) -> None:
            async with turns:
                await self._delete_one(path)

        await asyncio.gather(*map(one, paths))

    async def _delete_one(self, path: str) -> None:
        import obstore

        store, key = self._place(path)
        try:
            await self._ask(path, lambda: obstore.delete_async(store, key))
        except FileNotFoundError:
            return


_used_by: int | None = None
"""The process that used obstore first: its forked children inherit a runtime without threads."""


@dataclass(frozen=True)
class ObstoreTarget:
    """One path of a store, for an `ObstoreOutput`."""

    store: ObstoreStore
    path: str
    url: str

    def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo:
        return self.store._wait(self.store._put(self.path, data, if_absent, None))

    def open_writer(self, token: str, part_bytes: int, parts_in_flight: int) -> Any:
        import obstore

        store, key = self.store._place(self.path, retries=self.store._retry.attempts - 1)
        return obstore.open_writer(
            store,
            key,
            attributes={self.store._token_name: token},
            buffer_size=part_bytes,
            max_concurrency=parts_in_flight,
        )

    def carries(self, token: str) -> bool:
        store, key = self.store._place(self.path)
        asked = self.store._ask(self.path, lambda: self.store._current(store, key))
        current = self.store._wait(asked)
        return bool(current and current.attributes.get(self.store._token_name) == token)

    def info(self) -> ObjectInfo:
        return self.store._wait(self.store._info(self.path))

    def translated(self, fault: Exception) -> Exception:
        return meaning(fault, self.url)


def by_path(found: ObjectInfo) -> str:
    return found.path

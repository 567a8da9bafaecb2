"""Objects behind http:// and https:// URLs, in the session that fsspec's class has set up.

Looking and reading are requests of our own: fsspec's takes any failure of a look for "not found",
and what a server without ranges sends for the range.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from tfio_store.storage.bucket_store import whole_range
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.http_status import Answer
from tfio_store.storage.store import ObjectInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["HTTPStore"]

STORED_BYTES = {"Accept-Encoding": "identity"}
"""Ranges are of what is stored, not of what a server might compress on its way."""


class HTTPStore(FsspecStore):
    """A `Store` of URLs. Its paths are the URLs; `url` leaves out what they hold of signatures."""

    def info(self, path: str) -> ObjectInfo:
        return self._connection.wait(self._retry.run(lambda: self._look(path), self.url(path)))

    def read(self, path: str, start: int, stop: int) -> Future[BytesLike]:
        return self._connection.start(self._read(path, start, stop))

    async def _look(self, path: str) -> ObjectInfo:
        answer = await self._ask("HEAD", path)
        if answer.status in (403, 405, 501):  # no HEAD here, or none for a URL signed for GET
            answer = (await self._ask("GET", path, {"Range": "bytes=0-0"})).expect(200, 206, 416)
        answer.expect(200, 206, 416)
        size = size_of(answer)
        if size is None:
            raise OSError(
                errno.ESPIPE, "the server does not tell the size; download it first", self.url(path)
            )
        etag = answer.headers.get("ETag")
        return ObjectInfo(path, size, etag.strip('"') if etag else None)

    async def _read(self, path: str, start: int, stop: int) -> BytesLike:
        if stop <= start:
            return b""

        async def attempt() -> bytes:
            answer = await self._ask("GET", path, {"Range": f"bytes={start}-{stop - 1}"})
            if answer.status == 416:  # begins at or behind the end
                return b""
            answer.expect(200, 206)
            announced = int(answer.headers.get("Content-Length", len(answer.body)))
            partial = answer.headers.get("Content-Range") if answer.status == 206 else None
            return whole_range(answer.body, announced, partial, start, stop)

        return await self._retry.run(attempt, self.url(path), nbytes=stop - start)

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None
    ) -> Answer:
        fs = self._connection.fs
        session = await fs.set_session()
        options: dict[str, Any] = dict(fs.kwargs)
        options["headers"] = {**options.get("headers", {}), **STORED_BYTES, **(headers or {})}
        options.setdefault("allow_redirects", True)
        async with session.request(method, fs.encode_url(path), **options) as answer:
            return Answer(answer.status, answer.headers, await answer.read())


def size_of(answer: Answer) -> int | None:
    """The object's size by the answer to a HEAD or to a ranged GET."""
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    text = whole or answer.headers.get("Content-Length", "")
    return int(text) if text.isdecimal() else None

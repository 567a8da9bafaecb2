"""Objects behind http:// and https:// URLs, in the session that fsspec's class has set up.

It looks and reads by requests of its own. fsspec takes any failed look for "not found", and the
answer of a server without ranges for the range.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.faults import Answer
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.ranges import check_size, nothing_there, whole_body, whole_range
from tfio_store.storage.store import ObjectInfo, Version, seconds_of

__all__ = ["HTTPStore"]

STORED_BYTES = {"Accept-Encoding": "identity"}
"""A range counts the stored bytes, not those that a server might compress on the way."""


MOST_DIGITS = 19
"""Of a size: 2**63 - 1, the largest that an `ObjectInfo` takes, has as many."""


class HTTPStore(FsspecStore):
    """A `Store` of URLs. Its paths are the URLs. `url` leaves out their signatures."""

    service = ""  # the path contains it

    def info(self, path: str) -> ObjectInfo:
        return self._connection.wait(self._retry.run(lambda: self._look(path), self.url(path)))

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        async def attempt() -> tuple[bytes, ObjectInfo]:
            answer = (await self._ask("GET", path)).expect(200)
            data = whole_body(answer.body, answer.headers.get("Content-Length"))
            check_size(len(data), most, self.url(path))
            return data, ObjectInfo(path, len(data), version_of(answer))

        return self._connection.wait(self._retry.run(attempt, self.url(path)))

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        return self._connection.start(self._ranged(path, start, stop, Version.of(etag)))

    async def _look(self, path: str) -> ObjectInfo:
        answer = await self._ask("HEAD", path)
        if answer.status in (403, 405, 501):  # no HEAD here, or none for a URL signed for GET
            answer = (await self._ask("GET", path, {"Range": "bytes=0-0"})).expect(200, 206, 416)
        answer.expect(200, 206, 416)
        size = size_of(answer)
        if size is None:
            raise OSError(
                errno.ESPIPE, "the server does not say the size; download it first", self.url(path)
            )
        modified = seconds_of(answer.headers.get("Last-Modified"))
        return ObjectInfo(path, size, version_of(answer), modified=modified)

    async def _ranged(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if stop <= start:
            return b""

        async def attempt() -> bytes:
            headers = {"Range": f"bytes={start}-{stop - 1}", **condition(version)}
            answer = await self._ask("GET", path, headers)
            if answer.status == 412:
                raise version.replaced(self.url(path))
            if answer.status == 416:
                info = await self._look(path)
                version.hold(info.etag, self.url(path))
                return nothing_there(start, info)
            answer.expect(200, 206)
            version.hold(version_of(answer), self.url(path))
            partial = answer.headers.get("Content-Range", "") if answer.status == 206 else None
            announced = answer.headers.get("Content-Length")
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
    if not text.isdecimal():
        return None
    if len(text) > MOST_DIGITS:  # int() refuses thousands of digits with an error of its own
        raise OSError(errno.EFBIG, "the server claims a size that no object has")
    return int(text)


def version_of(answer: Answer) -> str | None:
    """The mark of an object's version: its ETag, or else when it was changed."""
    etag = answer.headers.get("ETag")
    return etag.strip('"') if etag else answer.headers.get("Last-Modified")


def condition(version: Version) -> dict[str, str]:
    """The If-Match header for an ETag. By HTTP's rules a weak one ("W/…") matches nothing, and a
    date is no ETag. For these the answer's values are compared."""
    etag = version.etag
    if etag is None or etag.startswith("W/") or etag.endswith(" GMT"):
        return {}
    return {"If-Match": f'"{etag}"'}

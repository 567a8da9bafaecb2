"""Objects behind http:// and https:// URLs, in the session that fsspec's class has set up.

It looks and reads by requests of its own. fsspec takes any failed look for "not found", and the
answer of a server without ranges for the range.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.answers import Answer
from tfio_store.storage.fsspec_store import FsspecStore
from tfio_store.storage.ranges import check_size, nothing_there, range_of, unquoted, wanted_body
from tfio_store.storage.store import ObjectInfo, Version, seconds_of

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession
    from yarl import URL

__all__ = ["HTTPStore"]

STORED_BYTES = {"Accept-Encoding": "identity"}
"""A range counts the stored bytes, not those that a server might compress on the way."""


MOST_DIGITS = 19
"""Of a size: 2**63 - 1, the largest that an `ObjectInfo` takes, has as many."""


REDIRECTS = frozenset({301, 302, 303, 307, 308})
MOST_REDIRECTS = 10

CALLERS = ("headers", "cookies", "auth")
"""Options of a request, and of a session, that are meant for the server that the URL names."""


class HTTPStore(FsspecStore):
    """A `Store` of URLs. Its paths are the URLs. `url` leaves out their signatures."""

    service = ""  # the path contains it

    def info(self, path: str) -> ObjectInfo:
        return self._connection.wait(self._tried(lambda: self._look(path), self.url(path)))

    def get(self, path: str, *, most: int | None = None) -> tuple[bytes, ObjectInfo]:
        async def attempt() -> tuple[bytes, ObjectInfo]:
            stop = None if most is None else most + 1
            answer = (await self._ask("GET", path, stop=stop)).expect(200)
            check_size(max(len(answer.body), size_of(answer) or 0), most, self.url(path))
            return answer.body, ObjectInfo(path, len(answer.body), version_of(answer))

        return self._connection.wait(self._tried(attempt, self.url(path)))

    def read(
        self, path: str, start: int, stop: int, *, etag: str | Version | None = None
    ) -> Future[BytesLike]:
        return self._connection.start(self._ranged(path, start, stop, Version.of(etag)))

    def some_names(self, folder: str, beginning: str) -> Iterator[str]:
        """None: a web server lists nothing."""
        return iter(())

    async def _look(self, path: str) -> ObjectInfo:
        answer = await self._ask("HEAD", path)
        if answer.status in (403, 405, 501):  # no HEAD here, or none for a URL signed for GET
            answer = await self._ask("GET", path, {"Range": "bytes=0-0"}, stop=1)
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
            answer = await self._ask("GET", path, headers, start=start, stop=stop)
            if answer.status == 412:
                raise version.replaced(self.url(path))
            if answer.status == 416:
                info = await self._look(path)
                version.hold(info.etag, self.url(path))
                return nothing_there(start, info)
            answer.expect(200, 206)
            version.hold(version_of(answer), self.url(path))
            return range_of(answer, start, stop)

        return await self._tried(attempt, self.url(path), stop - start)

    async def _ask(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        start: int = 0,
        stop: int | None = None,
    ) -> Answer:
        """Ask for bytes [start, stop) of the object. Of an answer that is the whole object the body
        is cut to these. No more is read than they need, whatever the server sends."""
        own = {**STORED_BYTES, **(headers or {})}
        async with self._answered(method, path, own) as answer:
            body = await wanted_body(answer, start, stop)
            return Answer(answer.status, answer.headers, body)

    @contextlib.asynccontextmanager
    async def _answered(
        self, method: str, path: str, own: Mapping[str, str]
    ) -> AsyncIterator[ClientResponse]:
        """The answer of the server to which redirects lead. aiohttp would follow them by itself,
        and take most of the caller's headers along to whatever server comes next."""
        fs = self._connection.fs
        session: ClientSession = await fs.set_session()
        options: dict[str, Any] = dict(fs.kwargs)
        follow = options.pop("allow_redirects", True)
        left = options.pop("max_redirects", MOST_REDIRECTS)
        options["headers"] = {**(options.get("headers") or {}), **own}
        known = True  # the server is the one that the caller means
        url: URL = fs.encode_url(path)
        async with contextlib.AsyncExitStack() as stack:
            while True:
                request = session.request(method, url, allow_redirects=False, **options)
                answer = await stack.enter_async_context(request)
                place = answer.headers.get("Location")
                if not follow or answer.status not in REDIRECTS or place is None:
                    yield answer
                    return
                if not left:
                    raise OSError(errno.ELOOP, "too many redirects")
                left -= 1
                answer.release()
                before, url = url, target_of(url, place)
                options.pop("params", None)  # which the place has, if it wants them
                if known and not same_server(before, url):
                    known, options = False, {**without_callers(options), "headers": dict(own)}
                    plain = without_callers(fs.client_kwargs)
                    if len(plain) < len(fs.client_kwargs):  # the session has some by itself
                        made = await fs.get_client(loop=fs.loop, **plain)
                        session = await stack.enter_async_context(made)


def without_callers(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in CALLERS}


def target_of(url: URL, place: str) -> URL:
    """Where an answer of ``url`` redirects to. A user and password stay with their server."""
    from yarl import URL

    target = url.join(URL(place))
    if target.scheme not in ("http", "https") or not target.host:
        raise OSError(errno.EPROTO, "the server redirects to what is no web address")
    if url.user is not None and target.user is None and same_server(url, target):
        target = target.with_user(url.user).with_password(url.password)
    return target


def same_server(url: URL, other: URL) -> bool:
    """Whether both have one origin, or ``other`` is the same host's by https."""
    upgraded = (url.scheme, url.port, other.scheme, other.port) == ("http", 80, "https", 443)
    return url.origin() == other.origin() or (upgraded and url.host == other.host)


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
    return unquoted(answer.headers.get("ETag")) or answer.headers.get("Last-Modified")


def condition(version: Version) -> dict[str, str]:
    """The If-Match header for an ETag. By HTTP's rules a weak one ("W/…") matches nothing, and a
    date is no ETag. For these the answer's values are compared."""
    etag = version.etag
    if etag is None or etag.startswith("W/") or etag.endswith(" GMT"):
        return {}
    return {"If-Match": f'"{etag}"'}

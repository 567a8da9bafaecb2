"""Requests to Google Cloud Storage in gcsfs's session: single ones, and resumable uploads."""

from __future__ import annotations

import base64
import errno
import json
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tfio_store.storage import private
from tfio_store.storage.answers import Answer
from tfio_store.storage.cloud.bucket_store import BucketStore, Mark
from tfio_store.storage.cloud.gcs_tokens import Tokens
from tfio_store.storage.cloud.multipart import as_checksum
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.ranges import wanted_body
from tfio_store.storage.store import ObjectInfo, seconds_of

__all__ = ["GCSClient", "GCSUpload", "described"]


class GCSClient:
    """One request at a time, awaited on the connection's loop. No retries here."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # the plain class: the one that gcsfs exports first asks each bucket's type by gRPC
        from gcsfs.core import GCSFileSystem

        self.connection = Connection(GCSFileSystem, options)
        self.tokens = Tokens(self.connection)

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | bytearray | memoryview = b"",
        wanted: tuple[int, int | None] | None = None,
        **params: str | None,
    ) -> Answer:
        """``url``: absolute, or behind the endpoint. ``params`` of None are left out. ``wanted``:
        the bytes of an object that are asked for, see `wanted_body`."""
        from yarl import URL

        fs = self.connection.fs
        await private.open_session(fs)
        target = url if url.startswith("http") else private.location(fs) + url
        query = urlencode(private.request_params(fs, params))
        if query:
            target += ("&" if "?" in target else "?") + query

        async def attempt(sent: Mapping[str, str]) -> Answer:
            async with fs.session.request(
                method,
                URL(target, encoded=True),
                headers=sent,
                data=data,
                allow_redirects=False,  # 308 is how a resumable upload says "go on"
            ) as answer:
                if wanted is not None or answer.status >= 400:
                    body = await wanted_body(answer, *(wanted or (0, None)))
                else:
                    body = await answer.read()
                return Answer(answer.status, answer.headers, body)

        sent = await self.tokens.headers(headers)
        answer = await attempt(sent)
        if answer.status == 401 and self.tokens.withdraw(sent):
            answer = await attempt(await self.tokens.headers(headers))
        return answer

    async def ask_json(
        self, method: str, url: str, document: Mapping[str, Any], **params: str | None
    ) -> Answer:
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        return await self.ask(
            method, url, headers=headers, data=json.dumps(document).encode(), wanted=None, **params
        )

    async def metadata(self, path: str) -> dict[str, Any] | None:
        """The object's resource. None if there is no object."""
        answer = await self.ask("GET", object_url(path))
        if answer.status == 404:
            return None
        found: dict[str, Any] = answer.expect(200).document()
        return found


def split(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def object_url(path: str, service: str = "") -> str:
    bucket, key = split(path)
    return f"{service}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}"


def bucket_url(path: str, service: str = "") -> str:
    return f"{service}/storage/v1/b/{quote(split(path)[0], safe='')}/o"


def checksum_of(resource: Mapping[str, Any]) -> int | None:
    text = resource.get("crc32c")
    return int.from_bytes(base64.b64decode(text), "big") if text else None


def described(path: str, resource: Mapping[str, Any]) -> ObjectInfo:
    """The generation serves as the ETag, because conditions compare it."""
    size = int(resource["size"])
    generation, modified = str(resource["generation"]), seconds_of(resource.get("updated"))
    return ObjectInfo(path, size, generation, checksum_of(resource), modified)


# A resumable upload to Google Cloud Storage: parts go one after the other, and the last one
# commits.


class GCSUpload:
    """One resumable upload. It must name its condition when it begins. That is ``if_match`` if
    given, "still absent" if nothing is there, and otherwise none. So if an object appears
    meanwhile, even a commit that asks for no condition fails. That is the safe side.
    """

    least_part_bytes = 256 << 10
    part_step = 256 << 10
    """From the protocol: every part but the last is a multiple of it."""
    ordered = True
    equal_parts = False

    def __init__(
        self, store: BucketStore, client: GCSClient, path: str, if_match: str | None
    ) -> None:
        self.url = store.url(path)
        self._if_match = if_match
        self._store = store
        self._client = client
        self._path = path
        self._mark = Mark()
        self._session: str | None = None
        self._was_absent = False
        self._offset = 0
        self._tail = bytearray()

    async def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo:
        return await self._store._put(self._path, data, if_absent, self._if_match)

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        del number, crc32c
        if self._session is None:
            self._session = await self._store._ask(self._path, self._begun)
        if last:
            self._tail = data  # the store commits when it has the last byte: that is for finish()
            return
        await self._carry(data, None)
        self._offset += len(data)

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo:
        if if_absent and not self._was_absent:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url)
        resource = await self._carry(self._tail, size, f"crc32c={as_checksum(crc32c)}")
        assert resource is not None
        if checksum_of(resource) not in (None, crc32c):
            await self._client.ask(
                "DELETE", object_url(self._path), ifGenerationMatch=str(resource["generation"])
            )
            raise OSError(
                errno.EIO, "the store's checksum of the object is not that of the bytes", self.url
            )
        return described(self._path, resource)

    async def discard(self) -> None:
        if self._session is not None:
            session = self._session
            await self._store._ask(self._path, lambda: self._cancel(session))

    async def _cancel(self, session: str) -> None:
        answer = await self._client.ask("DELETE", session)
        answer.expect(200, 204, 404, 410, 499)  # 499 is the service's "cancelled"

    async def _begun(self) -> str:
        """The address of a new session."""
        current = await self._client.metadata(self._path)
        self._was_absent = current is None
        resource = {"name": split(self._path)[1], "metadata": self._mark.metadata}
        answer = await self._client.ask_json(
            "POST",
            bucket_url(self._path, "/upload"),
            resource,
            uploadType="resumable",
            name=resource["name"],  # type: ignore[arg-type]
            ifGenerationMatch=self._if_match or ("0" if self._was_absent else None),
        )
        return answer.expect(200, 201).headers["Location"]

    async def _carry(
        self, data: bytearray, size: int | None, checksum: str | None = None
    ) -> Mapping[str, Any] | None:
        """Send a part. The last one comes with the ``size`` of the whole, and its answer is the
        object."""
        stop, tried = self._offset + len(data), False

        async def attempt() -> Mapping[str, Any] | None:
            nonlocal tried
            if self._session is None:  # it was lost, see _committed
                self._session = await self._begun()
                tried = False
            start = self._offset
            if tried:  # how far did the lost request get?
                answer = await self._transfer(b"", f"bytes */{size if size is not None else '*'}")
                if answer.status != 308:
                    return await self._committed(answer)
                start = min(max(received(answer), self._offset), stop)
            tried = True
            if start < stop or size is not None:
                whole = "*" if size is None else size
                span = f"{start}-{stop - 1}" if start < stop else "*"
                view = memoryview(data)[start - self._offset :]
                answer = await self._transfer(view, f"bytes {span}/{whole}", checksum)
                if answer.status != 308:
                    return await self._committed(answer)
                start = received(answer)
            if start < stop or size is not None:
                raise ShortBodyError(errno.ECONNRESET, f"took {start} of {stop} bytes so far")
            return None

        return await self._store._ask(self._path, attempt, nbytes=len(data))

    async def _transfer(
        self, data: bytes | memoryview, content_range: str, checksum: str | None = None
    ) -> Answer:
        assert self._session is not None
        headers = {"Content-Range": content_range}
        if checksum is not None:
            headers["X-Goog-Hash"] = checksum
        return await self._client.ask("PUT", self._session, headers=headers, data=data)

    async def _committed(self, answer: Answer) -> Mapping[str, Any]:
        if answer.status in (404, 410, 412):
            current = await self._client.metadata(self._path)
            if current is not None and self._mark.is_on(current.get("metadata")):
                return current  # by an attempt whose answer was lost
            if answer.status == 412:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url)
            raise self._lost(answer.status)
        if answer.status == 400:  # aiohttp has sent the part twice: ask how far that has got
            raise ShortBodyError(errno.ECONNRESET, "the store is at another byte than the upload")
        return answer.expect(200, 201).document()

    def _lost(self, status: int) -> OSError:
        """Begin another session: the service has forgotten this one and its bytes. That works while
        all of them are still here."""
        if self._offset:
            return OSError(
                errno.EIO,
                f"the store gave the upload up (status {status}) after {self._offset} bytes, which "
                "are not kept here; write the object again",
                self.url,
            )
        self._session = None
        return ShortBodyError(errno.ECONNRESET, f"the store gave the upload up (status {status})")


def received(answer: Answer) -> int:
    """How many bytes the service has kept, by the number of the last one in its answer."""
    last = answer.headers.get("Range", "").rpartition("-")[2]
    return int(last) + 1 if last else 0

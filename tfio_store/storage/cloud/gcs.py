"""Google Cloud Storage, through gcsfs's session."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections.abc import Mapping
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import crc32c as crc32c_of
from tfio_store.storage.cloud.bucket_store import BucketStore, Mark, Page, check_copy
from tfio_store.storage.cloud.gcs_client import (
    GCSClient,
    GCSUpload,
    bucket_url,
    described,
    object_url,
    split,
)
from tfio_store.storage.cloud.multipart import as_checksum
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.ranges import check_size, nothing_there, range_of
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, Version

__all__ = ["GCSStore"]


class GCSStore(BucketStore):
    """A `Store` of GCS objects. Their etags are generations.

    No listing shows uploads that are neither finished nor cancelled. The service forgets them after
    a week.
    """

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._client = GCSClient(options)
        super().__init__(scheme, options, retry, self._client.connection)

    async def _look(self, path: str) -> ObjectInfo | None:
        found = None
        if split(path)[1]:
            found = await self._ask(path, lambda: self._client.metadata(path))
        return None if found is None else described(path, found)

    async def _whole(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        url = object_url(path, "/download")
        wanted = 0, None if most is None else most + 1
        answer = await self._client.ask("GET", url, alt="media", wanted=wanted)
        data = answer.expect(200).body
        announced = answer.headers.get("Content-Length")
        check_size(max(len(data), int(announced or 0)), most, self.url(path))
        return data, ObjectInfo(path, len(data), answer.headers.get("x-goog-generation"))

    async def _range(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        answer = await self._client.ask(
            "GET",
            object_url(path, "/download"),
            headers={"Range": f"bytes={start}-{stop - 1}"},
            wanted=(start, stop),
            alt="media",
            ifGenerationMatch=version.etag,
        )
        if answer.status == 412:
            raise version.replaced(self.url(path))
        if answer.status == 416:
            return nothing_there(start, await self._found(path, version))
        answer.expect(200, 206)
        version.hold(answer.headers.get("x-goog-generation"), self.url(path))
        return range_of(answer, start, stop)

    async def _found(self, path: str, version: Version) -> ObjectInfo:
        found = await self._client.metadata(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))
        info = described(path, found)
        version.hold(info.etag, self.url(path))
        return info

    async def _page(
        self, prefix: str, deep: bool, token: str | None, most: int | None = None
    ) -> Page:
        bucket, start = split(prefix)

        async def attempt() -> dict[str, Any]:
            answer = await self._client.ask(
                "GET",
                bucket_url(prefix),
                prefix=start,
                delimiter=None if deep else "/",
                pageToken=token,
                maxResults=None if most is None else str(most),
                fields="nextPageToken,prefixes,items(name,size,generation,crc32c,updated)",
            )
            page: dict[str, Any] = answer.expect(200).document()
            return page

        page = await self._ask(prefix, attempt)
        found = [described(f"{bucket}/{one['name']}", one) for one in page.get("items", ())]
        folders = [f"{bucket}/{name}" for name in page.get("prefixes", ())]
        return found, folders, page.get("nextPageToken")

    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo:
        mark = Mark()
        headers, body = related(split(path)[1], data, mark)
        condition = "0" if if_absent else if_match

        async def attempt() -> Mapping[str, Any]:
            answer = await self._client.ask(
                "POST",
                bucket_url(path, "/upload"),
                headers=headers,
                data=body,
                uploadType="multipart",
                ifGenerationMatch=condition,
            )
            if answer.status != 412:
                return answer.expect(200).document()
            current = await self._client.metadata(path)
            if current is not None and mark.is_on(current.get("metadata")):
                return current  # an attempt whose answer was lost
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))

        return described(path, await self._ask(path, attempt, nbytes=len(data)))

    def _upload(self, path: str, if_match: str | None) -> GCSUpload:
        return GCSUpload(self, self._client, path, if_match)

    async def _copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        if if_absent:
            await self._check_free(target)
        info = await self._info(source)
        url = object_url(source) + "/rewriteTo" + object_url(target).removeprefix("/storage/v1")
        token: str | None = None
        while True:
            answer = await self._rewrite(target, url, token, info, if_absent)
            if answer.get("done"):
                break
            token = answer["rewriteToken"]
        copy = described(target, answer["resource"])
        check_copy(info, copy, self.url(target))
        return copy

    async def _rewrite(
        self, target: str, url: str, token: str | None, info: ObjectInfo, if_absent: bool
    ) -> dict[str, Any]:
        """One step of a copy; the service takes several for large objects between locations."""

        async def attempt() -> dict[str, Any]:
            answer = await self._client.ask_json(
                "POST", url, {}, rewriteToken=token, sourceGeneration=info.etag,
                ifGenerationMatch="0" if if_absent else None,
            )  # fmt: skip
            found: dict[str, Any] = json.loads(answer.expect(200).body)
            if not (found.get("resource") if found.get("done") else found.get("rewriteToken")):
                raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
            return found

        return await self._ask(target, attempt, nbytes=info.size)

    async def _delete(self, path: str, etag: str | None = None) -> None:
        async def attempt() -> None:
            answer = await self._client.ask("DELETE", object_url(path), ifGenerationMatch=etag)
            answer.expect(200, 204, 404, 412)

        await self._ask(path, attempt)


def related(name: str, data: bytes | bytearray, mark: Mark) -> tuple[dict[str, str], bytes]:
    """A multipart/related request: the object's resource, then its bytes. The CRC is verified."""
    boundary = secrets.token_hex(16)
    resource = {
        "name": name,
        "crc32c": as_checksum(crc32c_of(data)),
        "metadata": mark.metadata,
    }
    head = (
        f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
        f"{json.dumps(resource)}\r\n--{boundary}\r\nContent-Type: application/octet-stream\r\n\r\n"
    )
    headers = {"Content-Type": f'multipart/related; boundary="{boundary}"'}
    return headers, b"".join((head.encode(), data, f"\r\n--{boundary}--\r\n".encode()))

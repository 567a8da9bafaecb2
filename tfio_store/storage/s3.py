"""S3 and what speaks its protocol, through s3fs's client."""

from __future__ import annotations

import asyncio
import builtins
import errno
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from tfio_store.storage.faults import ShortBodyError, status_of
from tfio_store.storage.globbing import literal_prefix, matcher
from tfio_store.storage.multipart import MultipartOutput
from tfio_store.storage.retry import Retry
from tfio_store.storage.s3_client import S3Client, checksum_of
from tfio_store.storage.s3_upload import S3Upload, put_object
from tfio_store.storage.store import ObjectInfo, PendingUpload

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["S3Store"]

DELETES_AT_ONCE = 32


class S3Store:
    """A `Store` of S3 objects. Its paths are ``bucket/key``."""

    conditional = True
    range_bytes = 8 << 20
    in_flight = 16

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._scheme = scheme
        self._options = dict(options)
        self._retry = retry
        self._client = S3Client(options, retry)

    def __repr__(self) -> str:
        return f"S3Store({self._scheme!r})"  # options may hold credentials

    def __reduce__(self) -> tuple[object, ...]:
        from tfio_store.storage.resolve import shared_store

        return shared_store, (type(self), self._scheme, self._options, self._retry)

    def url(self, path: str) -> str:
        return f"{self._scheme}://{path}"

    def info(self, path: str) -> ObjectInfo:
        return self._client.connection.wait(self._info(path))

    def read(self, path: str, start: int, stop: int) -> Future[BytesLike]:
        return self._client.connection.start(self._read(path, start, stop))

    def list(self, folder: str) -> Iterator[ObjectInfo]:
        return self._listed(folder.rstrip("/") + "/", deep=True)

    def glob(self, pattern: str) -> builtins.list[ObjectInfo]:
        prefix, matches = literal_prefix(pattern), matcher(pattern)
        deep = "/" in pattern[len(prefix) :] or "**" in pattern
        return [found for found in self._listed(prefix, deep) if matches.match(found.path)]

    def open_output(self, path: str, *, part_bytes: int | None = None) -> MultipartOutput:
        upload = S3Upload(self._client, self._retry, path, self.url(path))
        return MultipartOutput(upload, self._client.connection, part_bytes)

    def put(
        self, path: str, data: BytesLike, *, if_absent: bool = False, if_match: str | None = None
    ) -> ObjectInfo:
        target = path, self.url(path)
        return self._client.connection.wait(
            put_object(
                self._client,
                self._retry,
                target,
                bytes(data),
                if_absent=if_absent,
                if_match=if_match,
            )
        )

    def delete(self, paths: Iterable[str]) -> None:
        self._client.connection.wait(at_once(DELETES_AT_ONCE, map(self._delete, paths)))

    def pending_uploads(self, folder: str) -> builtins.list[PendingUpload]:
        return self._client.connection.wait(self._pending(folder.rstrip("/") + "/"))

    def abort_uploads(self, uploads: Iterable[PendingUpload]) -> None:
        self._client.connection.wait(at_once(DELETES_AT_ONCE, map(self._abort, uploads)))

    async def _call(self, path: str, method: str, **params: Any) -> dict[str, Any]:
        return await self._retry.run(lambda: self._client.call(method, **params), self.url(path))

    async def _info(self, path: str) -> ObjectInfo:
        bucket, key = self._client.split(path)
        if not key:
            await self._call(path, "head_bucket", Bucket=bucket)
            raise self._is_folder(path)
        try:
            found = await self._call(
                path, "head_object", Bucket=bucket, Key=key, ChecksumMode="ENABLED"
            )
        except FileNotFoundError:
            below = await self._call(
                path, "list_objects_v2", Bucket=bucket, Prefix=key.rstrip("/") + "/", MaxKeys=1
            )
            if below.get("Contents"):
                raise self._is_folder(path) from None
            raise
        return ObjectInfo(
            path, found["ContentLength"], found["ETag"].strip('"'), checksum_of(found)
        )

    def _is_folder(self, path: str) -> IsADirectoryError:
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.url(path))

    async def _read(self, path: str, start: int, stop: int) -> BytesLike:
        bucket, key = self._client.split(path)
        if stop <= start:
            return b""

        async def attempt() -> bytes:
            try:
                answer = await self._client.call(
                    "get_object", Bucket=bucket, Key=key, Range=f"bytes={start}-{stop - 1}"
                )
            except Exception as fault:
                if status_of(fault) == 416:  # begins at or behind the end
                    return b""
                raise
            async with answer["Body"] as body:
                data: bytes = await body.read()
            return checked(data, answer, start, stop)

        return await self._retry.run(attempt, self.url(path), nbytes=stop - start)

    def _listed(self, prefix: str, deep: bool) -> Iterator[ObjectInfo]:
        """Objects whose paths begin with ``prefix``, in the order in which S3 lists: by path."""
        bucket, start = self._client.split(prefix)
        params: dict[str, Any] = {"Bucket": bucket, "Prefix": start}
        if not deep:
            params["Delimiter"] = "/"
        while True:
            work = self._call(prefix, "list_objects_v2", **params)
            try:
                page = self._client.connection.wait(work)
            except FileNotFoundError:  # no such bucket
                return
            for found in page.get("Contents", ()):
                if not found["Key"].endswith("/"):  # what consoles make in place of a folder
                    yield ObjectInfo(
                        f"{bucket}/{found['Key']}", found["Size"], found["ETag"].strip('"')
                    )
            if not page.get("IsTruncated"):
                return
            params["ContinuationToken"] = page["NextContinuationToken"]

    async def _delete(self, path: str) -> None:
        bucket, key = self._client.split(path)
        await self._call(path, "delete_object", Bucket=bucket, Key=key)

    async def _pending(self, prefix: str) -> builtins.list[PendingUpload]:
        bucket, start = self._client.split(prefix)
        params: dict[str, Any] = {"Bucket": bucket, "Prefix": start}
        pending = []
        while True:
            page = await self._call(prefix, "list_multipart_uploads", **params)
            for found in page.get("Uploads", ()):
                pending.append(PendingUpload(f"{bucket}/{found['Key']}", found["UploadId"]))
            if not page.get("IsTruncated"):
                return pending
            params["KeyMarker"] = page["NextKeyMarker"]
            params["UploadIdMarker"] = page["NextUploadIdMarker"]

    async def _abort(self, upload: PendingUpload) -> None:
        bucket, key = self._client.split(upload.path)
        try:
            await self._call(
                upload.path,
                "abort_multipart_upload",
                Bucket=bucket,
                Key=key,
                UploadId=upload.token,
            )
        except FileNotFoundError:  # committed or aborted since
            return


async def at_once(limit: int, work: Iterable[Any]) -> None:
    """Await all of ``work``, so many at a time; the first failure stops what has not begun."""
    waiting = iter(work)

    async def take_turns() -> None:
        for one in waiting:
            await one

    await asyncio.gather(*(take_turns() for _ in range(limit)))


def checked(data: bytes, answer: Mapping[str, Any], start: int, stop: int) -> bytes:
    """The body of an answer to a ranged request, if it is whole and of that range."""
    expected = answer.get("ContentLength", len(data))
    if len(data) != expected:
        raise ShortBodyError(
            errno.ECONNRESET, f"answered {len(data)} of the {expected} bytes it announced"
        )
    if "ContentRange" not in answer:  # a server that does not know ranges sends everything
        return data[start:stop]
    if not answer["ContentRange"].startswith(f"bytes {start}-"):
        raise OSError(errno.EIO, f"asked for bytes from {start}, answered {answer['ContentRange']}")
    return data

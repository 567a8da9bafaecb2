"""S3 and what speaks its protocol, through s3fs's client."""

from __future__ import annotations

import builtins
import errno
import os
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import Buffer
from tfio_store.storage.cloud.bucket_store import (
    DELETES_AT_ONCE,
    BucketStore,
    Mark,
    Page,
    at_once,
    check_copy,
)
from tfio_store.storage.cloud.s3_client import (
    S3Client,
    S3CopiedUpload,
    S3Upload,
    checksum_of,
    etag_of,
    put_object,
)
from tfio_store.storage.faults import ShortBodyError, status_of
from tfio_store.storage.ranges import check_size, nothing_there, whole_body, whole_range
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, PendingUpload, Version, seconds_of

__all__ = ["S3Store"]


# Copies on S3: one request for an object up to 5 GiB, parts beyond.


COPY_BYTES = 5 << 30
"""The most that one CopyObject request takes."""

PARTS_AT_ONCE = 4

READ_BYTES = 4 << 20
"""An object up to this size is read and written in less time than the five requests of a multipart
upload take."""


class S3Copies(BucketStore):
    """Copies for a store of S3 objects."""

    _client: S3Client

    async def _call(self, path: str, method: str, **params: Any) -> dict[str, Any]:
        return await self._ask(path, lambda: self._client.call(method, **params))

    async def _copy(self, source: str, target: str) -> None:
        bucket, key = self._client.split(source)
        place = {"Bucket": bucket, "Key": key}
        found = await self._call(source, "head_object", **place)
        info, url = await self._info(source), self.url(target)
        if info.size <= COPY_BYTES:
            etag = await self._copy_whole(target, place, info.size)
            copy = await self._info(target)
            if copy.etag != etag:
                raise OSError(errno.EIO, "the store has another object there than the copy", url)
        else:
            mark = Mark()
            metadata = {**found.get("Metadata", {}), **mark.metadata}
            await self._copy_parts(target, place, info.size, metadata)
            bucket, key = self._client.split(target)
            there = await self._call(target, "head_object", Bucket=bucket, Key=key)
            if not mark.is_on(there.get("Metadata")):
                raise OSError(errno.EIO, "the store has another object there than the copy", url)
            copy = await self._info(target)
        check_copy(info, copy, url)

    async def _copy_new(self, source: str, target: str) -> ObjectInfo:
        """CopyObject knows no condition on every store. The end of a multipart upload does."""
        info = await self._info(source)
        if info.size <= READ_BYTES:
            data, _ = await self._get(source, None)
            return await self._put(target, data, True, None)
        upload = S3CopiedUpload(self._client, self._retry, (target, self.url(target)), None)
        bucket, key = self._client.split(source)
        place = {"Bucket": bucket, "Key": key}
        starts = range(0, info.size, COPY_BYTES)
        ranges = [(start, min(start + COPY_BYTES, info.size)) for start in starts]
        try:
            await at_once(
                PARTS_AT_ONCE, (upload.copy(i, place, *each) for i, each in enumerate(ranges))
            )
            return await upload.finish(size=info.size, crc32c=0, if_absent=True)
        except BaseException:
            await upload.discard()
            raise

    async def _copy_whole(self, target: str, place: Mapping[str, str], size: int) -> str:
        """The ETag of the copy."""
        bucket, key = self._client.split(target)

        async def attempt() -> str:
            answer = await self._client.call(
                "copy_object", Bucket=bucket, Key=key, CopySource=dict(place)
            )
            etag = answer.get("CopyObjectResult", {}).get("ETag")
            if not etag:  # status 200 comes before the copy is made, and says nothing
                raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
            return str(etag).strip('"')

        return await self._ask(target, attempt, nbytes=size)

    async def _copy_parts(
        self, target: str, place: Mapping[str, str], size: int, metadata: Mapping[str, str]
    ) -> None:
        bucket, key = self._client.split(target)
        where: dict[str, Any] = {"Bucket": bucket, "Key": key}
        upload = await self._call(target, "create_multipart_upload", **where, Metadata=metadata)
        where["UploadId"] = upload["UploadId"]
        parts: list[dict[str, Any]] = []

        async def copy_part(number: int) -> None:
            start = (number - 1) * COPY_BYTES
            answer = await self._call(
                target, "upload_part_copy", PartNumber=number, CopySource=dict(place),
                CopySourceRange=f"bytes={start}-{min(start + COPY_BYTES, size) - 1}", **where,
            )  # fmt: skip
            parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})

        try:
            numbers = range(1, -(-size // COPY_BYTES) + 1)
            await at_once(PARTS_AT_ONCE, (copy_part(number) for number in numbers))
        except BaseException:
            await self._call(target, "abort_multipart_upload", **where)
            raise
        done = {"Parts": sorted(parts, key=lambda part: int(part["PartNumber"]))}
        try:
            await self._call(target, "complete_multipart_upload", MultipartUpload=done, **where)
        except FileNotFoundError:  # completed by an attempt whose answer was lost; the caller looks
            return


DELETED_TOGETHER = 1000
"""Objects that one request deletes at most."""

PIECE_BYTES = 256 << 10
"""The most bytes to take from a connection at a time, of those that have arrived."""


class S3Store(S3Copies):
    """A `Store` of S3 objects."""

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._client = S3Client(options, retry)
        super().__init__(scheme, options, retry, self._client.connection)

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        """False once the store has shown that it ignores conditions."""
        return self._client.conditions is not False

    async def _info(self, path: str) -> ObjectInfo:
        bucket, key = self._client.split(path)
        if not key:
            await self._call(path, "head_bucket", Bucket=bucket)
            raise self._is_folder(path)
        return await super()._info(path)

    async def _look(self, path: str) -> ObjectInfo | None:
        bucket, key = self._client.split(path)
        found = await self._ask(path, lambda: self._client.head(bucket, key)) if key else {}
        if not found:
            return None
        size, modified = found["ContentLength"], seconds_of(found.get("LastModified"))
        return ObjectInfo(path, size, etag_of(found), checksum_of(found), modified)

    async def _get(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        bucket, key = self._client.split(path)
        if not key:
            raise self._is_folder(path)

        async def attempt() -> tuple[bytes, ObjectInfo]:
            answer = await self._client.call("get_object", Bucket=bucket, Key=key)
            async with answer["Body"]:
                check_size(answer.get("ContentLength", 0), most, self.url(path))
                stop = None if most is None else most + 1
                data, ended = await part_of(answer["Body"], 0, stop)
            check_size(len(data), most, self.url(path))
            if ended:
                whole_body(data, answer.get("ContentLength"))
            return data, ObjectInfo(path, len(data), etag_of(answer))

        return await self._ask(path, attempt)

    async def _read(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        if stop <= start:
            return b""
        ask = partial(self._range, path, start, stop, version)
        return await self._ask(path, ask, nbytes=stop - start)

    async def _range(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        bucket, key = self._client.split(path)
        params = {"Bucket": bucket, "Key": key, "Range": f"bytes={start}-{stop - 1}"}
        try:
            answer = await self._client.call("get_object", **params, **self._condition(version))
        except Exception as fault:
            if status_of(fault) not in (412, 416):
                raise
            return await self._refused(path, start, stop, version, fault)
        body = answer["Body"]  # older aiobotocore: `async with` gives what lies beneath it
        async with body:
            version.hold(etag_of(answer), self.url(path))
            whole = answer["ResponseMetadata"]["HTTPStatusCode"] == 200
            most = min(stop - start, answer.get("ContentLength", stop - start))
            if whole:  # from a store without ranges; its client checks the length of what ends
                return (await part_of(body, start, stop))[0]
            data = await received(body, most)
        found = answer.get("ContentRange", "")
        return whole_range(data, answer.get("ContentLength"), found, start, stop)

    def _condition(self, version: Version) -> dict[str, str]:
        if version.etag is None:
            return {}
        quote = '"' if self._client.quotes_etags else ""
        return {"IfMatch": f"{quote}{version.etag}{quote}"}

    async def _refused(
        self, path: str, start: int, stop: int, version: Version, fault: Exception
    ) -> BytesLike:
        """Find what a refused range means: another version, behind the end, or neither."""
        found = await self._client.head(*self._client.split(path))
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.url(path))
        version.hold(etag_of(found), self.url(path))
        if status_of(fault) == 416:
            return nothing_there(start, ObjectInfo(path, found["ContentLength"]))
        if not self._client.quotes_etags:
            raise fault
        self._client.quotes_etags = False  # Ceph 16 compares the quotes too
        return await self._range(path, start, stop, version)

    async def _page(
        self, prefix: str, deep: bool, token: str | None, most: int | None = None
    ) -> Page:
        bucket, start = self._client.split(prefix)
        params: dict[str, Any] = {"Bucket": bucket, "Prefix": start}
        if not deep:
            params["Delimiter"] = "/"
        if token is not None:
            params["ContinuationToken"] = token
        if most is not None:
            params["MaxKeys"] = most
        page = await self._call(prefix, "list_objects_v2", **params)
        found = [
            ObjectInfo(
                f"{bucket}/{one['Key']}",
                one["Size"],
                etag_of(one),
                modified=seconds_of(one.get("LastModified")),
            )
            for one in page.get("Contents", ())
        ]
        folders = [f"{bucket}/{one['Prefix']}" for one in page.get("CommonPrefixes", ())]
        return found, folders, page["NextContinuationToken"] if page.get("IsTruncated") else None

    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo:
        target = path, self.url(path)
        return await put_object(
            self._client, self._retry, target, data, if_absent=if_absent, if_match=if_match
        )

    def _upload(self, path: str, if_match: str | None) -> S3Upload:
        return S3Upload(self._client, self._retry, (path, self.url(path)), if_match)

    async def _delete(self, path: str) -> None:
        bucket, key = self._client.split(path)
        await self._call(path, "delete_object", Bucket=bucket, Key=key)

    async def _delete_all(self, paths: Iterable[str]) -> None:
        """A thousand by one request. What the store leaves of them goes one by one, and so does
        everything where it knows no such request."""
        waiting = iter(paths)
        while some := list(islice(waiting, DELETED_TOGETHER)):
            if len(some) > DELETES_AT_ONCE:
                some = await self._delete_together(some)
            await super()._delete_all(some)

    async def _delete_together(self, paths: list[str]) -> list[str]:
        """Returns those that may still be there."""
        keys: dict[str, dict[str, str]] = {}
        for path in paths:
            bucket, key = self._client.split(path)
            keys.setdefault(bucket, {})[key] = path
        left: list[str] = []
        for bucket, named in keys.items():
            objects = {"Objects": [{"Key": key} for key in named], "Quiet": True}
            try:
                answer = await self._client.call("delete_objects", Bucket=bucket, Delete=objects)
            except Exception:  # whatever it is, each object's own request shows it
                left += named.values()
            else:
                left += [
                    named[one["Key"]] for one in answer.get("Errors", ()) if one["Key"] in named
                ]
        return left

    async def _pending(self, prefix: str) -> builtins.list[PendingUpload]:
        bucket, start = self._client.split(prefix)
        params: dict[str, Any] = {"Bucket": bucket, "Prefix": start}
        pending = []
        while True:
            page = await self._call(prefix, "list_multipart_uploads", **params)
            for found in page.get("Uploads", ()):
                begun = found["Initiated"].timestamp() if "Initiated" in found else None
                pending.append(PendingUpload(f"{bucket}/{found['Key']}", found["UploadId"], begun))
            if not page.get("IsTruncated"):
                return pending
            params["KeyMarker"] = page["NextKeyMarker"]
            params["UploadIdMarker"] = page["NextUploadIdMarker"]

    async def _abort(self, upload: PendingUpload) -> None:
        bucket, key = self._client.split(upload.path)
        params = {"Bucket": bucket, "Key": key, "UploadId": upload.token}
        try:
            await self._call(upload.path, "abort_multipart_upload", **params)
        except FileNotFoundError:  # committed or aborted since
            return


async def part_of(body: Any, start: int, stop: int | None) -> tuple[bytes, bool]:
    """Bytes [start, stop) of a body, and whether it ends there or before. It may go on for ever."""
    pieces: builtins.list[bytes] = []
    at = 0
    while stop is None or at < stop:
        piece = await body.read(PIECE_BYTES)
        if not piece:
            return b"".join(pieces), True
        if at + len(piece) > start:
            end = len(piece) if stop is None else stop - at
            pieces.append(piece[max(start - at, 0) : end])
        at += len(piece)
    return b"".join(pieces), False


async def received(body: Any, nbytes: int) -> memoryview:
    """Read a body of at most ``nbytes`` into pooled memory as it arrives. A list of pieces, to be
    joined, would take the range's memory twice."""
    view, got = memoryview(Buffer(nbytes)), 0
    while piece := await body.read(PIECE_BYTES):
        if got + len(piece) > nbytes:
            raise ShortBodyError(errno.EIO, f"asked for {nbytes} bytes, answered more")
        view[got : got + len(piece)] = piece
        got += len(piece)
    return view[:got]

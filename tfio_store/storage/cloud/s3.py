"""S3 and what speaks its protocol, through s3fs's client."""

from __future__ import annotations

import builtins
import contextlib
import errno
import os
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from typing_extensions import Buffer as BytesLike

from tfio_store.records.framing import Buffer, crc32c as crc32c_of
from tfio_store.storage.answers import status_of
from tfio_store.storage.cloud.bucket_store import (
    DELETES_AT_ONCE,
    BucketStore,
    Mark,
    Page,
    at_once,
    check_copy,
)
from tfio_store.storage.cloud.multipart import as_checksum
from tfio_store.storage.cloud.s3_client import (
    S3Client,
    S3CopiedUpload,
    S3Upload,
    checksum_of,
    copied_etag,
    etag_of,
    is_lost,
)
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.ranges import check_size, nothing_there, whole_body, whole_range
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, PendingUpload, Version, seconds_of

__all__ = ["S3Store"]


COPY_BYTES = 5 << 30
"""The most that one CopyObject request takes."""

PARTS_AT_ONCE = 4

READ_BYTES = 4 << 20
"""An object up to this size is read and written in less time than the five requests of a multipart
upload take."""

DELETED_TOGETHER = 1000
"""Objects that one request deletes at most."""

PIECE_BYTES = 256 << 10
"""The most bytes to take from a connection at a time, of those that have arrived."""


class S3Store(BucketStore):
    """A `Store` of S3 objects."""

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        self._client = S3Client(options, retry)
        super().__init__(scheme, options, retry, self._client.connection)

    @property
    def conditional(self) -> bool:  # type: ignore[override]
        """False once the store has shown that it ignores conditions."""
        return self._client.conditions is not False

    async def _call(self, path: str, method: str, **params: Any) -> dict[str, Any]:
        return await self._ask(path, lambda: self._client.call(method, **params))

    def _split(self, path: str) -> tuple[str, str]:
        return self._client.split(path)

    async def _info(self, path: str) -> ObjectInfo:
        bucket, key = self._split(path)
        if not key:
            await self._call(path, "head_bucket", Bucket=bucket)
            raise self._is_folder(path)
        return await super()._info(path)

    async def _look(self, path: str) -> ObjectInfo | None:
        if not self._split(path)[1]:
            return None
        found = await self._ask(path, lambda: self._client.head(path))
        if not found:
            return None
        size, modified = found["ContentLength"], seconds_of(found.get("LastModified"))
        return ObjectInfo(path, size, etag_of(found), checksum_of(found), modified)

    async def _whole(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        answer = await self._client.call("get_object", **self._client.place(path))
        async with answer["Body"]:
            check_size(answer.get("ContentLength", 0), most, self.url(path))
            stop = None if most is None else most + 1
            data, ended = await part_of(answer["Body"], 0, stop)
        check_size(len(data), most, self.url(path))
        if ended:
            whole_body(data, answer.get("ContentLength"))
        return data, ObjectInfo(path, len(data), etag_of(answer))

    async def _range(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        client = self._client
        params = {**client.place(path), "Range": f"bytes={start}-{stop - 1}"}
        try:
            answer = await client.call(
                "get_object", **params, **client.condition(False, version.etag)
            )
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

    async def _refused(
        self, path: str, start: int, stop: int, version: Version, fault: Exception
    ) -> BytesLike:
        """Find what a refused range means: another version, behind the end, or neither."""
        found = await self._client.head(path)
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
        bucket, start = self._split(prefix)
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
        client = self._client
        params: dict[str, Any] = {**client.place(path), "Body": data}
        mark = Mark()
        if if_absent or if_match is not None:
            params["Metadata"] = client.metadata(mark.metadata)
        checksum = {"ChecksumCRC32C": as_checksum(crc32c_of(data))}

        async def attempt() -> Mapping[str, Any]:
            condition = client.condition(if_absent, if_match)
            try:
                return await client.checksummed("put_object", {**params, **condition}, checksum)
            except Exception as fault:
                if not is_lost(fault, if_match):
                    raise
                current = await client.head(path)
                if mark.is_on(current.get("Metadata")):
                    return current
                if "IfMatch" in condition and etag_of(current) == if_match and client.quotes_etags:
                    client.quotes_etags = False  # Ceph 16 compares the quotes too
                    return await attempt()
                text = "the condition does not hold"
                raise FileExistsError(errno.EEXIST, text, self.url(path)) from fault

        answer = await self._ask(path, attempt, nbytes=len(data))
        if if_absent and client.conditions is None:
            await self._learn_conditions(path, params)
        return ObjectInfo(path, len(data), etag_of(answer), checksum_of(answer))

    async def _learn_conditions(self, path: str, params: Mapping[str, Any]) -> None:
        """Write the same again: a store that heeds conditions refuses it. Some stores ignore
        conditions in silence (rclone's, s3rver)."""

        async def attempt() -> bool:
            try:
                await self._client.call("put_object", **params, IfNoneMatch="*")
            except Exception as fault:
                if status_of(fault) in (409, 412):
                    return True
                raise
            return False

        client = self._client
        with contextlib.suppress(OSError):  # the write itself has succeeded
            # Amazon's own is known to
            client.conditions = client.is_amazon or await self._ask(path, attempt)
        if client.conditions is False:
            warnings.warn(
                f"{self.url(path)}: this store ignores If-None-Match, so of writers that race for "
                "one path more than one may believe to have won",
                RuntimeWarning,
                stacklevel=2,
            )

    def _upload(self, path: str, if_match: str | None) -> S3Upload:
        return S3Upload(self, self._client, path, if_match)

    async def _copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        info, url = await self._info(source), self.url(target)
        if if_absent and info.size <= READ_BYTES:
            data, _ = await self._get(source, None)
            return await self._put(target, data, True, None)
        if if_absent:  # CopyObject knows no condition on every store. The end of an upload does
            return await self._copy_parts(source, target, info.size, if_absent=True)
        if info.size <= COPY_BYTES:
            etag: str | None = await self._copy_whole(source, target, info.size)
        else:
            etag = (await self._copy_parts(source, target, info.size, if_absent=False)).etag
        copy = await self._info(target)
        if copy.etag != etag:
            raise OSError(errno.EIO, "the store has another object there than the copy", url)
        check_copy(info, copy, url)
        return copy

    async def _copy_whole(self, source: str, target: str, size: int) -> str:
        """The ETag of the copy."""
        params = {**self._client.place(target), "CopySource": self._client.place(source)}

        async def attempt() -> str:
            answer = await self._client.call("copy_object", **params)
            return copied_etag(answer.get("CopyObjectResult")).strip('"')

        return await self._ask(target, attempt, nbytes=size)

    async def _copy_parts(
        self, source: str, target: str, size: int, *, if_absent: bool
    ) -> ObjectInfo:
        metadata: Mapping[str, str] | None = None
        if not if_absent:  # keep the source's, as CopyObject does
            found = await self._ask(source, lambda: self._client.head(source))
            metadata = found.get("Metadata", {})
        upload, place = (
            S3CopiedUpload(self, self._client, target, metadata),
            self._client.place(source),
        )
        starts = range(0, size, COPY_BYTES)
        ranges = [(start, min(start + COPY_BYTES, size)) for start in starts]
        try:
            await at_once(
                PARTS_AT_ONCE, (upload.copy(i, place, *each) for i, each in enumerate(ranges))
            )
            return await upload.finish(size=size, crc32c=0, if_absent=if_absent)
        except BaseException:
            await upload.discard()
            raise

    async def _delete(self, path: str, etag: str | None = None) -> None:
        if etag is not None:  # not every store deletes with a condition
            found = await self._look(path)
            if found is None or found.etag != etag:
                return
        await self._call(path, "delete_object", **self._client.place(path))

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
            bucket, key = self._split(path)
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
        bucket, start = self._split(prefix)
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
        params = {**self._client.place(upload.path), "UploadId": upload.token}
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

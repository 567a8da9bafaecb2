"""Copies on S3: one request for an object up to 5 GiB, parts beyond."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Any

from tfio_store.storage.cloud.bucket_store import BucketStore, at_once
from tfio_store.storage.cloud.copies import check_copy
from tfio_store.storage.cloud.mark import Mark
from tfio_store.storage.cloud.s3_client import S3Client
from tfio_store.storage.cloud.s3_upload import S3CopiedUpload
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.store import ObjectInfo

__all__ = ["S3Copies"]

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

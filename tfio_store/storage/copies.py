"""Copies that a store makes by itself, on the word of none: what it says it copied is looked at.

A rename is a copy and then a delete of the source, so a copy that was only begun, or only
announced, loses the object.
"""

from __future__ import annotations

import asyncio
import errno
import json
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfio_store.storage.faults import ShortBodyError, code_of
from tfio_store.storage.store import ObjectInfo

if TYPE_CHECKING:
    from tfio_store.storage.azure import AzureStore
    from tfio_store.storage.gcs import GCSStore
    from tfio_store.storage.s3 import S3Store

__all__ = ["check_copy", "copy_on_azure", "copy_on_gcs", "copy_on_s3"]

COPY_BYTES = 5 << 30
"""The most that one CopyObject request of S3 takes."""

PARTS_AT_ONCE = 4

FIRST_POLL, LONGEST_POLL = 0.1, 5.0
"""Seconds between looks at a copy that is under way."""

STALLED = 600.0
"""Seconds without progress after which a copy is given up."""


def check_copy(source: ObjectInfo, copy: ObjectInfo, url: str) -> None:
    """Raise OSError unless ``copy`` is as long as the source, and of the same CRC where both are
    known."""
    if copy.size != source.size:
        raise OSError(errno.EIO, f"the store copied {copy.size} of {source.size} bytes", url)
    if None not in (copy.crc32c, source.crc32c) and copy.crc32c != source.crc32c:
        raise OSError(errno.EIO, "the store's copy has another CRC32C than its source", url)


# ---- S3 ----


async def copy_on_s3(store: S3Store, source: str, target: str) -> None:
    from tfio_store.storage.s3_upload import TOKEN, carries

    bucket, key = store._client.split(source)
    place = {"Bucket": bucket, "Key": key}
    found = await store._call(source, "head_object", **place)
    info, url = await store._info(source), store.url(target)
    if info.size <= COPY_BYTES:
        etag = await copy_whole(store, target, place, info.size)
        copy = await store._info(target)
        if copy.etag != etag:
            raise OSError(errno.EIO, "the store has another object there than the copy", url)
    else:
        token = secrets.token_hex(16)
        metadata = {**found.get("Metadata", {}), TOKEN: token}
        await copy_parts(store, target, place, info.size, metadata)
        bucket, key = store._client.split(target)
        if not carries(await store._call(target, "head_object", Bucket=bucket, Key=key), token):
            raise OSError(errno.EIO, "the store has another object there than the copy", url)
        copy = await store._info(target)
    check_copy(info, copy, url)


async def copy_whole(store: S3Store, target: str, place: Mapping[str, str], size: int) -> str:
    """The ETag of the copy."""
    bucket, key = store._client.split(target)

    async def attempt() -> str:
        answer = await store._client.call(
            "copy_object", Bucket=bucket, Key=key, CopySource=dict(place)
        )
        etag = answer.get("CopyObjectResult", {}).get("ETag")
        if not etag:  # status 200 comes before the copy is made, and says nothing
            raise ShortBodyError(errno.ECONNRESET, "the store did not say that it made the copy")
        return str(etag).strip('"')

    return await store._ask(target, attempt, nbytes=size)


async def copy_parts(
    store: S3Store, target: str, place: Mapping[str, str], size: int, metadata: Mapping[str, str]
) -> None:
    from tfio_store.storage.bucket_store import at_once

    bucket, key = store._client.split(target)
    where: dict[str, Any] = {"Bucket": bucket, "Key": key}
    upload = await store._call(target, "create_multipart_upload", **where, Metadata=metadata)
    where["UploadId"] = upload["UploadId"]
    parts: list[dict[str, Any]] = []

    async def copy_part(number: int) -> None:
        start = (number - 1) * COPY_BYTES
        answer = await store._call(
            target, "upload_part_copy", PartNumber=number, CopySource=dict(place),
            CopySourceRange=f"bytes={start}-{min(start + COPY_BYTES, size) - 1}", **where,
        )  # fmt: skip
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})

    try:
        numbers = range(1, -(-size // COPY_BYTES) + 1)
        await at_once(PARTS_AT_ONCE, (copy_part(number) for number in numbers))
    except BaseException:
        await store._call(target, "abort_multipart_upload", **where)
        raise
    done = {"Parts": sorted(parts, key=lambda part: int(part["PartNumber"]))}
    try:
        await store._call(target, "complete_multipart_upload", MultipartUpload=done, **where)
    except FileNotFoundError:  # completed by an attempt whose answer was lost; the caller looks
        return


# ---- Azure ----


async def copy_on_azure(store: AzureStore, source: str, target: str) -> None:
    found = await store._properties(source)
    copy = await start_on_azure(store, source, target, found.etag)
    made = await end_on_azure(store, target, copy)
    check_copy(described_size(source, found), described_size(target, made), store.url(target))


async def start_on_azure(store: AzureStore, source: str, target: str, etag: str) -> str:
    """The copy's id."""
    from azure.core import MatchConditions

    from tfio_store.storage.azure import ONCE

    origin = store._blob(source).url

    async def attempt() -> str:
        try:
            answer = await store._blob(target).start_copy_from_url(
                origin,
                source_etag=etag,
                source_match_condition=MatchConditions.IfNotModified,
                **ONCE,
            )
            return str(answer["copy_id"])
        except Exception as fault:
            if code_of(fault) != "PendingCopyOperation":
                raise
            under_way = (await store._blob(target).get_blob_properties(**ONCE)).copy
            if under_way.source != origin:
                raise
            return str(under_way.id)  # begun by an attempt whose answer was lost

    return await store._ask(target, attempt)


async def end_on_azure(store: AzureStore, target: str, copy: str) -> Any:
    """The properties of the copy once it is whole."""
    delay, moved, progress = FIRST_POLL, time.monotonic(), None
    while True:
        found = await store._properties(target)
        if found.copy.id != copy:
            raise OSError(errno.EIO, "another write replaced the copy", store.url(target))
        if found.copy.status == "success":
            return found
        if found.copy.status != "pending":
            why = found.copy.status_description or found.copy.status
            raise OSError(errno.EIO, f"the store could not copy to it: {why}", store.url(target))
        if found.copy.progress != progress:
            moved, progress = time.monotonic(), found.copy.progress
        if time.monotonic() - moved > STALLED:
            await store._blob(target).abort_copy(copy)
            raise OSError(
                errno.ETIMEDOUT, f"no progress of the copy ({progress})", store.url(target)
            )
        await asyncio.sleep(delay)
        delay = min(2 * delay, LONGEST_POLL)


def described_size(path: str, found: Any) -> ObjectInfo:
    return ObjectInfo(path, found.size)


# ---- GCS ----


async def copy_on_gcs(store: GCSStore, source: str, target: str) -> None:
    from tfio_store.storage.gcs_client import described, object_url

    info = await store._info(source)
    url = object_url(source) + "/rewriteTo" + object_url(target).removeprefix("/storage/v1")
    token: str | None = None
    while True:
        answer = await rewrite(store, target, url, token, info)
        if answer.get("done"):
            break
        token = answer["rewriteToken"]
    check_copy(info, described(target, answer["resource"]), store.url(target))


async def rewrite(
    store: GCSStore, target: str, url: str, token: str | None, info: ObjectInfo
) -> dict[str, Any]:
    """One step of a copy; the service takes several for large objects between locations."""

    async def attempt() -> dict[str, Any]:
        answer = await store._client.ask_json(
            "POST", url, {}, rewriteToken=token, sourceGeneration=info.etag
        )
        found: dict[str, Any] = json.loads(answer.expect(200).body)
        if not (found.get("resource") if found.get("done") else found.get("rewriteToken")):
            raise ShortBodyError(errno.ECONNRESET, "the store did not say that it made the copy")
        return found

    return await store._ask(target, attempt, nbytes=info.size)

"""Requests to S3 through the client that s3fs has set up: its options, sessions and credentials.

Single requests, and uploads: one PUT for a small object, a multipart upload for a large one.

A request whose answer is lost is made again, by us or behind our back by aiohttp, although the
first may have been carried out. What then looks like a lost condition (412) or a vanished upload
(404) may be our own success; the mark that conditional writes and multipart uploads carry
in their metadata tells.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import warnings
from collections.abc import Mapping
from typing import Any

from tfio_store.records.framing import crc32c as crc32c_of
from tfio_store.storage import private
from tfio_store.storage.cloud.bucket_store import Mark
from tfio_store.storage.cloud.multipart import as_checksum
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import ShortBodyError, code_of, status_of
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo

__all__ = ["S3Client", "S3CopiedUpload", "S3Upload", "checksum_of", "etag_of", "put_object"]

CONNECTIONS = 64
"""Requests in flight at once. botocore's default of 10 would queue a reader's ranges."""


class S3Client:
    """One bucket-and-key request at a time, awaited on the connection's loop. No retries here."""

    def __init__(self, options: Mapping[str, Any], retry: Retry) -> None:
        from s3fs import S3FileSystem

        self.connection = Connection(S3FileSystem, tuned(options, retry), once)
        self.checksums = True
        """Whether the store takes CRC32C checksums. False once it has refused one."""
        self.quotes_etags = True
        """Whether the store understands an ETag in quotes in a condition, as HTTP has it."""
        self.conditions: bool | None = None
        """Whether the store heeds If-None-Match; None until a write has shown it."""

    @property
    def is_amazon(self) -> bool:
        fs = self.connection.fs
        endpoint = fs.endpoint_url or fs.client_kwargs.get("endpoint_url")
        return not endpoint or endpoint.rstrip("/").endswith(".amazonaws.com")

    def split(self, path: str) -> tuple[str, str]:
        """Bucket and key of ``bucket/key``; access points (ARNs) count as buckets."""
        return private.bucket_and_key(self.connection.fs, path)

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call ``method`` of the botocore client, with ``s3_additional_kwargs`` where they apply.
        s3fs's own call would drop parameters that this botocore does not know. But a condition must
        be sent, or refused.
        """
        fs = self.connection.fs
        await fs.set_session()
        bound = getattr(await fs.get_s3(params["Bucket"]), method)
        answer: dict[str, Any] = await bound(**{**private.method_options(fs, bound), **params})
        return answer

    async def head(self, bucket: str, key: str) -> dict[str, Any]:
        """The object's headers. Empty if there is no object."""
        try:
            return await self.call("head_object", Bucket=bucket, Key=key, ChecksumMode="ENABLED")
        except Exception as fault:
            if status_of(fault) == 404:
                return {}
            raise

    def metadata(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The parameters that the user's options put on each object, and ours."""
        return {**self.connection.fs.s3_additional_kwargs.get("Metadata", {}), **ours}


def tuned(options: Mapping[str, Any], retry: Retry) -> dict[str, Any]:
    """The user's options, and ours for what the user has not set."""
    import botocore.config

    config: dict[str, Any] = {
        "max_pool_connections": CONNECTIONS,
        "connect_timeout": min(retry.timeout, 10),
        "read_timeout": retry.timeout,
        "retries": {"total_max_attempts": 1},  # the retries are ours; two layers would multiply
        # checksums are ours too: stores other than Amazon's fail on botocore's trailing ones
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
    known = botocore.config.Config.OPTION_DEFAULTS  # the last two came with botocore 1.36
    config = {name: value for name, value in config.items() if name in known}
    config.update(options.get("config_kwargs") or {})
    return {**options, "config_kwargs": config}


def once(fs: Any) -> None:
    fs.retries = 1


def checksum_of(answer: Mapping[str, Any]) -> int | None:
    """The CRC32C of the whole object in an answer. None if there is none, or only a CRC of CRCs."""
    text = answer.get("ChecksumCRC32C")
    if not text or "-" in text or answer.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    return int.from_bytes(base64.b64decode(text), "big")


# Writing to S3.


UNKNOWN_CHECKSUM = frozenset({"InvalidArgument", "InvalidRequest", "NotImplemented"})
"""Answers of stores that do not take CRC32C checksums. (They have other meanings too.)"""


async def put_object(
    client: S3Client,
    retry: Retry,
    target: tuple[str, str],
    data: bytes | bytearray,
    *,
    if_absent: bool = False,
    if_match: str | None = None,
) -> ObjectInfo:
    """One atomic request that writes ``data`` to ``target`` (path, URL) if the condition holds."""
    path, url = target
    bucket, key = client.split(path)
    params: dict[str, Any] = {"Bucket": bucket, "Key": key, "Body": data}
    mark = Mark()
    if if_absent or if_match is not None:
        params["Metadata"] = client.metadata(mark.metadata)
    checksum = {"ChecksumCRC32C": as_checksum(crc32c_of(data))}

    async def attempt() -> Mapping[str, Any]:
        condition = condition_of(client, if_absent, if_match)
        try:
            return await checksummed(client, "put_object", {**params, **condition}, checksum)
        except Exception as fault:
            if not is_lost(fault, if_match):
                raise
            current = await client.head(bucket, key)
            if mark.is_on(current.get("Metadata")):
                return current
            if "IfMatch" in condition and etag_of(current) == if_match and client.quotes_etags:
                client.quotes_etags = False  # Ceph 16 compares the quotes too
                return await attempt()
            raise FileExistsError(errno.EEXIST, "the condition does not hold", url) from fault

    answer = await retry.run(attempt, url, nbytes=len(data))
    if if_absent and client.conditions is None:
        await learn_conditions(client, retry, params, url)
    return ObjectInfo(path, len(data), etag_of(answer), checksum_of(answer))


class S3Upload:
    """One multipart upload. It begins with its first part."""

    least_part_bytes = 5 << 20
    part_step = 1
    ordered = False

    def __init__(
        self, client: S3Client, retry: Retry, target: tuple[str, str], if_match: str | None
    ) -> None:
        path, self.url = target
        self._if_match = if_match
        self.equal_parts = bool(client.connection.fs.fixed_upload_size)
        self._client = client
        self._retry = retry
        self._path = path
        bucket, key = client.split(path)
        self._object = {"Bucket": bucket, "Key": key}
        self._mark = Mark()
        self._beginning: asyncio.Future[str] | None = None
        self._checksums = True
        self._parts: dict[int, dict[str, Any]] = {}

    async def put(self, data: bytearray, *, if_absent: bool, crc32c: int) -> ObjectInfo:
        del crc32c
        target = self._path, self.url
        return await put_object(
            self._client,
            self._retry,
            target,
            data,
            if_absent=if_absent,
            if_match=self._if_match,
        )

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        del last
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._begin())
        # shielded: the cancelled part must not leave an upload whose name is lost
        params = {**self._object, "UploadId": await asyncio.shield(self._beginning)}
        checksum = {"ChecksumCRC32C": as_checksum(crc32c)} if self._checksums else {}
        answer = await self._retry.run(
            lambda: self._client.call(
                "upload_part", **params, PartNumber=number + 1, Body=data, **checksum
            ),
            self.url,
            nbytes=len(data),
        )
        self._parts[number] = {"PartNumber": number + 1, "ETag": answer["ETag"], **checksum}

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo:
        assert self._beginning is not None
        params: dict[str, Any] = {**self._object, "UploadId": await self._beginning}
        params["MultipartUpload"] = {"Parts": [self._parts[i] for i in range(len(self._parts))]}
        if self._checksums:
            params |= {"ChecksumCRC32C": as_checksum(crc32c), "ChecksumType": "FULL_OBJECT"}
        if if_absent or self._if_match is not None:
            # Ceph 16 ignores the condition: look first, so that it gives way in a race at most
            look = await self._retry.run(
                lambda: self._client.head(*self._object.values()), self.url
            )
            if etag_of(look) != self._if_match:
                raise FileExistsError(errno.EEXIST, "the condition does not hold", self.url)
            params |= condition_of(self._client, if_absent, self._if_match)
        answer = await self._retry.run(lambda: self._complete(params), self.url)
        return await self._confirmed(answer, size)

    async def discard(self) -> None:
        if self._beginning is None:
            return
        try:
            upload = await self._beginning
        except Exception:  # it never began, and send() has said so
            return
        try:
            await self._retry.run(
                lambda: self._client.call(
                    "abort_multipart_upload", **self._object, UploadId=upload
                ),
                self.url,
            )
        except FileNotFoundError:  # the store has forgotten it already
            return

    async def _begin(self) -> str:
        params = {**self._object, "Metadata": self._client.metadata(self._mark.metadata)}
        checksum = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        answer = await self._retry.run(
            lambda: checksummed(self._client, "create_multipart_upload", params, checksum),
            self.url,
        )
        self._checksums = self._client.checksums
        upload: str = answer["UploadId"]
        return upload

    async def _confirmed(self, answer: Mapping[str, Any], size: int) -> ObjectInfo:
        """Look at the stored object: some stores (Ceph 16) do not answer this on completion."""
        try:
            found = await self._retry.run(
                lambda: self._client.head(*self._object.values()), self.url
            )
        except PermissionError:  # may write but not look
            found = {}
        if self._mark.is_on(found.get("Metadata")):  # and not somebody else's, written since
            if found["ContentLength"] != size:
                raise OSError(
                    errno.EIO, f"the store has {found['ContentLength']} of {size} bytes", self.url
                )
            answer = {**answer, **found}
        return ObjectInfo(self._path, size, etag_of(answer), checksum_of(answer))

    async def _complete(self, params: dict[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._client.call("complete_multipart_upload", **params)
        except Exception as fault:
            if code_of(fault) == "BadDigest":
                raise OSError(
                    errno.EIO,
                    "the store's checksum of the object is not that of the bytes",
                    self.url,
                ) from fault
            if status_of(fault) in (404, 412):
                current = await self._client.head(*self._object.values())
                if self._mark.is_on(current.get("Metadata")):
                    return current
            raise


class S3CopiedUpload(S3Upload):
    """A multipart upload whose parts the store copies from another object."""

    async def copy(self, number: int, source: Mapping[str, str], start: int, stop: int) -> None:
        """Make bytes [start, stop) of ``source`` (Bucket, Key) the part of this number."""
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._begin())
        params = {**self._object, "UploadId": await asyncio.shield(self._beginning)}

        async def attempt() -> str:
            answer = await self._client.call(
                "upload_part_copy", **params, PartNumber=number + 1, CopySource=dict(source),
                CopySourceRange=f"bytes={start}-{stop - 1}",
            )  # fmt: skip
            etag = answer.get("CopyPartResult", {}).get("ETag")
            if not etag:  # status 200 comes before the copy is made, and says nothing
                raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
            return str(etag)

        etag = await self._retry.run(attempt, self.url, nbytes=stop - start)
        self._parts[number] = {"PartNumber": number + 1, "ETag": etag}

    async def _begin(self) -> str:
        """Without a checksum: none is known of the parts."""
        params = {**self._object, "Metadata": self._client.metadata(self._mark.metadata)}
        self._checksums = False
        answer = await self._retry.run(
            lambda: self._client.call("create_multipart_upload", **params), self.url
        )
        upload: str = answer["UploadId"]
        return upload


async def checksummed(
    client: S3Client, method: str, params: Mapping[str, Any], checksum: Mapping[str, str]
) -> dict[str, Any]:
    """Call with a checksum for the store to verify, or without one if it takes none. The payload's
    SHA-256 is part of the signature in any case.
    """
    if client.checksums:
        try:
            return await client.call(method, **params, **checksum)
        except Exception as fault:
            if code_of(fault) not in UNKNOWN_CHECKSUM:
                raise
    answer = await client.call(method, **params)
    client.checksums = False
    return answer


async def learn_conditions(
    client: S3Client, retry: Retry, params: Mapping[str, Any], url: str
) -> None:
    """Write the same again: a store that heeds conditions refuses it. Some stores ignore conditions
    in silence (rclone's, s3rver).
    """

    async def attempt() -> bool:
        try:
            await client.call("put_object", **params, IfNoneMatch="*")
        except Exception as fault:
            if status_of(fault) in (409, 412):
                return True
            raise
        return False

    with contextlib.suppress(OSError):  # the write itself has succeeded
        # Amazon's own is known to
        client.conditions = client.is_amazon or await retry.run(attempt, url)
    if client.conditions is False:
        warnings.warn(
            f"{url}: this store ignores If-None-Match, so of writers that race for one path "
            "more than one may believe to have won",
            RuntimeWarning,
            stacklevel=2,
        )


def condition_of(client: S3Client, if_absent: bool, if_match: str | None) -> dict[str, str]:
    if if_absent:
        return {"IfNoneMatch": "*"}
    if if_match is not None:
        return {"IfMatch": f'"{if_match}"' if client.quotes_etags else if_match}
    return {}


def is_lost(fault: Exception, if_match: str | None) -> bool:
    """Whether the store says that a condition does not hold."""
    return status_of(fault) == 412 or (if_match is not None and code_of(fault) == "NoSuchKey")


def etag_of(answer: Mapping[str, Any]) -> str | None:
    etag = answer.get("ETag")
    return etag.strip('"') if etag else None

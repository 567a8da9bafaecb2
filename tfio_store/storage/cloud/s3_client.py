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
import errno
from collections.abc import Mapping
from functools import partial
from typing import Any

from tfio_store.storage import private
from tfio_store.storage.answers import code_of, status_of
from tfio_store.storage.cloud.bucket_store import BucketStore, Mark
from tfio_store.storage.cloud.multipart import as_checksum
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.ranges import unquoted
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo

__all__ = [
    "S3Client",
    "S3CopiedUpload",
    "S3Upload",
    "checksum_of",
    "copied_etag",
    "etag_of",
    "is_lost",
]

CONNECTIONS = 64
"""Requests in flight at once. botocore's default of 10 would queue a reader's ranges."""

UNKNOWN_CHECKSUM = frozenset({"InvalidArgument", "InvalidRequest", "NotImplemented"})
"""Answers of stores that do not take CRC32C checksums. (They have other meanings too.)"""

UNTOLD = frozenset({301, 400, 403})
"""Refusals of many meanings, which only a body tells."""


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

    def place(self, path: str) -> dict[str, Any]:
        """The parameters that name an object."""
        bucket, key = self.split(path)
        return {"Bucket": bucket, "Key": key}

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

    async def checksummed(
        self, method: str, params: Mapping[str, Any], checksum: Mapping[str, str]
    ) -> dict[str, Any]:
        """Call with a checksum for the store to verify, or without one if it takes none. The
        payload's SHA-256 is part of the signature in any case."""
        if self.checksums:
            try:
                return await self.call(method, **params, **checksum)
            except Exception as fault:
                if code_of(fault) not in UNKNOWN_CHECKSUM:
                    raise
        answer = await self.call(method, **params)
        self.checksums = False
        return answer

    def condition(self, if_absent: bool, if_match: str | None) -> dict[str, str]:
        """The parameters of a condition."""
        if if_absent:
            return {"IfNoneMatch": "*"}
        if if_match is not None:
            return {"IfMatch": f'"{if_match}"' if self.quotes_etags else if_match}
        return {}

    async def head(self, path: str) -> dict[str, Any]:
        """The object's headers. Empty if there is no object."""
        try:
            return await self.call("head_object", **self.place(path), ChecksumMode="ENABLED")
        except Exception as fault:
            status = status_of(fault)
            if status == 404:
                return {}
            if status in UNTOLD:
                await self._say_why(path, status)
            raise

    async def _say_why(self, path: str, status: int) -> None:
        """Let the store refuse a request whose answer may have a body: an expired token is no more
        than status 400 to a HEAD. Whatever else it answers to that is no reason."""
        try:
            answer = await self.call("get_object", **self.place(path), Range="bytes=0-0")
        except Exception as fault:
            if status_of(fault) == status:
                raise
        else:
            answer["Body"].close()

    def metadata(self, ours: Mapping[str, str]) -> dict[str, str]:
        """The parameters that the user's options put on each object, and ours."""
        return {**self.connection.fs.s3_additional_kwargs.get("Metadata", {}), **ours}


def tuned(options: Mapping[str, Any], retry: Retry) -> dict[str, Any]:
    """The user's options, and ours for what the user has not set."""
    config: dict[str, Any] = {
        "max_pool_connections": CONNECTIONS,
        "connect_timeout": min(retry.timeout, 10),
        "read_timeout": retry.timeout,
        "retries": {"total_max_attempts": 1},  # the retries are ours; two layers would multiply
        # checksums are ours too: stores other than Amazon's fail on botocore's trailing ones
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }
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


class S3Upload:
    """One multipart upload. It begins with its first part."""

    least_part_bytes = 5 << 20
    part_step = 1
    ordered = False

    def __init__(
        self, store: BucketStore, client: S3Client, path: str, if_match: str | None
    ) -> None:
        self.url = store.url(path)
        self.equal_parts = bool(client.connection.fs.fixed_upload_size)
        self._if_match = if_match
        self._store = store
        self._client = client
        self._path = path
        self._object = client.place(path)
        self._mark = Mark()
        self._metadata = client.metadata(self._mark.metadata)
        self._beginning: asyncio.Future[str] | None = None
        self._checksums = True
        self._parts: dict[int, dict[str, Any]] = {}

    async def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo:
        return await self._store._put(self._path, data, if_absent, self._if_match)

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        del last
        params = await self._begun()
        checksum = {"ChecksumCRC32C": as_checksum(crc32c)} if self._checksums else {}
        answer = await self._ask(
            "upload_part", nbytes=len(data), **params, PartNumber=number + 1, Body=data, **checksum
        )
        self._parts[number] = {"PartNumber": number + 1, "ETag": answer["ETag"], **checksum}

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo:
        params = await self._begun()
        params["MultipartUpload"] = {"Parts": [self._parts[i] for i in range(len(self._parts))]}
        if self._checksums:
            params |= {"ChecksumCRC32C": as_checksum(crc32c), "ChecksumType": "FULL_OBJECT"}
        if if_absent or self._if_match is not None:
            # Ceph 16 ignores the condition: look first, so that it gives way in a race at most
            look = await self._head()
            if etag_of(look) != self._if_match:
                raise FileExistsError(errno.EEXIST, "the condition does not hold", self.url)
            params |= self._client.condition(if_absent, self._if_match)
        answer = await self._store._ask(self._path, lambda: self._complete(params))
        return await self._confirmed(answer, size)

    async def discard(self) -> None:
        if self._beginning is None:
            return
        try:
            upload = await self._beginning
        except Exception:  # it never began, and send() has said so
            return
        try:
            await self._ask("abort_multipart_upload", **self._object, UploadId=upload)
        except FileNotFoundError:  # the store has forgotten it already
            return

    async def _begun(self) -> dict[str, Any]:
        """The parameters that name the upload, which the first caller begins."""
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(self._begin())
        # shielded: the cancelled part must not leave an upload whose name is lost
        return {**self._object, "UploadId": await asyncio.shield(self._beginning)}

    async def _begin(self) -> str:
        params = {**self._object, "Metadata": self._metadata}
        checksum = {"ChecksumAlgorithm": "CRC32C", "ChecksumType": "FULL_OBJECT"}
        answer = await self._store._ask(
            self._path,
            lambda: self._client.checksummed("create_multipart_upload", params, checksum),
        )
        self._checksums = self._client.checksums
        return str(answer["UploadId"])

    async def _ask(self, method: str, *, nbytes: int = 0, **params: Any) -> dict[str, Any]:
        ask = partial(self._client.call, method, **params)
        return await self._store._ask(self._path, ask, nbytes=nbytes)

    async def _head(self) -> dict[str, Any]:
        return await self._store._ask(self._path, lambda: self._client.head(self._path))

    async def _confirmed(self, answer: Mapping[str, Any], size: int) -> ObjectInfo:
        """Look at the stored object: some stores (Ceph 16) do not answer this on completion."""
        try:
            found = await self._head()
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
                current = await self._client.head(self._path)
                if self._mark.is_on(current.get("Metadata")):
                    return current
            raise


class S3CopiedUpload(S3Upload):
    """A multipart upload whose parts the store copies from another object."""

    def __init__(
        self,
        store: BucketStore,
        client: S3Client,
        path: str,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        """``metadata``: in place of what the user's options put on each object."""
        super().__init__(store, client, path, None)
        self._checksums = False  # none is known of the parts
        if metadata is not None:
            self._metadata = {**metadata, **self._mark.metadata}

    async def copy(self, number: int, source: Mapping[str, str], start: int, stop: int) -> None:
        """Make bytes [start, stop) of ``source`` (Bucket, Key) the part of this number."""
        params = await self._begun()

        async def attempt() -> str:
            answer = await self._client.call(
                "upload_part_copy", **params, PartNumber=number + 1, CopySource=dict(source),
                CopySourceRange=f"bytes={start}-{stop - 1}",
            )  # fmt: skip
            return copied_etag(answer.get("CopyPartResult"))

        etag = await self._store._ask(self._path, attempt, nbytes=stop - start)
        self._parts[number] = {"PartNumber": number + 1, "ETag": etag}

    async def _begin(self) -> str:
        params = {**self._object, "Metadata": self._metadata}
        return str((await self._ask("create_multipart_upload", **params))["UploadId"])


def copied_etag(result: Mapping[str, Any] | None) -> str:
    """The ETag of a copy. Status 200 comes before it is made, and says nothing."""
    etag = (result or {}).get("ETag")
    if not etag:
        raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
    return str(etag)


def is_lost(fault: Exception, if_match: str | None) -> bool:
    """Whether the store says that a condition does not hold."""
    return status_of(fault) == 412 or (if_match is not None and code_of(fault) == "NoSuchKey")


def etag_of(answer: Mapping[str, Any]) -> str | None:
    return unquoted(answer.get("ETag"))

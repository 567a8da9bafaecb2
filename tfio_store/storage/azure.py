"""Azure Blob Storage, through adlfs's client."""

from __future__ import annotations

import base64
import errno
import os
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfio_store.storage.bucket_store import BucketStore, Page
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import status_of
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["AzureStore"]

TOKEN = "tfio_store_attempt"
PAGE_OBJECTS = 5000

ONCE = {"retry_total": 0}
"""The SDK's retries off: they are ours, and two layers would multiply."""


class AzureStore(BucketStore):
    """A `Store` of block blobs. Its paths are ``container/name``.

    Blocks that were staged and never committed are seen by nobody and cannot be deleted; the
    service forgets them after a week.
    """

    def __init__(self, scheme: str, options: Mapping[str, Any], retry: Retry) -> None:
        from adlfs import AzureBlobFileSystem

        super().__init__(scheme, options, retry, Connection(AzureBlobFileSystem, options))

    def _blob(self, path: str) -> Any:
        container, _, name = path.partition("/")
        return self._connection.fs.service_client.get_blob_client(container, name)

    def _container(self, path: str) -> Any:
        name = path.partition("/")[0]
        return self._connection.fs.service_client.get_container_client(name)

    async def _info(self, path: str) -> ObjectInfo:
        try:
            found = await self._properties(path) if "/" in path else None
        except FileNotFoundError:
            found = None
        if found is None:
            raise await self._missing_or_folder(path)
        if found.metadata.get("hdi_isfolder") == "true":  # how hierarchical accounts keep folders
            raise self._is_folder(path)
        return described(path, found)

    async def _properties(self, path: str) -> Any:
        return await self._ask(path, lambda: self._blob(path).get_blob_properties(**ONCE))

    async def _read(self, path: str, start: int, stop: int) -> BytesLike:
        if stop <= start:
            return b""

        async def attempt() -> bytes:
            try:
                stream = await self._blob(path).download_blob(start, stop - start, **ONCE)
                data: bytes = await stream.readall()
                return data
            except Exception as fault:
                if status_of(fault) == 416:  # begins at or behind the end
                    return b""
                raise

        return await self._ask(path, attempt, nbytes=stop - start)

    async def _page(self, prefix: str, deep: bool, token: str | None) -> Page:
        bucket, _, start = prefix.partition("/")
        container = self._container(prefix)

        async def attempt() -> Page:
            kind = container.list_blobs if deep else container.walk_blobs
            pages = kind(start, results_per_page=PAGE_OBJECTS, **ONCE).by_page(token)
            async for page in pages:
                found = [
                    described(f"{bucket}/{one.name}", one)
                    async for one in page
                    if getattr(one, "size", None) is not None  # else a folder
                ]
                return found, pages.continuation_token or None
            return [], None

        return await self._ask(prefix, attempt)

    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo:
        token = secrets.token_hex(16)
        options = {"metadata": {TOKEN: token}, **condition(if_absent, if_match)}
        options["overwrite"] = not if_absent

        async def attempt() -> Any:
            try:
                return await self._blob(path).upload_blob(
                    bytes(data), validate_content=True, **options, **ONCE
                )
            except Exception as fault:
                return await self._own_success(path, token, fault)

        answer = await self._ask(path, attempt, nbytes=len(data))
        return ObjectInfo(path, len(data), answer["etag"].strip('"'))

    async def _own_success(self, path: str, token: str, fault: Exception) -> Any:
        """The blob, if ``fault`` is a condition lost to an attempt of ours, unknown to us."""
        if status_of(fault) not in (409, 412):
            raise fault
        lost = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))
        try:
            current = await self._blob(path).get_blob_properties(**ONCE)
        except Exception as missing:
            raise (lost if status_of(missing) == 404 else missing) from fault
        if current.metadata.get(TOKEN) != token:
            raise lost from fault
        return current

    def _upload(self, path: str) -> AzureUpload:
        return AzureUpload(self, path)

    async def _delete(self, path: str) -> None:
        try:
            await self._ask(path, lambda: self._blob(path).delete_blob(**ONCE))
        except FileNotFoundError:
            return


class AzureUpload:
    """Blocks staged in any order, then one request that makes them a blob."""

    least_part_bytes = 1 << 20
    part_step = 1
    ordered = False
    equal_parts = False

    def __init__(self, store: AzureStore, path: str) -> None:
        self.url = store.url(path)
        self._store = store
        self._path = path
        self._token = secrets.token_hex(16)
        self._blocks: dict[int, str] = {}

    async def put(self, data: bytearray, *, if_absent: bool, crc32c: int) -> ObjectInfo:
        del crc32c
        return await self._store._put(self._path, data, if_absent, None)

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        del crc32c, last
        # names of one length, which the service wants, and of nobody else's blocks
        block = base64.b64encode(f"{self._token}-{number:06}".encode()).decode()

        async def attempt() -> None:
            await self._store._blob(self._path).stage_block(
                block, bytes(data), length=len(data), validate_content=True, **ONCE
            )

        await self._store._ask(self._path, attempt, nbytes=len(data))
        self._blocks[number] = block

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo:
        del crc32c
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(self._blocks[number]) for number in range(len(self._blocks))]

        async def attempt() -> Any:
            try:
                return await self._store._blob(self._path).commit_block_list(
                    blocks,
                    metadata={TOKEN: self._token},
                    **condition(if_absent, None),
                    **ONCE,
                )
            except Exception as fault:
                return await self._store._own_success(self._path, self._token, fault)

        await self._store._ask(self._path, attempt)
        found = await self._store._properties(self._path)
        if found.size != size and found.metadata.get(TOKEN) == self._token:
            raise OSError(errno.EIO, f"the store has {found.size} of {size} bytes", self.url)
        return ObjectInfo(self._path, size, found.etag.strip('"'))

    async def discard(self) -> None:
        return


def condition(if_absent: bool, if_match: str | None) -> dict[str, Any]:
    from azure.core import MatchConditions

    if if_absent:
        return {"match_condition": MatchConditions.IfMissing}
    if if_match is not None:
        return {"etag": f'"{if_match}"', "match_condition": MatchConditions.IfNotModified}
    return {}


def described(path: str, properties: Any) -> ObjectInfo:
    return ObjectInfo(path, properties.size, properties.etag.strip('"'))

"""Azure Blob Storage, through adlfs's client."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from typing_extensions import Buffer as BytesLike

from tfio_store.storage.answers import code_of, status_of
from tfio_store.storage.cloud.bucket_store import BucketStore, Mark, Page, check_copy
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import ShortBodyError, is_taken
from tfio_store.storage.ranges import check_size, nothing_there, unquoted, whole_body, whole_range
from tfio_store.storage.registry import Origin
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo, Version, seconds_of

__all__ = ["AzureStore"]


# The blobs of adlfs's client, by the store's paths.


T = TypeVar("T")

FORMS = (
    "Azure's URLs are az://CONTAINER/NAME, with the account in storage_options= or in "
    "AZURE_STORAGE_ACCOUNT_NAME, or az://CONTAINER@ACCOUNT.dfs.core.windows.net/NAME; not "
    "az://ACCOUNT/CONTAINER/NAME"
)

ONCE = {"retry_total": 0}
"""Turn the SDK's retries off. We retry, and two layers would multiply."""


class AzureConnection(Connection):
    def _made(self) -> Any:
        try:
            return super()._made()
        except ValueError as fault:  # adlfs's, of an account or a credential that it misses
            raise ValueError(f"{fault} {FORMS}") from fault


# Copies go on after the answer that announces them.

FIRST_POLL, LONGEST_POLL = 0.1, 5.0
"""Seconds between looks at a copy that is under way."""

STALLED = 600.0
"""Seconds without progress after which a copy is given up."""

MARK_KEY = "tfio_store_attempt"
"""Azure takes identifiers only."""
PAGE_OBJECTS = 5000

ID_LENGTH = 52
"""Characters of a block's id."""
SHORTEST_ID = 16
"""Long enough for a number and a random token."""


class AzureStore(BucketStore):
    """A `Store` of block blobs. Its paths are ``container/name``.

    Blocks that were staged and never committed are invisible, and can't be deleted. The service
    forgets them after a week.
    """

    def __init__(
        self,
        scheme: str,
        options: Mapping[str, Any],
        retry: Retry,
        origin: Origin | None = None,
    ) -> None:
        from adlfs import AzureBlobFileSystem

        connection = AzureConnection(AzureBlobFileSystem, options)
        super().__init__(scheme, options, retry, connection, origin)

    def _blob(self, path: str) -> Any:
        container, _, name = self._checked(path).partition("/")
        return self._connection.fs.service_client.get_blob_client(container, name)

    def _checked(self, path: str) -> str:
        if "\\" in path:
            raise OSError(
                errno.EINVAL,
                "Azure takes a backslash in a name for a slash; use another name",
                self.url(path),
            )
        return path

    def _container(self, path: str) -> Any:
        name = path.partition("/")[0]
        return self._connection.fs.service_client.get_container_client(name)

    async def _ask(self, path: str, ask: Callable[[], Awaitable[T]], *, nbytes: int = 0) -> T:
        try:
            return await super()._ask(path, ask, nbytes=nbytes)
        except FileNotFoundError as fault:
            if "ContainerNotFound" in str(fault.strerror):
                container = path.partition("/")[0]
                fault.strerror = f"{fault.strerror}: there is no container {container!r}. {FORMS}"
            raise

    async def _properties(self, path: str) -> Any:
        return await self._ask(path, lambda: self._blob(path).get_blob_properties(**ONCE))

    async def _look(self, path: str) -> ObjectInfo | None:
        try:
            found = await self._properties(path) if "/" in path else None
        except FileNotFoundError:
            return None
        # hierarchical accounts keep folders as blobs
        if found is None or found.metadata.get("hdi_isfolder") == "true":
            return None
        return described(path, found)

    async def _whole(self, path: str, most: int | None) -> tuple[bytes, ObjectInfo]:
        stream = await self._blob(path).download_blob(**ONCE)
        check_size(stream.size, most, self.url(path))
        data: bytes = whole_body(await stream.readall(), stream.size)
        if stream.properties.metadata.get("hdi_isfolder") == "true":
            raise self._is_folder(path)
        return data, described(path, stream.properties)

    async def _range(self, path: str, start: int, stop: int, version: Version) -> BytesLike:
        answers: list[Mapping[str, str]] = []

        def note(response: Any) -> None:
            answers.append(response.http_response.headers)

        try:
            stream = await self._blob(path).download_blob(
                start,
                stop - start,
                raw_response_hook=note,
                **condition(False, version.etag),
                **ONCE,
            )
            version.hold(unquoted(stream.properties.etag), self.url(path))
            data: bytes = await stream.readall()
        except ValueError as fault:  # the SDK's, of a Content-Range that is missing
            raise ShortBodyError(errno.ECONNRESET, str(fault)) from fault
        except Exception as fault:
            if status_of(fault) not in (412, 416):
                raise
            info = described(path, await self._blob(path).get_blob_properties(**ONCE))
            version.hold(info.etag, self.url(path))
            if status_of(fault) == 412:
                raise
            return nothing_there(start, info)
        # the SDK asks for large ranges in several; the first answer says where the blob ends
        first, _, size = answers[0].get("Content-Range", "").rpartition("/")
        span = f"bytes {start}-{start + len(data) - 1}/{size}"
        return whole_range(
            data, None, span if first.startswith(f"bytes {start}-") else "", start, stop
        )

    async def _page(
        self, prefix: str, deep: bool, token: str | None, most: int | None = None
    ) -> Page:
        bucket, _, start = prefix.partition("/")
        container = self._container(self._checked(prefix))

        async def attempt() -> Page:
            kind = container.list_blobs if deep else container.walk_blobs
            pages = kind(start, results_per_page=most or PAGE_OBJECTS, **ONCE).by_page(token)
            async for page in pages:
                found: list[ObjectInfo] = []
                folders: list[str] = []
                async for one in page:
                    path = f"{bucket}/{one.name}"
                    if getattr(one, "size", None) is None:
                        folders.append(path)
                    else:
                        found.append(described(path, one))
                return found, folders, pages.continuation_token or None
            return [], [], None

        return await self._ask(prefix, attempt)

    async def _put(
        self, path: str, data: bytes | bytearray, if_absent: bool, if_match: str | None
    ) -> ObjectInfo:
        mark = Mark(MARK_KEY)
        options = {"metadata": mark.metadata, **condition(if_absent, if_match)}
        options["overwrite"] = not if_absent

        async def attempt() -> Any:
            try:
                return await self._blob(path).upload_blob(
                    bytes(data), validate_content=True, **options, **ONCE
                )
            except Exception as fault:
                return await self._own_success(path, mark, fault)

        answer = await self._ask(path, attempt, nbytes=len(data))
        return ObjectInfo(path, len(data), unquoted(answer["etag"]))

    async def _own_success(self, path: str, mark: Mark, fault: Exception) -> Any:
        """The blob, if an earlier attempt of ours, whose answer was lost, made ``fault`` happen."""
        if status_of(fault) not in (409, 412):
            raise fault
        lost = FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.url(path))
        try:
            current = await self._blob(path).get_blob_properties(**ONCE)
        except Exception as missing:
            raise (lost if status_of(missing) == 404 else missing) from fault
        if not mark.is_on(current.metadata):
            if not is_taken(fault):  # a policy, for example
                raise fault
            raise lost from fault
        return current

    def _upload(self, path: str, if_match: str | None) -> AzureUpload:
        return AzureUpload(self, path, if_match)

    async def _copy(self, source: str, target: str, *, if_absent: bool = False) -> ObjectInfo:
        if if_absent:
            await self._check_free(target)
        found = await self._properties(source)
        copy = await self._start_copy(source, target, found.etag, if_absent)
        made = await self._end_copy(target, copy)
        info = described(target, made)
        check_copy(described(source, found), info, self.url(target))
        return info

    async def _start_copy(self, source: str, target: str, etag: str, if_absent: bool) -> str:
        """The copy's id."""
        from azure.core import MatchConditions

        origin = self._blob(source).url

        async def attempt() -> str:
            try:
                answer = await self._blob(target).start_copy_from_url(
                    origin,
                    source_etag=etag,
                    source_match_condition=MatchConditions.IfNotModified,
                    **condition(if_absent, None),
                    **ONCE,
                )
                return str(answer["copy_id"])
            except Exception as fault:
                if code_of(fault) != "PendingCopyOperation":
                    raise
                under_way = (await self._blob(target).get_blob_properties(**ONCE)).copy
                if under_way.source != origin:
                    raise
                return str(under_way.id)  # begun by an attempt whose answer was lost

        return await self._ask(target, attempt)

    async def _end_copy(self, target: str, copy: str) -> Any:
        """The properties of the copy once it is whole."""
        delay, moved, progress = FIRST_POLL, time.monotonic(), None
        while True:
            found = await self._properties(target)
            if found.copy.id != copy:
                raise OSError(errno.EIO, "another write replaced the copy", self.url(target))
            if found.copy.status == "success":
                return found
            if found.copy.status != "pending":
                why = found.copy.status_description or found.copy.status
                raise OSError(errno.EIO, f"the store could not copy to it: {why}", self.url(target))
            if found.copy.progress != progress:
                moved, progress = time.monotonic(), found.copy.progress
            if time.monotonic() - moved > STALLED:
                await self._blob(target).abort_copy(copy)
                raise OSError(
                    errno.ETIMEDOUT, f"no progress of the copy ({progress})", self.url(target)
                )
            await asyncio.sleep(delay)
            delay = min(2 * delay, LONGEST_POLL)

    async def _delete(self, path: str, etag: str | None = None) -> None:
        same = condition(False, etag)
        try:
            await self._ask(path, lambda: self._blob(path).delete_blob(**same, **ONCE))
        except (FileNotFoundError, FileExistsError):  # gone, or another
            return


def described(path: str, properties: Any) -> ObjectInfo:
    modified = seconds_of(properties.last_modified)
    return ObjectInfo(path, properties.size, unquoted(properties.etag), modified=modified)


class AzureUpload:
    """Blocks staged in any order, then one request that makes them a blob."""

    least_part_bytes = 1 << 20
    part_step = 1
    ordered = False
    equal_parts = False

    def __init__(self, store: AzureStore, path: str, if_match: str | None) -> None:
        self.url = store.url(path)
        self._if_match = if_match
        self._store = store
        self._path = path
        self._mark = Mark(MARK_KEY)
        self._blocks: dict[int, str] = {}
        self._id_length = ID_LENGTH

    async def put(self, data: bytearray, *, if_absent: bool) -> ObjectInfo:
        return await self._store._put(self._path, data, if_absent, self._if_match)

    async def send(self, number: int, data: bytearray, crc32c: int, *, last: bool) -> None:
        del crc32c, last

        async def stage() -> str:
            block = self._block_id(number)
            await self._store._blob(self._path).stage_block(
                block, bytes(data), length=len(data), validate_content=True, **ONCE
            )
            return block

        async def attempt() -> str:
            try:
                return await stage()
            except Exception as fault:
                if code_of(fault) != "InvalidBlobOrBlock" or not await self._adopt_length():
                    raise
                return await stage()

        self._blocks[number] = await self._store._ask(self._path, attempt, nbytes=len(data))

    def _block_id(self, number: int) -> str:
        """An id that no other writer uses."""
        return f"{number:06}-{self._mark.text * 2}"[: self._id_length]

    async def _adopt_length(self) -> bool:
        """Whether the length of the blob's block ids suits us. The service wants one length for all
        ids of a blob, also for blocks of a dead writer, which it keeps for a week."""
        _, left = await self._store._blob(self._path).get_block_list("uncommitted", **ONCE)
        lengths = {len(str(block.id)) for block in left}
        if len(lengths) != 1 or min(lengths) < SHORTEST_ID:
            return False
        (self._id_length,) = lengths
        return True

    async def finish(self, *, size: int, crc32c: int, if_absent: bool) -> ObjectInfo:
        del crc32c
        from azure.storage.blob import BlobBlock

        blocks = [BlobBlock(self._blocks[number]) for number in range(len(self._blocks))]

        async def attempt() -> Any:
            try:
                return await self._store._blob(self._path).commit_block_list(
                    blocks,
                    metadata=self._mark.metadata,
                    **condition(if_absent, self._if_match),
                    **ONCE,
                )
            except Exception as fault:
                return await self._store._own_success(self._path, self._mark, fault)

        await self._store._ask(self._path, attempt)
        found = await self._store._properties(self._path)
        if found.size != size and self._mark.is_on(found.metadata):
            raise OSError(errno.EIO, f"the store has {found.size} of {size} bytes", self.url)
        return ObjectInfo(self._path, size, unquoted(found.etag))

    async def discard(self) -> None:
        return


def condition(if_absent: bool, if_match: str | None) -> dict[str, Any]:
    from azure.core import MatchConditions

    if if_absent:
        return {"match_condition": MatchConditions.IfMissing}
    if if_match is not None:
        return {"etag": f'"{if_match}"', "match_condition": MatchConditions.IfNotModified}
    return {}

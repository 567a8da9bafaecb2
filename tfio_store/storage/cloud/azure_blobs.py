"""The blobs of adlfs's client, by the store's paths."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from tfio_store.storage.answers import unquoted
from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.connection import Connection
from tfio_store.storage.modified import seconds_of
from tfio_store.storage.origin import Origin
from tfio_store.storage.retry import Retry
from tfio_store.storage.store import ObjectInfo

__all__ = ["ONCE", "AzureBlobs", "described"]

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


class AzureBlobs(BucketStore):
    """The requests of a store of block blobs to the client. Paths are ``container/name``."""

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


def described(path: str, properties: Any) -> ObjectInfo:
    modified = seconds_of(properties.last_modified)
    return ObjectInfo(path, properties.size, unquoted(properties.etag), modified=modified)

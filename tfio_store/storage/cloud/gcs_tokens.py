"""The headers with which gcsfs's credentials ask Google Cloud Storage."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial

from tfio_store.storage import private
from tfio_store.storage.connection import Connection
from tfio_store.storage.threads import PerProcess, begun

__all__ = ["Tokens"]

Headers = dict[str, str]


class Tokens:
    """The tokens of a connection. Its credentials renew them by blocking requests, and may wait
    long for a busy server. All connections' requests share one loop, so a thread asks. The requests
    that need a new token wait for the same one.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._renewals: PerProcess[list[Future[Headers]]] = PerProcess(list)

    async def headers(self, given: Mapping[str, str] | None = None) -> Headers:
        """``given``, and the credentials' own."""
        fs = self._connection.fs
        if private.has_token(fs):
            return private.request_headers(fs, given)
        last = self._renewals.here
        if not last or last[0].done():
            last[:] = [begun(partial(private.renewed_headers, fs), "tfio_store-token")]
        own: Headers = await asyncio.wrap_future(last[0])
        return {**own, **(given or {})}

    def withdraw(self, headers: Headers) -> bool:
        """Whether a request with these headers, which was answered 401, is worth another try.
        Tokens may be withdrawn before they expire. One that can be renewed is."""
        return private.withdraw_token(self._connection.fs, headers)

"""Copies on GCS: rewrites, which may take several requests."""

from __future__ import annotations

import errno
import json
from typing import Any

from tfio_store.storage.cloud.bucket_store import BucketStore
from tfio_store.storage.cloud.copies import check_copy
from tfio_store.storage.cloud.gcs_client import GCSClient, described, object_url
from tfio_store.storage.faults import ShortBodyError
from tfio_store.storage.store import ObjectInfo

__all__ = ["GCSCopies"]


class GCSCopies(BucketStore):
    """Copies for a store of GCS objects."""

    _client: GCSClient

    async def _copy(self, source: str, target: str) -> None:
        await self._copied(source, target, None)

    async def _copy_new(self, source: str, target: str) -> ObjectInfo:
        await self._check_free(target)
        return await self._copied(source, target, "0")

    async def _copied(self, source: str, target: str, replaces: str | None) -> ObjectInfo:
        """``replaces``: the generation that must be at the target; "0" for none, None for any."""
        info = await self._info(source)
        url = object_url(source) + "/rewriteTo" + object_url(target).removeprefix("/storage/v1")
        token: str | None = None
        while True:
            answer = await self._rewrite(target, url, token, info, replaces)
            if answer.get("done"):
                break
            token = answer["rewriteToken"]
        copy = described(target, answer["resource"])
        check_copy(info, copy, self.url(target))
        return copy

    async def _rewrite(
        self, target: str, url: str, token: str | None, info: ObjectInfo, replaces: str | None
    ) -> dict[str, Any]:
        """One step of a copy; the service takes several for large objects between locations."""

        async def attempt() -> dict[str, Any]:
            answer = await self._client.ask_json(
                "POST", url, {}, rewriteToken=token, sourceGeneration=info.etag,
                ifGenerationMatch=replaces,
            )  # fmt: skip
            found: dict[str, Any] = json.loads(answer.expect(200).body)
            if not (found.get("resource") if found.get("done") else found.get("rewriteToken")):
                raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
            return found

        return await self._ask(target, attempt, nbytes=info.size)

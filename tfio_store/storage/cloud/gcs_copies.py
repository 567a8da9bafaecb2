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
        info = await self._info(source)
        url = object_url(source) + "/rewriteTo" + object_url(target).removeprefix("/storage/v1")
        token: str | None = None
        while True:
            answer = await self._rewrite(target, url, token, info)
            if answer.get("done"):
                break
            token = answer["rewriteToken"]
        check_copy(info, described(target, answer["resource"]), self.url(target))

    async def _rewrite(
        self, target: str, url: str, token: str | None, info: ObjectInfo
    ) -> dict[str, Any]:
        """One step of a copy; the service takes several for large objects between locations."""

        async def attempt() -> dict[str, Any]:
            answer = await self._client.ask_json(
                "POST", url, {}, rewriteToken=token, sourceGeneration=info.etag
            )
            found: dict[str, Any] = json.loads(answer.expect(200).body)
            if not (found.get("resource") if found.get("done") else found.get("rewriteToken")):
                raise ShortBodyError(errno.ECONNRESET, "the store did not confirm its copy")
            return found

        return await self._ask(target, attempt, nbytes=info.size)

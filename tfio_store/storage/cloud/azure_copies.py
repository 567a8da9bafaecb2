"""Copies on Azure, which go on after the answer that announces them."""

from __future__ import annotations

import asyncio
import errno
import time
from typing import Any

from tfio_store.storage.cloud.azure_blobs import ONCE, AzureBlobs, described
from tfio_store.storage.cloud.copies import check_copy
from tfio_store.storage.faults import code_of
from tfio_store.storage.store import ObjectInfo

__all__ = ["AzureCopies"]

FIRST_POLL, LONGEST_POLL = 0.1, 5.0
"""Seconds between looks at a copy that is under way."""

STALLED = 600.0
"""Seconds without progress after which a copy is given up."""


class AzureCopies(AzureBlobs):
    """Copies for a store of block blobs."""

    async def _copy(self, source: str, target: str) -> None:
        await self._copied(source, target, if_absent=False)

    async def _copy_new(self, source: str, target: str) -> ObjectInfo:
        await self._check_free(target)
        return await self._copied(source, target, if_absent=True)

    async def _copied(self, source: str, target: str, *, if_absent: bool) -> ObjectInfo:
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
        free = {"match_condition": MatchConditions.IfMissing} if if_absent else {}

        async def attempt() -> str:
            try:
                answer = await self._blob(target).start_copy_from_url(
                    origin,
                    source_etag=etag,
                    source_match_condition=MatchConditions.IfNotModified,
                    **free,
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

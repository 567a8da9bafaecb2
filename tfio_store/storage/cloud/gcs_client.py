"""Requests to Google Cloud Storage in the session and with the credentials that gcsfs has set up.

It uses the JSON API itself, not gcsfs's functions: these know no condition except "create", and
retry on their own.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tfio_store.storage.connection import Connection
from tfio_store.storage.http_status import Answer
from tfio_store.storage.modified import seconds_of
from tfio_store.storage.private import of_gcsfs
from tfio_store.storage.store import ObjectInfo

__all__ = ["GCSClient", "checksum_of", "described"]


class GCSClient:
    """One request at a time, awaited on the connection's loop. No retries here."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        # the plain class: the one that gcsfs exports first asks each bucket's type by gRPC
        from gcsfs.core import GCSFileSystem

        self.connection = Connection(GCSFileSystem, options)

    async def ask(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | bytearray | memoryview = b"",
        **params: str | None,
    ) -> Answer:
        """``url``: absolute, or behind the endpoint. ``params`` of None are left out."""
        from yarl import URL

        fs = self.connection.fs
        await of_gcsfs.open_session(fs)
        target = url if url.startswith("http") else of_gcsfs.location(fs) + url
        query = urlencode(of_gcsfs.request_params(fs, params))
        if query:
            target += ("&" if "?" in target else "?") + query
        async with fs.session.request(
            method,
            URL(target, encoded=True),
            headers=of_gcsfs.request_headers(fs, headers),
            data=data,
            allow_redirects=False,  # 308 is how a resumable upload says "go on"
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.read())

    async def ask_json(
        self, method: str, url: str, document: Mapping[str, Any], **params: str | None
    ) -> Answer:
        headers = {"Content-Type": "application/json; charset=UTF-8"}
        return await self.ask(
            method, url, headers=headers, data=json.dumps(document).encode(), **params
        )

    async def metadata(self, path: str) -> dict[str, Any] | None:
        """The object's resource. None if there is no object."""
        answer = await self.ask("GET", object_url(path))
        if answer.status == 404:
            return None
        found: dict[str, Any] = answer.expect(200).document()
        return found


def split(path: str) -> tuple[str, str]:
    bucket, _, key = path.partition("/")
    return bucket, key


def object_url(path: str, service: str = "") -> str:
    bucket, key = split(path)
    return f"{service}/storage/v1/b/{quote(bucket, safe='')}/o/{quote(key, safe='')}"


def bucket_url(path: str, service: str = "") -> str:
    return f"{service}/storage/v1/b/{quote(split(path)[0], safe='')}/o"


def as_checksum(crc32c: int) -> str:
    return base64.b64encode(crc32c.to_bytes(4, "big")).decode()


def checksum_of(resource: Mapping[str, Any]) -> int | None:
    text = resource.get("crc32c")
    return int.from_bytes(base64.b64decode(text), "big") if text else None


def described(path: str, resource: Mapping[str, Any]) -> ObjectInfo:
    """The generation serves as the ETag, because conditions compare it."""
    size = int(resource["size"])
    generation, modified = str(resource["generation"]), seconds_of(resource.get("updated"))
    return ObjectInfo(path, size, generation, checksum_of(resource), modified)

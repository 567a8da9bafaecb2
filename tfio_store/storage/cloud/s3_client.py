"""Requests to S3 through the client that s3fs has set up: its options, sessions and credentials."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from tfio_store.storage import private
from tfio_store.storage.connection import Connection
from tfio_store.storage.faults import status_of
from tfio_store.storage.retry import Retry

__all__ = ["S3Client", "checksum_of"]

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

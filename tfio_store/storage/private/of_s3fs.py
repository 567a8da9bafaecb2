"""What we need of s3fs, and of the aiobotocore client below it, and have no public way to get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = [
    "bucket_and_key",
    "credentials",
    "endpoint_of",
    "method_options",
    "trusted_certificates",
]


def bucket_and_key(fs: Any, path: str) -> tuple[str, str]:
    """Bucket and key of ``bucket/key``. An access point (ARN) counts as a bucket."""
    bucket, key = fs._find_bucket_key(path)
    return bucket, key


def method_options(fs: Any, method: Callable[..., Any]) -> dict[str, Any]:
    """Those of the user's ``s3_additional_kwargs`` that concern a method of the client."""
    return dict(fs._get_s3_method_kwargs(method))


def credentials(client: Any) -> Any:
    """The client's own credentials, which renew themselves. None where there are none."""
    return client._request_signer._credentials


def trusted_certificates(client: Any) -> bool | str | None:
    """botocore's ``verify``: a file or folder of certificates, or whether to check them."""
    found: bool | str | None = client._endpoint.http_session._verify
    return found


async def endpoint_of(
    client: Any, operation: Any, bucket: str, context: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Where the client sends ``operation`` for ``bucket``: the URL, and headers to add. It writes
    into ``context`` how the request is signed."""
    params = await client._emit_api_params(
        api_params={"Bucket": bucket, "Key": "key"}, operation_model=operation, context=context
    )
    url, headers, _ = await client._resolve_endpoint_ruleset(operation, params, context)
    return url, headers

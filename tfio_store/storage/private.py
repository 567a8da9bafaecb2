"""The private functions of other libraries that the stores use: s3fs, gcsfs and Azure's SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Any

__all__ = [
    "bucket_and_key",
    "credentials",
    "endpoint_of",
    "has_token",
    "location",
    "method_options",
    "open_session",
    "proxies",
    "renewed_headers",
    "request_headers",
    "request_params",
    "trusted_certificates",
    "uses_mtls",
    "withdraw_token",
]


# Private names of Azure's SDK, which adlfs uses. No public name does the same.


def proxies(service: Any) -> Any:
    """The proxies that a service client goes through. Empty or None for none."""
    return service._config.proxy_policy.proxies


# Private names of gcsfs. No public name does the same.


async def open_session(fs: Any) -> None:
    """Let ``fs.session`` be open."""
    await fs._set_session()


def location(fs: Any) -> str:
    """The endpoint, without a slash at its end."""
    found: str = fs._location
    return found.rstrip("/")


def request_params(fs: Any, params: Mapping[str, str | None]) -> dict[str, str]:
    """``params`` without those of None, and what the user's options add to each request."""
    found: dict[str, str] = fs._get_params(params)
    return found


def request_headers(fs: Any, headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """``headers``, and the credentials' own. Unless `has_token`, it waits for a new token."""
    found: dict[str, str] = fs._get_headers(headers)
    return found


RENEWED_BEFORE = 310.0
"""gcsfs renews a token 300 seconds before it expires."""


def has_token(fs: Any) -> bool:
    """Whether `request_headers` waits for nothing."""
    found = fs.credentials.credentials
    if found is None:  # anonymous
        return True
    left = None if found.expiry is None else found.expiry.replace(tzinfo=timezone.utc)
    soon = left is not None and (left - datetime.now(timezone.utc)).total_seconds() < RENEWED_BEFORE
    return bool(found.valid and not soon)


def renewed_headers(fs: Any) -> dict[str, str]:
    """The credentials' own headers. Raises what the credentials raised, which gcsfs hides behind a
    status 401, whatever it was."""
    try:
        return request_headers(fs)
    except Exception as fault:
        hidden = fault.__cause__ if type(fault).__name__ == "HttpError" else None
        if hidden is None:
            raise
    raise hidden


def withdraw_token(fs: Any, headers: Mapping[str, str]) -> bool:
    """Let the next request wait for another token than that of ``headers``, if there can be one.
    Whether there are credentials at all."""
    found = fs.credentials.credentials
    if found is None:
        return False
    renews = getattr(found, "refresh_token", "") is not None or found.refresh_handler is not None
    shown = headers.get("Authorization") or headers.get("authorization") or ""
    if renews and found.token is not None and shown.endswith(f" {found.token}"):
        found.token = None  # else another request has seen to it
    return True


def uses_mtls(fs: Any) -> bool:
    """Whether the client shows a certificate of its own."""
    return bool(getattr(fs, "_use_client_cert", False))  # older gcsfs can't


# Private names of s3fs, and of the aiobotocore client below it. No public name does the same.


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

"""obstore's stores, made of what fsspec's filesystems know.

Those have merged the settings that users have: storage options, environment variables, fsspec's
and the clouds' own configuration files. Their clients say where a bucket is and with what
credentials it is asked for; obstore is told exactly that, and what it would find in the environment
by itself is overridden.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from tfio_store.storage import private
from tfio_store.storage.cloud.gcs_tokens import Tokens
from tfio_store.storage.connection import Connection
from tfio_store.storage.retry import Retry

__all__ = ["MOST_BYTES", "UnfitError", "azure_native", "gcs_native", "s3_native"]

Credentials = Callable[[], Awaitable[dict[str, Any]]]

GOOD_FOR = timedelta(minutes=10)
"""How long obstore keeps an answer of ours. The client that we ask renews what expires."""

AZURE_SCOPE = "https://storage.azure.com/.default"

CONNECT_S, DAY_S = 10.0, 86_400.0

MOST_BYTES = 32 << 20
"""The most to ask for by one request. For so many it has the time that `Retry.limit` gives."""


class UnfitError(Exception):
    """Something about a bucket's settings that obstore has no way to honour."""


def made(
    cls: Any,
    bucket: str,
    config: Mapping[str, Any],
    client: Mapping[str, Any],
    ask: Callable[[], dict[str, Any]] | None,
) -> Any:
    endpoint = config.get("endpoint") or config["base_url"]
    return cls(
        bucket,
        config={**config, "skip_signature": ask is None},
        client_options={"allow_http": endpoint.startswith("http://"), **client},
        retry_config={"max_retries": 0},  # the retries are ours; two layers would multiply
        credential_provider=ask,
    )


def waiting(
    ask: Credentials | None, connection: Connection, retry: Retry
) -> Callable[[], dict[str, Any]] | None:
    """The same credentials for a thread, which waits until the connection's loop has them."""
    if ask is None:
        return None
    return lambda: connection.wait(asyncio.wait_for(ask(), retry.timeout))


def timeouts(retry: Retry, connect: float, read: float) -> dict[str, Any]:
    """Seconds for a connection, for the next bytes of an answer, and for all of a request. None is
    longer than an attempt may take."""
    longest = retry.timeout, retry.timeout, retry.limit(MOST_BYTES)
    wanted = {"connect_timeout": connect, "read_timeout": read, "timeout": DAY_S}
    return {
        name: timedelta(seconds=min(seconds, most))
        for (name, seconds), most in zip(wanted.items(), longest, strict=True)
    }


def in_time() -> datetime:
    return datetime.now(timezone.utc) + GOOD_FOR


def check(fits: bool, reason: str) -> None:
    if not fits:
        raise UnfitError(reason)


# --- S3


async def s3_native(connection: Connection, bucket: str, retry: Retry) -> Any:
    """Raises UnfitError."""
    from obstore.store import S3Store

    fs = connection.fs
    await fs.set_session()
    client = await fs.get_s3(bucket)
    config = client.meta.config
    url, region = await s3_endpoint(client, bucket)
    check(not config.proxies and not config.client_cert, "a proxy or client certificate is set")
    extra = private.method_options(fs, client.get_object)
    pays = extra.pop("RequestPayer", None) == "requester"
    check(not extra, f"s3_additional_kwargs {sorted(extra)} concern reading")
    settings = {
        # the bucket's own URL, whatever its style: obstore adds the key to it and nothing else
        "endpoint": url, "aws_endpoint_url_s3": url, "virtual_hosted_style_request": True,
        "region": region, "request_payer": pays, "s3_express": False,
    }  # fmt: skip
    options = timeouts(retry, config.connect_timeout, config.read_timeout)
    if url.startswith("https://"):
        options |= await asyncio.to_thread(trust, private.trusted_certificates(client))
    ask = waiting(s3_credentials(client), connection, retry)
    return made(S3Store, bucket, settings, options, ask)


def trust(verify: bool | str | None) -> dict[str, Any]:
    """botocore's ``verify``, which may be a file of certificates."""
    if not isinstance(verify, str):
        return {"allow_invalid_certificates": verify is False}
    check(not os.path.isdir(verify), "the CA bundle is a folder")
    with open(verify, "rb") as file:
        return {"root_certificate": file.read()}


async def s3_endpoint(client: Any, bucket: str) -> tuple[str, str]:
    """Where botocore finds the bucket, and the region that it signs for."""
    operation = client.meta.service_model.operation_model("GetObject")
    context = {
        "client_region": client.meta.region_name,
        "client_config": client.meta.config,
        "has_streaming_input": False,
        "auth_type": operation.auth_type,
    }
    url, headers = await private.endpoint_of(client, operation, bucket, context)
    signing = context.get("signing") or {}
    check(
        not headers and context["auth_type"] in (None, "none", "v4"),
        "its requests are signed otherwise",
    )
    check(signing.get("signing_name", "s3") == "s3", "its requests are signed otherwise")
    return url.rstrip("/"), signing.get("region") or client.meta.region_name or "us-east-1"


def s3_credentials(client: Any) -> Credentials | None:
    """None for requests that are not signed."""
    from botocore import UNSIGNED

    version = client.meta.config.signature_version
    if version is UNSIGNED:
        return None
    check(version in (None, "v4", "s3v4"), f"signature_version is {version!r}")
    found = private.credentials(client)
    check(found is not None, "there are no credentials")

    async def ask() -> dict[str, Any]:
        frozen = await found.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": in_time(),
        }

    return ask


# --- GCS


async def gcs_native(connection: Connection, tokens: Tokens, bucket: str, retry: Retry) -> Any:
    """Raises UnfitError."""
    from obstore.store import GCSStore

    fs = connection.fs
    await private.open_session(fs)
    check(not fs.session_kwargs and not private.uses_mtls(fs), "session_kwargs or mTLS are set")
    params = private.request_params(fs, {})
    headers = await tokens.headers()
    signed = headers.pop("Authorization", headers.pop("authorization", None)) is not None
    if "userProject" in params:
        headers["x-goog-user-project"] = params.pop("userProject")
    check(not params, f"{sorted(params)} go with each request")

    async def ask() -> dict[str, Any]:
        fresh = await tokens.headers()
        header = fresh.get("Authorization") or fresh.get("authorization") or ""
        return {"token": header.removeprefix("Bearer "), "expires_at": in_time()}

    settings = {"base_url": private.location(fs)}
    options = {**timeouts(retry, CONNECT_S, retry.timeout), "default_headers": headers}
    given = waiting(ask if signed else None, connection, retry)
    return made(GCSStore, bucket, settings, options, given)


# --- Azure


async def azure_native(connection: Connection, container: str, retry: Retry) -> Any:
    """Raises UnfitError."""
    from obstore.store import AzureStore

    service = connection.fs.service_client
    check(not private.proxies(service), "a proxy is set")
    check(service.account_name is not None, "its endpoint does not name the account")
    url = urlsplit(service.get_container_client(container).url)
    folder = url.path.rpartition("/")[0]
    settings = {
        "endpoint": urlunsplit((url.scheme, url.netloc, folder, "", "")),
        "account_name": service.account_name,
        "use_emulator": False,
    }
    ask = waiting(azure_credentials(service.credential, url.query), connection, retry)
    options = timeouts(retry, CONNECT_S, retry.timeout)
    return made(AzureStore, container, settings, options, ask)


def azure_credentials(credential: Any, query: str) -> Credentials | None:
    """Find the SDK's kind of credential, or a signed URL's query. None for an anonymous client."""
    if credential is None and not query:
        return None

    async def ask() -> dict[str, Any]:
        if credential is None:
            return {"sas_token": query, "expires_at": None}
        if hasattr(credential, "get_token"):
            found = await credential.get_token(AZURE_SCOPE)
            when = datetime.fromtimestamp(found.expires_on, timezone.utc)
            return {"token": found.token, "expires_at": when}
        if hasattr(credential, "signature"):
            return {"sas_token": credential.signature.lstrip("?"), "expires_at": None}
        return {"access_key": credential.account_key, "expires_at": None}

    known = ("get_token", "signature", "account_key")
    check(credential is None or any(hasattr(credential, name) for name in known),
          f"{type(credential).__name__} is a credential that obstore does not know")  # fmt: skip
    return ask

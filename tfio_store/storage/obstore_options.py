"""fsspec's storage options in obstore's words."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from tfio_store.storage.obstore_credentials import aws_session
from tfio_store.storage.retry import Retry

__all__ = ["native_store"]

S3_NAMES = {
    "key": "access_key_id", "secret": "secret_access_key", "token": "session_token",
    "username": "access_key_id", "password": "secret_access_key",
    "anon": "skip_signature", "endpoint_url": "endpoint", "requester_pays": "request_payer",
}  # fmt: skip
S3_CLIENT_NAMES = {
    "aws_access_key_id": "access_key_id", "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token", "endpoint_url": "endpoint", "region_name": "region",
}  # fmt: skip
S3_OBJECT_NAMES = {
    "ServerSideEncryption": "server_side_encryption", "SSEKMSKeyId": "sse_kms_key_id",
    "BucketKeyEnabled": "sse_bucket_key_enabled",
}  # fmt: skip
AZURE_NAMES = {
    "account_name": "account_name", "account_key": "account_key", "sas_token": "sas_key",
    "tenant_id": "tenant_id", "client_id": "client_id", "client_secret": "client_secret",
    "anon": "skip_signature",
}  # fmt: skip
CONNECTION_STRING_NAMES = {
    "AccountName": "account_name", "AccountKey": "account_key", "BlobEndpoint": "endpoint",
    "SharedAccessSignature": "sas_key",
}  # fmt: skip

MEANINGLESS = frozenset(
    {
        "access", "asynchronous", "cache_regions", "cache_timeout", "consistency",
        "default_block_size", "default_cache_type", "default_fill_cache", "listings_expiry_time",
        "loop", "max_concurrency", "project", "skip_instance_cache", "use_listings_cache",
        "use_ssl",
    }
)  # fmt: skip
"""Options of fsspec's classes about things that obstore has no need of."""


def native_store(
    scheme: str, bucket: str, options: Mapping[str, Any], retry: Retry, retries: int
) -> Any:
    """An obstore store of one bucket or container, which itself makes a request 1 + retries times.

    Raises ValueError for an option that has no meaning to obstore.
    """
    from obstore.store import AzureStore, GCSStore, S3Store

    left = {name: value for name, value in options.items() if name not in MEANINGLESS}
    cls: Any  # the three take the same arguments
    credentials = None
    if scheme in ("s3", "s3a"):
        cls, (config, credentials) = S3Store, s3_config(left)
    elif scheme in ("gs", "gcs"):
        cls, config = GCSStore, gcs_config(left)
    else:
        cls, config = AzureStore, azure_config(left)
    if left:
        raise ValueError(
            f"storage_options: {sorted(left)} mean nothing to backend='obstore'; leave them out, "
            "or use backend='fsspec'"
        )
    client = client_options(retry)
    if str(config.get("endpoint", config.get("base_url", ""))).startswith("http://"):
        client["allow_http"] = True
    return cls(
        bucket,
        config=config,
        client_options=client,
        retry_config=retry_config(retry, retries),
        credential_provider=credentials,
    )


def client_options(retry: Retry) -> dict[str, Any]:
    return {
        "connect_timeout": timedelta(seconds=min(retry.timeout, 10)),
        "read_timeout": timedelta(seconds=retry.timeout),
        "timeout": timedelta(days=1),  # for large bodies; `Retry` sees to the rest
    }


def retry_config(retry: Retry, retries: int) -> dict[str, Any]:
    backoff = {
        "init_backoff": timedelta(seconds=retry.base_delay),
        "max_backoff": timedelta(seconds=retry.max_delay),
        "base": 2,
    }
    patience = (retries + 1) * (retry.timeout + retry.max_delay)
    return {
        "max_retries": retries,
        "backoff": backoff,
        "retry_timeout": timedelta(seconds=min(patience, 280)),
    }


def take(left: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Move what ``names`` knows out of ``left``; values of None say nothing."""
    found = {names[name]: left.pop(name) for name in list(left) if name in names}
    return {name: value for name, value in found.items() if value is not None}


def s3_config(left: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The configuration, and who provides credentials where it names none."""
    client = dict(left.pop("client_kwargs", None) or {})
    config = {**take(client, S3_CLIENT_NAMES), **take(left, S3_NAMES)}
    profile, credentials, region = left.pop("profile", None), None, None
    if "access_key_id" not in config and not config.get("skip_signature"):
        credentials, region = aws_session(profile)
    config.setdefault("region", region or os.environ.get("AWS_REGION") or "us-east-1")
    extra = dict(left.pop("s3_additional_kwargs", None) or {})
    config.update(take(extra, S3_OBJECT_NAMES))
    botocore = dict(left.pop("config_kwargs", None) or {})
    if (botocore.pop("s3", None) or {}).get("addressing_style") == "virtual":
        config["virtual_hosted_style_request"] = True
    for name, rest in (("client_kwargs", client), ("s3_additional_kwargs", extra)):
        if rest:
            left[name] = rest
    return config, credentials


def gcs_config(left: dict[str, Any]) -> dict[str, Any]:
    config = take(left, {"endpoint_url": "base_url"})
    token = left.pop("token", None)
    if token == "anon":
        config["skip_signature"] = True
    elif isinstance(token, Mapping):
        config["service_account_key"] = json.dumps(dict(token))
    elif isinstance(token, str) and token != "google_default":
        config["application_credentials"] = token
    elif token is not None and token != "google_default":
        left["token"] = token
    return config


def azure_config(left: dict[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = {}
    text = left.pop("connection_string", None)
    if text:
        pairs = (pair.partition("=") for pair in text.split(";") if pair)
        config.update(take({key: value for key, _, value in pairs}, CONNECTION_STRING_NAMES))
    host = left.pop("account_host", None)
    if host:
        config["endpoint"] = f"https://{host}"
    return {**config, **take(left, AZURE_NAMES)}

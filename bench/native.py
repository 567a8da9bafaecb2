"""obstore's own client of the benchmarks' bucket: what there is to reach."""

from __future__ import annotations

from typing import Any


def native_store(endpoint: str, key: str, secret: str) -> Any:
    from obstore.store import S3Store

    return S3Store(
        "bench",
        endpoint=endpoint,
        access_key_id=key,
        secret_access_key=secret,
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )

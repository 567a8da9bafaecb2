"""fsspec's storage options in obstore's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place

pytest.importorskip("obstore")

from tfio_store.storage.obstore_options import native_store
from tfio_store.storage.retry import Retry


def config_of(scheme: str, **options: Any) -> dict[str, Any]:
    return dict(native_store(scheme, "bucket", options, Retry(), 0).config)


def test_s3_options() -> None:
    config = config_of(
        "s3",
        key="k",
        secret="s",
        token="t",
        client_kwargs={"endpoint_url": "http://127.0.0.1:1", "region_name": "eu-west-1"},
        config_kwargs={"s3": {"addressing_style": "virtual"}},
        s3_additional_kwargs={"ServerSideEncryption": "AES256"},
        use_listings_cache=False,
    )
    wanted = {
        "access_key_id": "k", "secret_access_key": "s", "session_token": "t",
        "endpoint": "http://127.0.0.1:1", "region": "eu-west-1",
        "virtual_hosted_style_request": True, "server_side_encryption": "AES256",
    }  # fmt: skip
    found = {name.removeprefix("aws_"): value for name, value in config.items()}
    texts = {name: str(value).lower() for name, value in wanted.items()}
    assert {name: str(found.get(name)).lower() for name in wanted} == texts


def test_anonymous_s3() -> None:
    assert any("skip_signature" in name for name in config_of("s3", anon=True))


def test_a_connection_string() -> None:
    text = "AccountName=me;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/me;"
    found = {
        name.removeprefix("azure_").removeprefix("storage_"): value
        for name, value in config_of("az", connection_string=text).items()
    }
    assert found["account_name"] == "me"
    assert found["account_key"] == "a2V5"
    assert found["endpoint"] == "http://127.0.0.1:1/me"


def test_a_service_account() -> None:
    account = {"gcs_base_url": "http://127.0.0.1:1", "disable_oauth": True,
               "client_email": "", "private_key": "", "private_key_id": ""}  # fmt: skip
    found = config_of("gs", token=account, project="p")
    assert json.loads(next(v for k, v in found.items() if "service_account_key" in k)) == account


@pytest.mark.parametrize(
    ("scheme", "options"),
    [
        ("s3", {"client_kwargs": {"fancy": 1}, "key": "k", "secret": "s"}),
        ("gs", {"token": object()}),
        ("az", {"account_name": "a", "credential": object()}),
    ],
)
def test_what_has_no_meaning_is_named(scheme: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="mean nothing to backend='obstore'"):
        config_of(scheme, **options)


def test_a_profile(s3: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text(f"[work]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    options = {"endpoint_url": s3.endpoint, "profile": "work"}
    store, path = Place(s3.root, options, s3.endpoint, "obstore").open("x")
    store.put(path, b"abc")
    assert s3.get("x") == b"abc"

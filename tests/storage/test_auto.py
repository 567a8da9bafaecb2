"""The default: obstore where it is installed, with the credentials that botocore finds."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place
from tfio_store.storage import Retry, open_store, resolve
from tfio_store.storage.cloud.s3 import S3Store
from tfio_store.storage.local import LocalStore

DATA = bytes(range(256))


@pytest.fixture(autouse=True)
def undecided() -> Iterator[None]:
    """As in a process that has opened nothing yet."""
    resolve.takes_obstore.cache_clear()
    yield
    resolve.takes_obstore.cache_clear()


@pytest.fixture(params=[True, False], ids=["with obstore", "without"])
def installed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    if request.param:
        pytest.importorskip("obstore")
    else:
        monkeypatch.setitem(sys.modules, "obstore", None)
    return bool(request.param)


def test_obstore_reads_where_it_is_installed(
    s3: Place, installed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    s3.put("x", DATA)
    with caplog.at_level(logging.INFO, logger="tfio_store"):
        for _ in range(3):
            store, path = open_store(s3.url("x"), s3.storage_options)
    assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    assert isinstance(store, S3Store)
    assert store.client_of(path) == ("obstore" if installed else "fsspec")
    (told,) = [each.getMessage() for each in caplog.records if "is read by" in each.getMessage()]
    assert ("by obstore" in told) is installed
    assert ("by fsspec, since obstore is missing" in told) is not installed


def test_other_schemes_are_as_ever(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="tfio_store"):
        assert type(open_store(tmp_path)[0]) is LocalStore
        assert open_store("memory://x")[0] is open_store("memory://x", backend="fsspec")[0]
    assert caplog.records == []


CHAIN = {
    "environment": "env",
    "profile": "config-file",
    "process": "custom-process",
    "role": "assume-role",
}
"""Sources of credentials, and what botocore calls them."""


@pytest.mark.parametrize("source", CHAIN)
def test_credentials_are_those_of_botocores_chain(
    s3: Place, installed: bool, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process stands for all that is asked again when it expires, as SSO and machines' roles. A
    role that is assumed asks the server for its credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", s3.endpoint)
    keys = f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    answer = {"Version": 1, "AccessKeyId": KEY, "SecretAccessKey": SECRET, "SessionToken": "t"}
    (tmp_path / "answer").write_text(json.dumps(answer | {"Expiration": "2099-01-01T00:00:00Z"}))
    role = "role_arn = arn:aws:iam::123456789012:role/reader\nsource_profile = base\n"
    (tmp_path / "config").write_text(
        f"[profile process]\ncredential_process = cat {tmp_path}/answer\n"
        f"[profile profile]\n{keys}[profile base]\n{keys}"
        f"[profile role]\nregion = us-east-1\n{role}"
    )
    options = {"endpoint_url": s3.endpoint, "profile": source}
    if source == "environment":
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        del options["profile"]
    s3.put("x", DATA)
    # options of its own, so that no store of an earlier test is shared
    store, path = open_store(
        s3.url("x"),
        {**options, "max_paths": hash(tmp_path) % 1000 + 1},
        retry=Retry(attempts=2),
    )
    assert bytes(store.read(path, 0, 256).result()) == DATA
    assert isinstance(store, S3Store)
    found = store._client.connection.fs._s3._request_signer._credentials
    assert found.method == CHAIN[source]
    if installed:
        assert store.client_of(path) == "obstore"

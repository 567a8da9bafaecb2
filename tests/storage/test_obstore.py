"""obstore means by the same settings what fsspec means; what it can't mean goes through fsspec."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place
from tests.servers.web import Handler, served
from tfio_store.storage import Retry, open_store
from tfio_store.storage.cloud.obstore_native import azure_credentials, trust

obstore = pytest.importorskip("obstore")

CREDENTIALS = {"key": KEY, "secret": SECRET}
DATA = bytes(range(256))
VIRTUAL = {"s3": {"addressing_style": "virtual"}}


def opened(url: str, options: dict[str, Any], **more: Any) -> tuple[Any, str]:
    return open_store(url, options, backend="obstore", **more)


def native(store: Any, bucket: str) -> Any:
    """obstore's own store of the bucket, None where fsspec reads it."""
    return store._native(bucket)


def config_of(made: Any) -> dict[str, Any]:
    kinds = ("aws_", "azure_", "storage_", "google_")
    found = {}
    for name, value in made.config.items():
        for kind in kinds:
            name = name.removeprefix(kind)
        found[name] = str(value)
    return found


def botocore_url(store: Any, bucket: str, key: str) -> str:
    """Where botocore would send a request, found out without sending it."""
    from aiobotocore.awsrequest import AioAWSResponse

    seen: list[str] = []

    def stop(request: Any, **kwargs: Any) -> Any:
        seen.append(request.url)
        return AioAWSResponse(request.url, 500, {}, None)

    async def ask() -> None:
        fs = store._connection.fs
        await fs.set_session()
        client = await fs.get_s3(bucket)
        client.meta.events.register_first("before-send.s3.GetObject", stop)
        with contextlib.suppress(Exception):
            await client.get_object(Bucket=bucket, Key=key)
        client.meta.events.unregister("before-send.s3.GetObject", stop)

    store._connection.wait(ask())
    return unquote(seen[0])


# --- where S3 requests go


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="Amazon"),
        pytest.param({"use_ssl": False}, id="without TLS"),
        pytest.param({"client_kwargs": {"region_name": "eu-west-1"}}, id="region"),
        pytest.param({"config_kwargs": {"region_name": "eu-west-3"}}, id="region in config_kwargs"),
        pytest.param({"endpoint_url": "http://localhost:9000"}, id="endpoint"),
        pytest.param({"endpoint_url": "http://localhost:9000/folder/"}, id="endpoint with folder"),
        pytest.param({"client_kwargs": {"endpoint_url": "https://s.test"}}, id="client_kwargs"),
        pytest.param({"endpoint_url": "http://s.test", "config_kwargs": VIRTUAL}, id="virtual"),
        pytest.param({"config_kwargs": {"s3": {"addressing_style": "path"}}}, id="path addressing"),
        pytest.param({"config_kwargs": {"s3": {"use_accelerate_endpoint": True}}}, id="accelerate"),
        pytest.param({"config_kwargs": {"use_dualstack_endpoint": True}}, id="dual stack"),
        pytest.param({"config_kwargs": {"use_fips_endpoint": True}}, id="FIPS"),
    ],
)
@pytest.mark.parametrize("bucket", ["bucket", "dotted.bucket"])
def test_requests_go_where_botocore_sends_them(options: dict[str, Any], bucket: str) -> None:
    if "." in bucket and "use_accelerate_endpoint" in str(options):
        pytest.skip("not to be had for such names")
    store, _ = opened(f"s3://{bucket}/x", {**CREDENTIALS, **options})
    found = config_of(native(store, bucket))
    assert f"{found['endpoint']}/folder/a b" == botocore_url(store, bucket, "folder/a b")
    assert found["endpoint_url_s3"] == found["endpoint"]


def read_by_obstore(s3: Place, options: dict[str, Any]) -> None:
    s3.put("x", DATA)
    store, path = opened(s3.url("x"), options, retry=Retry(attempts=2))
    assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    assert native(store, path.partition("/")[0]) is not None


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment with credentials, and nothing that says where the server is."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return monkeypatch


def test_an_endpoint_in_the_config_file(s3: Place, bare: Any, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(f"[default]\nendpoint_url = {s3.endpoint}\n")
    read_by_obstore(s3, {"use_listings_cache": False})


def test_an_endpoint_of_a_profile(s3: Place, bare: Any, tmp_path: Path) -> None:
    text = f"[profile work]\nendpoint_url = {s3.endpoint}\n"
    text += f"aws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n"
    (tmp_path / "config").write_text(text)
    read_by_obstore(s3, {"profile": "work"})


def test_an_endpoint_of_a_service_section(s3: Place, bare: Any, tmp_path: Path) -> None:
    text = f"[default]\nservices = here\n[services here]\ns3 =\n  endpoint_url = {s3.endpoint}\n"
    (tmp_path / "config").write_text(text)
    read_by_obstore(s3, {"use_listings_cache": True})


@pytest.mark.parametrize("name", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_an_http_endpoint_in_the_environment(s3: Place, bare: Any, name: str) -> None:
    bare.setenv(name, s3.endpoint)
    read_by_obstore(s3, {"max_paths": 10})


def test_an_option_goes_before_the_environment(s3: Place, bare: Any) -> None:
    bare.setenv("AWS_ENDPOINT_URL", "https://elsewhere.test")
    bare.setenv("AWS_ENDPOINT_URL_S3", "https://elsewhere.test")
    bare.setenv("AWS_SKIP_SIGNATURE", "true")
    bare.setenv("AWS_S3_EXPRESS", "true")
    read_by_obstore(s3, s3.storage_options)


def test_fsspec_settings(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """FSSPEC_S3_ENDPOINT_URL and FSSPEC_S3_KEY, as fsspec takes them in when it is imported."""
    import fsspec.config

    named = {"FSSPEC_S3_ENDPOINT_URL": s3.endpoint, "FSSPEC_S3_KEY": "k", "FSSPEC_S3_SECRET": "s"}
    found: dict[str, Any] = {}
    fsspec.config.set_conf_env(found, named)
    monkeypatch.setitem(fsspec.config.conf, "s3", found["s3"])
    read_by_obstore(s3, {"default_block_size": 1 << 20})
    store, path = opened(s3.url("x"), {"default_block_size": 1 << 20}, retry=Retry(attempts=2))
    store.info(path)
    client = store._connection.fs._s3
    assert client._request_signer._credentials.access_key == "k"


def test_anonymous_s3() -> None:
    store, _ = opened("s3://bucket/x", {"anon": True})
    assert config_of(native(store, "bucket"))["skip_signature"].lower() == "true"


def test_certificates_that_botocore_trusts(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"the certificates")
    assert trust(str(bundle)) == {"root_certificate": b"the certificates"}
    assert trust(False) == {"allow_invalid_certificates": True}
    assert trust(True) == trust(None) == {"allow_invalid_certificates": False}


# --- what goes through fsspec


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"config_kwargs": {"proxies": {"https": "http://127.0.0.1:1"}}}, "a proxy"),
        ({"config_kwargs": {"signature_version": "s3"}}, "signature_version"),
        ({"s3_additional_kwargs": {"ExpectedBucketOwner": "1"}}, "ExpectedBucketOwner"),
    ],
)
def test_what_cannot_be_passed_on_goes_through_fsspec(
    s3: Place, options: dict[str, Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    s3.put("x", DATA)
    store, path = opened(s3.url("x"), {**s3.storage_options, **options})
    with caplog.at_level(logging.WARNING, "tfio_store"):
        assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    assert native(store, path.partition("/")[0]) is None
    assert reason in caplog.text
    assert "through fsspec" in caplog.text


@pytest.mark.parametrize("key", ["/k", "a//b", "a/./b", "a/../b", "tab\tname", "//"])
def test_keys_that_obstore_folds_or_refuses(s3: Place, key: str) -> None:
    bucket = s3.open()[1]

    async def put(client: Any, name: str, data: bytes) -> None:
        await client.call("put_object", Bucket=bucket, Key=name, Body=data)

    store, _ = opened(s3.url("x"), s3.storage_options)
    for name, data in (("k", b"no"), (key.strip("/") or "x", b"nor this"), (key, b"this one")):
        store._connection.wait(put(store._client, name, data))
    assert bytes(store.read(f"{bucket}/{key}", 0, 100).result()) == b"this one"


def test_a_url_keeps_its_slashes(s3: Place) -> None:
    for backend in ("fsspec", "obstore"):
        place = dataclasses.replace(s3, backend=backend)
        assert place.open("/k")[1].endswith("//k")
        assert place.open("a//k")[1].endswith("/a//k")


@pytest.mark.parametrize(
    ("text", "reads", "times"),
    [
        # as in a bucket of another region, which botocore finds: where it is was asked anew once
        ("Received redirect without LOCATION", 4, 2),
        ("Generic S3 error: HTTP error: builder error", 1, 1),
    ],
)
def test_a_refused_request_is_decided_by_fsspec(
    s3: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    text: str,
    reads: int,
    times: int,
) -> None:
    s3.put("x", DATA)
    store, path = opened(s3.url("x"), s3.storage_options)
    asked = []

    def refuse(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        raise obstore.exceptions.GenericError(text)

    monkeypatch.setattr(obstore, "get", refuse)
    for _ in range(reads):
        assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    assert len(asked) == times
    assert reads == 1 or text in caplog.text


def test_many_refusals_at_a_time_are_one(
    s3: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says once that the bucket is left to fsspec, and not after the first refusal."""
    s3.put("x", DATA)
    store, path = opened(s3.url("x"), s3.storage_options)
    together = threading.Barrier(30)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait(1)  # until all others of this round have asked
        raise obstore.exceptions.GenericError("Received redirect without LOCATION")

    monkeypatch.setattr(obstore, "get", refuse)
    for rounds in range(1, 4):
        reads = [store.read(path, at, at + 9) for at in range(30)]
        assert [bytes(read.result()) for read in reads] == [DATA[at : at + 9] for at in range(30)]
        said = caplog.text.count("from now on")
        assert said == (rounds > 1)


# --- failures


def test_failures_carry_errno_and_url(s3: Place) -> None:
    options = {**s3.storage_options, "endpoint_url": "http://127.0.0.1:9"}
    store, path = opened(s3.url("x"), options, retry=Retry(attempts=2, base_delay=0))
    with pytest.raises(ConnectionError) as raised:
        store.read(path, 0, 10).result()
    assert (raised.value.errno, raised.value.filename) == (errno.ECONNREFUSED, s3.url("x"))


# --- GCS, whose XML interface the emulator does not have, and Azure


@pytest.fixture
def xml_server() -> Iterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """An endpoint that answers any GET with a range of DATA, and what it was asked."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Ranges(Handler):
        def answer(self, *, head: bool) -> None:
            asked.append((self.path, {name.lower(): text for name, text in self.headers.items()}))
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))
            body = DATA[first : last + 1]
            headers = {
                "Content-Range": f"bytes {first}-{first + len(body) - 1}/{len(DATA)}",
                "ETag": '"0x1"',
                "x-goog-generation": "17",
                "Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT",
            }
            self.send(206, body, headers, head=head)

    with served(Ranges) as endpoint:
        yield endpoint, asked


@pytest.mark.parametrize("anonymous", [True, False])
def test_gcs_is_asked_where_and_as_gcsfs_would(xml_server: Any, anonymous: bool) -> None:
    from google.oauth2.credentials import Credentials

    endpoint, asked = xml_server
    token = "anon" if anonymous else Credentials("the-token")
    options = {"endpoint_url": endpoint, "token": token, "project": "p", "requester_pays": "payer"}
    store, path = opened("gs://bucket/folder/x", options, retry=Retry(attempts=1))
    assert bytes(store.read(path, 3, 9, etag="17").result()) == DATA[3:9]
    where, headers = asked[0]
    assert unquote(where) == "/bucket/folder/x"
    assert headers["x-goog-user-project"] == "payer"
    assert headers.get("authorization") == (None if anonymous else "Bearer the-token")


def test_gcs_settings_of_fsspec_and_the_environment(
    xml_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint, asked = xml_server
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", endpoint)
    monkeypatch.setenv("GOOGLE_BASE_URL", "https://elsewhere.test")
    store, path = opened("gs://bucket/x", {"token": "anon", "timeout": 9}, retry=Retry(attempts=1))
    assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    assert len(asked) == 1


KEY64 = "a2V5"


@pytest.mark.parametrize(
    ("options", "endpoint"),
    [
        (
            {"connection_string": f"AccountName=me;AccountKey={KEY64};EndpointSuffix=core.test"},
            "https://me.blob.core.test",
        ),
        (
            {"connection_string": f"AccountName=me;AccountKey={KEY64};"
             "BlobEndpoint=http://127.0.0.1:1/me;"},
            "http://127.0.0.1:1/me",
        ),
        (
            {"account_name": "me", "account_key": KEY64, "account_host": "me.blob.core.test"},
            "https://me.blob.core.test",
        ),
        ({"account_name": "me", "account_key": KEY64}, "https://me.blob.core.windows.net"),
    ],
)  # fmt: skip
def test_azure_requests_go_where_the_sdk_sends_them(
    options: dict[str, Any], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_USE_EMULATOR", "true")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", "https://elsewhere.test")
    store, _ = opened("az://box/x", options)
    found = config_of(native(store, "box"))
    assert (found["endpoint"], found["account_name"]) == (endpoint, "me")
    assert store._connection.fs.service_client.get_container_client("box").url.startswith(endpoint)


def test_a_shared_access_signature(xml_server: Any) -> None:
    endpoint, asked = xml_server
    text = f"AccountName=me;BlobEndpoint={endpoint}/me;SharedAccessSignature=sv=1&sig=abc"
    store, path = opened("az://box/x", {"connection_string": text}, retry=Retry(attempts=1))
    assert bytes(store.read(path, 3, 9).result()) == DATA[3:9]
    where, headers = asked[0]
    assert where.startswith("/me/box/x?")
    assert "sig=abc" in where
    assert "authorization" not in headers


def test_an_azure_token() -> None:
    from azure.core.credentials import AccessToken

    class Given:
        async def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
            assert scopes == ("https://storage.azure.com/.default",)
            return AccessToken("the-token", 4_000_000_000)

    store, _ = opened("az://box/x", {"account_name": "me", "credential": Given()})
    assert native(store, "box").config["account_name"] == "me"
    ask = azure_credentials(store._connection.fs.service_client.credential, "")
    assert ask is not None
    given = asyncio.run(ask())  # type: ignore[arg-type, var-annotated]
    assert given["token"] == "the-token"
    assert given["expires_at"].timestamp() == 4_000_000_000


def test_a_cancelled_first_read_leaves_the_store_in_order(s3: Place) -> None:
    s3.put("x", DATA)
    store, path = opened(s3.url("x"), s3.storage_options)
    store.read(path, 0, 10).cancel()
    assert bytes(store.read(path, 0, 10).result()) == DATA[:10]

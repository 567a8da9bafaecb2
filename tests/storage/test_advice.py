"""What a store refuses is told with what to do about it: when it is opened, and while it runs."""

from __future__ import annotations

import dataclasses
import socket
from collections.abc import Iterator
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.faulty import Faulty, azure, faulty, gcs, s3
from tests.servers.lesser_store import Answer, Request
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store.storage import Retry
from tfio_store.storage.answers import advice_on, reason_of

RETRY = Retry(outage=0, timeout=20)
DATA = bytes(range(256))

AUTHENTICATION = (
    "Server failed to authenticate the request. Make sure the value of Authorization header is "
    "formed correctly including the signature."
)
CASES: dict[str, dict[str, tuple[Answer, type[OSError], str]]] = {
    "s3": {
        "expired": (
            s3(400, "ExpiredToken", "The provided token has expired.", "<Token-0>FwoG</Token-0>"),
            OSError, "ExpiredToken.*aws sso login",
        ),
        "unknown key": (
            s3(403, "InvalidAccessKeyId",
               "The AWS Access Key Id you provided does not exist in our records."),
            PermissionError, "InvalidAccessKeyId.*check them, and that endpoint_url",
        ),
        "wrong secret": (
            s3(403, "SignatureDoesNotMatch", "The request signature we calculated does not match "
               "the signature you provided. Check your key and signing method."),
            PermissionError, "SignatureDoesNotMatch.*check them, and that endpoint_url",
        ),
        "clock": (
            s3(403, "RequestTimeTooSkewed", "The difference between the request time and the "
               "current time is too large."),
            PermissionError, "clock is wrong",
        ),
        "no permission": (
            s3(403, "AccessDenied", "User: arn:aws:iam::123456789012:user/me is not authorized to "
               "perform: s3:GetObject on resource: &quot;arn:aws:s3:::b/x&quot;"),
            PermissionError, "s3:GetObject.*ask for the action that is named",
        ),
        # S3 has no words of its own for this
        "requester pays": (
            s3(403, "AccessDenied", "Access Denied"), PermissionError, "requester_pays=True",
        ),
        "region by a redirect": (
            s3(301, "PermanentRedirect", "The bucket you are attempting to access must be "
               "addressed using the specified endpoint. Please send all future requests to this "
               "endpoint.",
               "<Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint><Bucket>b</Bucket>",
               x_amz_bucket_region="eu-west-1"),
            OSError, "PermanentRedirect.*AWS_DEFAULT_REGION",
        ),
        "region by the signature": (
            s3(400, "AuthorizationHeaderMalformed", "The authorization header is malformed; the "
               "region 'us-east-1' is wrong; expecting 'eu-west-1'", "<Region>eu-west-1</Region>"),
            OSError, "expecting 'eu-west-1'.*AWS_DEFAULT_REGION",
        ),
        "throttled": (
            s3(503, "SlowDown", "Please reduce your request rate."),
            ConnectionError, "SlowDown.*fewer processes",
        ),
        "down": (
            s3(503, "ServiceUnavailable", "Service is unable to handle request."),
            ConnectionError, r"Retry\(outage=seconds\)",
        ),
    },
    "gcs": {
        "expired": (
            gcs(401, "authError", "Invalid Credentials"), PermissionError,
            "Invalid Credentials.*gcloud auth application-default login.*service account",
        ),
        "anonymous": (
            gcs(401, "required", "Anonymous caller does not have storage.objects.get access to the "
                "Google Cloud Storage object. Permission 'storage.objects.get' denied on resource "
                "(or it may not exist)."),
            PermissionError, "Run `gcloud auth application-default login`.*reads public data only",
        ),
        "no permission": (
            gcs(403, "forbidden", "me@p.iam.gserviceaccount.com does not have storage.objects.get "
                "access to the Google Cloud Storage object. Permission 'storage.objects.get' "
                "denied on resource (or it may not exist)."),
            PermissionError, "storage.objects.get.*Storage Object Viewer",
        ),
        "requester pays": (
            gcs(400, "required", "Bucket is a requester pays bucket but no user project provided."),
            OSError, "requester_pays='PROJECT'",
        ),
        "throttled": (
            gcs(429, "rateLimitExceeded", "The object b/x exceeded the rate limit for object "
                "mutation operations. Please reduce your request rate."),
            ConnectionError, "fewer processes",
        ),
        "down": (
            gcs(503, "backendError", "We encountered an internal error. Please try again."),
            ConnectionError, r"Retry\(outage=seconds\)",
        ),
    },
    "azure": {
        "expired signature": (
            azure(403, "AuthenticationFailed", AUTHENTICATION, "Signature not valid in the "
                  "specified time frame: Start [1] - Expiry [2] - Current [3]"),
            PermissionError, "Expiry .2.*sign a new SAS",
        ),
        "expired token": (
            azure(401, "InvalidAuthenticationInfo", "Server failed to authenticate the request. "
                  "Please refer to the information in the www-authenticate header.",
                  "Lifetime validation failed. The token is expired."),
            PermissionError, "The token has expired.*az login",
        ),
        "wrong key": (
            azure(403, "AuthenticationFailed", AUTHENTICATION, "The MAC signature found in the "
                  "HTTP request 'abc' is not the same as any computed signature."),
            PermissionError, "The account key, SAS or login is wrong",
        ),
        "no permission": (
            azure(403, "AuthorizationPermissionMismatch", "This request is not authorized to "
                  "perform this operation using this permission."),
            PermissionError, "Storage Blob Data Reader",
        ),
        "firewall": (
            azure(403, "AuthorizationFailure",
                  "This request is not authorized to perform this operation."),
            PermissionError, "firewall",
        ),
        "anonymous": (
            azure(409, "PublicAccessNotPermitted",
                  "Public access is not permitted on this storage account."),
            OSError, "AZURE_STORAGE_SAS_TOKEN.*anon=true reads public data only",
        ),
        "throttled": (
            azure(503, "ServerBusy", "Operations per second is over the account limit."),
            ConnectionError, "fewer processes",
        ),
        "down": (
            azure(500, "InternalError", "The server encountered an internal error."),
            ConnectionError, r"Retry\(outage=seconds\)",
        ),
    },
}  # fmt: skip


def is_range(request: Request) -> bool:
    return not {"range", "x-ms-range"}.isdisjoint(name.lower() for name in request.headers)


def causes(fault: BaseException) -> Iterator[BaseException]:
    cause = fault.__cause__
    while cause is not None:
        yield cause
        cause = cause.__cause__


def test_each_refusal_has_its_sentence(behind: tuple[str, Place, Faulty]) -> None:
    """The first request to a place, and one after others went well."""
    cloud, place, proxy = behind
    place.put("x", DATA)
    store, path = place.open("x", retry=RETRY)
    assert bytes(store.read(path, 0, 256).result()) == DATA
    for name, (answer, kind, sentence) in CASES[cloud].items():
        proxy.how = lambda _, answer=answer: answer
        fresh, _ = place.open("x", retry=dataclasses.replace(RETRY, base_delay=len(name) / 100))
        for act in (
            lambda: store.read(path, 0, 256).result(),
            lambda: store.get(path),
            lambda fresh=fresh: fresh.read(path, 0, 256).result(),
            lambda fresh=fresh: list(fresh.list(path)),
        ):
            with pytest.raises(kind, match=sentence) as caught:
                act()
            assert type(caught.value) is kind
            assert str(caught.value.filename).startswith(place.root)
            assert next(causes(caught.value), None) is not None
        proxy.how = lambda _: None
    assert bytes(store.read(path, 0, 256).result()) == DATA


def test_a_look_without_a_body_says_why(behind: tuple[str, Place, Faulty]) -> None:
    """An expired token is no more than status 400 to a HEAD of S3, and wrong times no more than 403
    to one of Azure."""
    cloud, place, proxy = behind
    answer, kind, sentence = next(iter(CASES[cloud].values()))
    store, path = place.open("x", retry=RETRY)
    proxy.how = lambda _: answer
    words = "sign a new SAS" if cloud == "azure" else sentence
    with pytest.raises(kind, match=words):
        store.info(path)


def test_a_reader_ends_with_the_sentence(behind: tuple[str, Place, Faulty]) -> None:
    """After all records that came before."""
    cloud, place, proxy = behind
    records = [b"%05d" % i for i in range(12_000)]
    for shard in range(12):
        place.put(f"x-{shard:02}.tfrecord", framed(records[shard * 1000 : (shard + 1) * 1000]))
    answer, _, sentence = next(iter(CASES[cloud].values()))
    proxy.how = lambda request: answer if "x-07" in request.path and is_range(request) else None
    reader = tfs.RecordReader(
        [place.url(f"x-{shard:02}.tfrecord") for shard in range(12)],
        storage=place.storage(retry=RETRY),
        memory_budget=1 << 20,
    )
    found: list[bytes] = []

    def read() -> None:
        for record in reader:
            found.append(record)

    with pytest.raises(OSError, match=sentence) as caught:
        read()
    assert found == records[:7000]
    assert "x-07" in str(caught.value.filename)


def test_no_answer_in_time(behind: tuple[str, Place, Faulty]) -> None:
    _, place, proxy = behind
    store, path = place.open("x", retry=Retry(outage=0, timeout=0.5))
    proxy.how = proxy.hang
    for act in (lambda: store.read(path, 0, 256).result(), lambda: store.get(path)):
        with pytest.raises(TimeoutError, match=r"No answer came in time.*Retry\(timeout=seconds"):
            act()


NOWHERE: list[tuple[str, dict[str, Any], str, str]] = [
    (url, options, backend, words)
    for url, options, backends, words in (
        ("s3://bucket/x", {"endpoint_url": "http://{host}", "key": "k", "secret": "s"},
         ("fsspec", "obstore"), "endpoint_url"),
        ("gs://bucket/x", {"endpoint_url": "http://{host}", "token": "anon"},
         ("fsspec", "obstore"), "endpoint_url"),
        ("az://box/x", {"connection_string": "AccountName=me;BlobEndpoint=http://{host}/me"},
         ("fsspec", "obstore"), "the account's name|endpoint_url and its port"),
        ("http://{host}/x", {}, ("fsspec",), "endpoint_url"),
    )
    for backend in backends
]  # fmt: skip


@pytest.mark.parametrize(("url", "options", "backend", "words"), NOWHERE)
@pytest.mark.parametrize(
    ("host", "says"),
    [("127.0.0.1:9", "No server listens there"), ("nowhere.invalid", "No host has that name")],
)
def test_an_address_where_nobody_is(
    url: str,
    options: dict[str, Any],
    backend: str,
    words: str,
    host: str,
    says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if backend == "obstore":
        pytest.importorskip("obstore")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1,localhost,::1,nowhere.invalid")
    given = {name: text.format(host=host) for name, text in options.items()}
    place = Place(url.format(host=host).rpartition("/")[0], given, backend=backend)
    store, path = place.open("x", retry=Retry(refused=0))
    for act in (lambda: store.read(path, 0, 10).result(), lambda: store.info(path)):
        with pytest.raises(ConnectionError, match=f"{says}.*({words})") as caught:
            act()
        assert caught.value.filename == store.url(path)
        assert next(causes(caught.value), None) is not None


def test_no_sentence_where_there_is_nothing_to_say(s3: Place) -> None:
    store, path = s3.open("missing")
    with pytest.raises(FileNotFoundError) as caught:
        store.read(path, 0, 10).result()
    assert "." not in str(caught.value.strerror)
    assert advice_on([ValueError("AccessDenied")], "file:///x") is None
    assert advice_on([socket.gaierror(-2, "x")], "sftp://host/x") is not None


@pytest.mark.parametrize(
    ("why", "url", "advice"),
    [
        ("unable to get local issuer certificate", "s3://b/x", "AWS_CA_BUNDLE"),
        ("self-signed certificate in certificate chain", "gs://b/x", "SSL_CERT_FILE"),
        ("Hostname mismatch, certificate is not valid for 'b'", "s3://b/x", "another host or time"),
        ("certificate has expired", "https://host/x", "another host or time"),
    ],
)
def test_a_certificate_that_does_not_hold(why: str, url: str, advice: str) -> None:
    fault = OSError(f"[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {why}")
    assert advice in str(advice_on([fault], url))


def test_an_answer_of_blank_lines_is_soon_read() -> None:
    """Not in a time that grows with the square of their number: that would be hours."""
    fault = StatusOfAzure("\n" * 1_000_000 + "AuthenticationErrorDetail: x" + "\n" * 1_000_000)
    assert reason_of(fault) == "AuthenticationErrorDetail: x x"


class StatusOfAzure(Exception):
    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


REFUSED = s3(403, "AccessDenied", "Access Denied")


@pytest.mark.parametrize("key", ["empty", "missing"])
def test_what_a_get_answers_is_no_reason_of_a_head(s3: Place, key: str) -> None:
    """It may be allowed, and meet a range that is not there, or no object."""
    s3.put("empty", b"")
    with faulty(s3.endpoint) as proxy:
        proxy.how = lambda request: REFUSED if request.method == "HEAD" else None
        store, path = s3.through(proxy.endpoint, "fsspec").open(key, retry=RETRY)
        with pytest.raises(PermissionError):
            store.info(path)

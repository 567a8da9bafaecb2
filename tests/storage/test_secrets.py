"""Nothing that is said of a failure tells a secret: not the error, its chain, logs or warnings."""

from __future__ import annotations

import contextlib
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.web import Handler, served
from tfio_store.cli.entry import main
from tfio_store.storage import Retry, open_store
from tfio_store.storage.redaction import ClientError, redacted, without_secrets

SECRETS = ("S3CR3T", "pa/SS", "pa%2FSS", "czNjcjN0")
ONCE = Retry(attempts=2, base_delay=0, timeout=5, refused=0)
ACCOUNT_KEY = "czNjcjN0"


def chain(fault: BaseException | None) -> Iterator[BaseException]:
    """Whatever hangs on ``fault``, shown in a traceback or not."""
    seen: set[int] = set()
    left = [fault]
    while left:
        one = left.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            left += [one.__cause__, one.__context__]


def said_of(action: Callable[[], object], caplog: pytest.LogCaptureFixture) -> str:
    """Everything that is said when ``action`` fails."""
    with warnings.catch_warnings(record=True) as warned, caplog.at_level(1, "tfio_store"):
        warnings.simplefilter("always")
        with pytest.raises(Exception) as raised:  # noqa: PT011
            action()
    texts = [caplog.text, *(str(one.message) for one in warned)]
    texts += traceback.format_exception(raised.value)
    for one in chain(raised.value):
        texts += [str(one), repr(one), repr(one.args), str(getattr(one, "filename", ""))]
    return "\n".join(texts)


@contextlib.contextmanager
def server(status: int, headers: dict[str, str], body: bytes = b"") -> Iterator[str]:
    """host:port of a server that answers everything alike; ``{self}`` in headers is its URL."""

    class Alike(Handler):
        def relay(self) -> None:
            if "Expect" in self.headers:  # as uploads to S3 do before they send
                self.handle_expect_100()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.close_connection = True
            closing = {**headers, "Connection": "close"}
            self.send(status, body, closing, head=self.command == "HEAD")

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay  # noqa: N815

    with served(Alike) as endpoint:
        yield endpoint.removeprefix("http://")


ANSWERS = [(403, {}), (404, {}), (503, {}), (302, {"Location": "/x?sig=S3CR3T"}), (200, {})]


def at(kind: str, host: str) -> tuple[str, dict[str, Any], str]:
    """A URL at the server, options with secrets, and the backend."""
    service, _, backend = kind.partition("+")
    if service == "s3":
        options = {"endpoint_url": f"http://{host}", "key": "k", "secret": "S3CR3T",
                   "token": "S3CR3T"}  # fmt: skip
        return "s3://bucket/folder/x", options, backend or "fsspec"
    if service == "az":
        text = f"BlobEndpoint=http://{host}/me;SharedAccessSignature=sv=1&sig=S3CR3T"
        return "az://box/folder/x", {"connection_string": text}, backend or "fsspec"
    if service == "gs":
        from google.oauth2.credentials import Credentials

        options = {"endpoint_url": f"http://{host}", "token": Credentials("S3CR3T-token")}  # type: ignore[dict-item]
        return "gs://bucket/folder/x", options, backend or "fsspec"
    user = "user:pa%2FSS@" if service == "http-user" else ""
    return f"http://{user}{host}/folder/x?X-Amz-Signature=S3CR3T", {}, "fsspec"


ACTIONS = {
    "info": lambda store, path: store.info(path),
    "get": lambda store, path: store.get(path),
    "read": lambda store, path: store.read(path, 0, 100).result(),
    "list": lambda store, path: [*store.list(path), store.info(path)],
    "put": lambda store, path: [store.put(path, b"x", if_absent=True), store.info(path)],
}


KINDS = ["s3", "s3+obstore", "az", "az+obstore", "gs", "gs+obstore", "http", "http-user"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("status", "headers"), ANSWERS)
def test_an_answer_that_is_no_success(
    kind: str, status: int, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    if kind.endswith("obstore"):
        pytest.importorskip("obstore")
    body = b"<Error>no</Error>" if status != 200 else b"?"
    with server(status, headers, body) as host:
        url, options, backend = at(kind, host)
        store, path = open_store(url, options, retry=ONCE, backend=backend)
        for action in ACTIONS.values():

            def act(action: Any = action) -> None:
                action(store, path)
                raise ValueError("nothing failed")

            said = said_of(act, caplog)
            assert not [secret for secret in SECRETS if secret in said], said


@pytest.mark.parametrize("kind", KINDS)
def test_a_connection_that_is_refused(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    if kind.endswith("obstore"):
        pytest.importorskip("obstore")
    url, options, backend = at(kind, "127.0.0.1:9")
    store, path = open_store(url, options, retry=ONCE, backend=backend)
    for action in ACTIONS.values():
        said = said_of(lambda action=action: action(store, path), caplog)
        assert not [secret for secret in SECRETS if secret in said], said


@pytest.mark.parametrize("password", ["S3CR3T", "pa/SS", "p@S3CR3T"])
def test_an_endpoint_with_a_password_that_is_no_url(
    password: str, caplog: pytest.LogCaptureFixture
) -> None:
    """botocore's EndpointResolutionError and its kin quote the endpoint."""
    options = {"endpoint_url": f"http://user:{password}@[bad", "key": "k", "secret": "S3CR3T"}
    for backend in ("fsspec", "obstore"):

        def act(backend: str = backend) -> None:
            store, path = open_store("s3://bucket/x", options, retry=ONCE, backend=backend)
            store.read(path, 0, 10).result()

        said = said_of(act, caplog)
        assert not [secret for secret in SECRETS if secret in said], said


def test_a_pattern_that_nothing_matches(memory: Any, caplog: pytest.LogCaptureFixture) -> None:
    url = memory.url("none-*?sig=S3CR3T")
    said = said_of(lambda: tfs.RecordReader(url), caplog)
    assert SECRETS[0] not in said


@pytest.mark.parametrize("name", ["train?sig=S3CR3T", "_train?X-Amz-Signature=S3CR3T"])
def test_a_datasets_bad_name(memory: Any, name: str, caplog: pytest.LogCaptureFixture) -> None:
    url = memory.url(name)
    said = said_of(lambda: tfs.ShardedWriter(url), caplog)
    assert SECRETS[0] not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://host/x?sig=abc&sv=1", "https://host/x?sig=…&sv=1"),
        ("https://host/x?a=1&X-Amz-Signature=abc#f", "https://host/x?a=1&X-Amz-Signature=…#f"),
        ("ftp://user:pa/ss@host/x", "ftp://host/x"),
        ("ftp://user:p@ss@host/x", "ftp://host/x"),
        ("https://token@host/x", "https://host/x"),
        ("https://host:8080/a@b:c", "https://host:8080/a@b:c"),
        ("abfss://box@account.dfs.core.windows.net/x", "abfss://box@account.dfs.core.windows.net/x"),
        ("A=me;AccountKey=abc==;EndpointSuffix=x", "A=me;AccountKey=…;EndpointSuffix=x"),
        ("{'Authorization': 'Bearer abcdefgh'}", "{'Authorization': 'Bearer …'}"),
        ("s3://bucket/a=1/key=2", "s3://bucket/a=1/key=2"),
        ("https://host/x#access_token=abc&a=1", "https://host/x#access_token=…&a=1"),
        ("https://host/x?code=abc&a=1", "https://host/x?code=…&a=1"),
        ("/webhdfs/v1/x?op=OPEN&delegation=abc", "/webhdfs/v1/x?op=OPEN&delegation=…"),
        ("status code=404 of code=de/x", "status code=404 of code=de/x"),
        ("(https://host/x?token=a,b;c)d), next", "(https://host/x?token=…), next"),
        ("/?to=http%3A//h%3Fsig%3Dabc%26a%3D1&b=2", "/?to=http%3A//h%3Fsig%3D…%26a%3D1&b=2"),
        ("/home/a,http:/bob:abc@host/x", "/home/a,http:/host/x"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_text(text: str, shown: str) -> None:
    assert redacted(text) == shown


LONG = 100_000


@pytest.mark.parametrize(
    "text",
    [
        "?" + "key" * LONG,
        "key" * LONG,
        "?" + "%key" * LONG,
        "%3F" + "sig" * LONG,
        "?key" * LONG,
        "a b;key" * LONG,
        ":/" + ":" * LONG,
        ":/a:" * LONG,
        ":/:1" * LONG,
        "/" * LONG + "=",
        "http:/" * LONG,
        "bearer " * LONG,
        "?sig=" + ";a" * LONG,
    ],
)
def test_a_long_text_takes_a_time_in_proportion(text: str) -> None:
    redacted(f"{text} =")  # else for hours


def test_a_feature_with_a_long_name_is_no_burden(tmp_path: Path) -> None:
    path = str(tmp_path / "records")
    with tfs.TFRecordWriter(path) as writer:
        writer.write(tfs.encode_example({"?" + "key" * 60_000: [1, 2]}))
    assert main(["head", "-c", "nix", path]) != 0  # else for minutes


def test_a_chain_keeps_its_shape_and_tracebacks() -> None:
    def fail() -> None:
        try:
            raise RuntimeError("https://h/x?sig=S3CR3T")
        except RuntimeError as fault:
            raise OSError("harmless") from fault

    with pytest.raises(OSError, match="harmless") as raised:
        fail()
    mended = without_secrets(raised.value)
    assert mended is raised.value
    assert isinstance(mended.__cause__, ClientError)
    assert str(mended.__cause__) == "builtins.RuntimeError: https://h/x?sig=…"
    assert mended.__cause__.__traceback__ is not None


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKID:S3CR3T@bucket/key",
        "s3://AKID:S3CR3T/x@bucket/key",
        "gs://S3CR3T@bucket/key",
        "zip://x::s3://AKID:S3CR3T@bucket/a.zip",
        "zip://x::http://bob:S3CR3T@127.0.0.1:1/a.zip?token=S3CR3T",
        "zip://x::ftp://bob:S3CR3T@127.0.0.1:1/a.zip",
        "ftp://bob:S3CR3T#z@127.0.0.1/a/b",
        "ftp://bob:S3CR3T@[::1/a",
    ],
)
def test_a_url_that_opens_nothing(url: str, caplog: pytest.LogCaptureFixture) -> None:
    said = said_of(lambda: list(tfs.RecordReader(url, storage=tfs.Storage(retry=ONCE))), caplog)
    assert "S3CR3T" not in said
    assert url.partition("://")[0] in said


def test_ftp_names_the_url_where_nobody_answers() -> None:
    with pytest.raises(OSError, match=r"ftp://127\.0\.0\.1:1/a/b") as caught:
        tfs.RecordReader("ftp://bob:S3CR3T@127.0.0.1:1/a/b", storage=tfs.Storage(retry=ONCE))
    assert "S3CR3T" not in str(caught.value)


NOBODY = "127.0.0.1:9"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("gs://box/x", {"token": "S3CR3T"}),  # which gcsfs asks an address of Google's about
        ("gs://box/x", {"token": {"refresh_token": "S3CR3T", "client_secret": "S3CR3T"}}),
        ("simplecache::gs://box/x", {"gs": {"token": "S3CR3T"}}),
        ("dir://x", {"path": "x", "target_protocol": "gs", "target_options": {"token": "S3CR3T"}}),
        ("az://box/x", {"connection_string": "S3CR3T"}),
        (f"webhdfs://{NOBODY}/x", {"token": "S3CR3T"}),
        ("dbfs://x", {"instance": NOBODY, "token": "S3CR3T\n"}),
        ("reference://x", {"fo": f"http://bob:S3CR3T@{NOBODY}/x?code=S3CR3T"}),
        ("zip://x", {"fo": f"http://{NOBODY}/x?code=S3CR3T"}),
        (f"http://{NOBODY}/x", {"client_kwargs": {"auth": ("bob", "S3CR3T")}}),
        (f"http://{NOBODY}/x?code=S3CR3T", {}),
        (f"http://{NOBODY}/x#access_token=S3CR3T", {}),
    ],
)
def test_options_of_a_filesystem_that_cannot_be_made_or_reached(
    url: str,
    options: dict[str, Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import requests

    get = requests.get
    asked = f"http://{NOBODY}/tokeninfo"
    monkeypatch.setattr(requests, "get", lambda _, **more: get(asked, **more))
    for backend in ("fsspec", "obstore"):
        arguments: dict[str, Any] = {"storage_options": options, "retry": ONCE, "backend": backend}
        for act in (tfs.RecordReader, tfs.WriteJob):
            said = said_of(lambda act=act, more=arguments: act(url, **more), caplog)
            assert "S3CR3T" not in said


@pytest.mark.parametrize(
    ("raised", "words", "kind", "said"),
    [
        (ValueError, "no method 'S3CR3T%/x'", ValueError, "no method '…'"),
        (AttributeError, "there is no _connect_S3CR3T%/x", AttributeError, "is no _connect_…"),
        (OSError, "/tokens?given=S3CR3T%25%2Fx", OSError, "given=…"),
        (RuntimeError, "password 'abc' of class abcd", OSError, "'…' of class abcd"),
        (KeyError, "refresh_token", OSError, "refresh_token"),
    ],
)
def test_what_a_filesystem_quotes_of_its_options(
    raised: type[Exception],
    words: str,
    kind: type[Exception],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No pattern knows what these texts hold: only the options tell."""
    options = {"token": "S3CR3T%/x", "inner": {"password": ("abc",)}}
    fault = raised(words)
    if hasattr(fault, "add_note"):  # since Python 3.11
        fault.add_note("asked with S3CR3T%/x")
    url = that_raises(fault)
    told = said_of(lambda: tfs.RecordReader(url, storage_options=options), caplog)
    assert "S3CR3T" not in told
    assert "'abc'" not in told
    with pytest.raises(kind, match=said) as caught:
        tfs.RecordReader(url, storage_options=options)
    assert kind is not OSError or url in str(caught.value)


def test_a_file_of_a_secret_that_is_missing_is_named() -> None:
    missing = FileNotFoundError(2, "No such file", "/home/bob/key.json")
    with pytest.raises(FileNotFoundError, match=r"/home/bob/key\.json"):
        tfs.RecordReader(that_raises(missing), storage_options={"token": "/home/bob/key.json"})


def that_raises(fault: Exception) -> str:
    """A URL whose filesystem can't be made."""
    import fsspec

    class Raising(fsspec.AbstractFileSystem):
        protocol = f"raising{id(fault)}"

        def __init__(self, **options: Any) -> None:
            raise fault

    fsspec.register_implementation(Raising.protocol, Raising)
    return f"{Raising.protocol}://folder/x"

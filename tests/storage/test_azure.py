"""What Azure Blob Storage has of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.azurite import ACCOUNT
from tests.servers.lesser_store import Answer, rewriting_store
from tests.servers.place import Place
from tfio_store.tf.filesystem.folders import folders_of


def blob_of(place: Place, path: str) -> Any:
    from azure.storage.blob import BlobServiceClient

    service = BlobServiceClient.from_connection_string(place.storage_options["connection_string"])
    return service.get_blob_client(*path.split("/", 1))


@pytest.mark.parametrize("length", [16, 32, 48, 52, 64])
def test_blocks_that_another_writer_left_do_not_lock_the_name(azure: Place, length: int) -> None:
    store, path = azure.open("object")
    with blob_of(azure, path) as blob:
        blob.stage_block("f" * length, b"left behind")
    data = bytes(range(256)) * (20 << 10)
    output = store.open_output(path, part_bytes=1 << 20)
    output.write(data)
    output.commit()
    assert azure.get("object") == data


def test_a_backslash_in_a_name_is_refused(azure: Place) -> None:
    """Azure would take it for a slash, and a listing would show another name."""
    store, path = azure.open("a\\b")
    for action in (
        lambda: store.put(path, b"1"),
        lambda: store.open_output(path).commit(),
        lambda: store.info(path),
        lambda: list(store.list(path)),
        lambda: folders_of(store).make(path),
    ):
        with pytest.raises(OSError, match="backslash"):
            action()
    assert azure.names() == []


FORM = "az://CONTAINER/NAME"


def test_an_account_in_place_of_the_container_is_told_of(azure: Place) -> None:
    for read in (
        lambda url: list(tfs.RecordReader(url, storage_options=azure.storage_options)),
        lambda url: tfs.TFRecordWriter(url, storage_options=azure.storage_options).close(),
    ):
        with pytest.raises(FileNotFoundError, match=r"no container 'devstoreaccount1'") as caught:
            read("az://devstoreaccount1/container/x")
        assert FORM in str(caught.value)
        assert "az://devstoreaccount1/container/x" in str(caught.value)


@pytest.mark.parametrize("name", ["x", "x-*", "d/", "x@4", "d/*/x"])
def test_a_missing_container_is_told_of_whatever_is_asked(azure: Place, name: str) -> None:
    url = f"az://nobucket/{name}"
    with pytest.raises(FileNotFoundError, match="no container 'nobucket'") as caught:
        list(tfs.RecordReader(url, storage_options=azure.storage_options))
    assert FORM in str(caught.value)
    assert str(caught.value.filename).startswith("az://nobucket/")


@pytest.mark.parametrize("scheme", ["s3", "gcs"])
def test_a_missing_bucket_is_no_pattern_without_matches(
    scheme: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(scheme)
    url = f"{place.root.partition(':')[0]}://no-such-bucket-here/train-*"
    with pytest.raises(FileNotFoundError) as caught:
        list(tfs.RecordReader(url, storage_options=place.storage_options))
    assert "no file matches" not in str(caught.value)
    assert "no-such-bucket-here" in str(caught.value.filename)


def test_an_archived_blob_is_told_of(azure: Place) -> None:
    azure.put("x", b"one")
    store, path = azure.open("x")
    with blob_of(azure, path) as blob:
        blob.set_standard_blob_tier("Archive")
    for action in (
        lambda: store.get(path),
        lambda: store.read(path, 0, 1).result(),
        lambda: list(tfs.RecordReader(azure.url("x"), storage_options=azure.storage_options)),
    ):
        with pytest.raises(
            PermissionError, match=r"archived this object \(BlobArchived\): restore"
        ):
            action()


POLICY = "This operation is not permitted as the blob is immutable due to a policy."


def test_a_policy_that_forbids_a_change_is_no_other_version(azure: Place) -> None:
    """It has the status of a conflict, 409. A delete took it for one, and said nothing."""
    azure.put("x", b"one")
    body = f"<Error><Code>BlobImmutableDueToPolicy</Code><Message>{POLICY}</Message></Error>"
    refusal = Answer(409, [("x-ms-error-code", "BlobImmutableDueToPolicy")], body.encode())

    def answer(request: Any, forward: Any) -> Answer:
        return forward(request) if request.method in ("GET", "HEAD") else refusal

    with rewriting_store(azure.endpoint, answer) as url:
        string = azure.storage_options["connection_string"].replace(azure.endpoint, url)
        store, path = Place(azure.root, {"connection_string": string}).open("x")
        etag = store.info(path).etag
        for change in (
            lambda: store.delete([path]),
            lambda: store.delete_version(path, etag),
            lambda: store.put(path, b"two"),
        ):
            with pytest.raises(OSError, match="BlobImmutableDueToPolicy") as caught:
                change()
            assert not isinstance(caught.value, FileExistsError)


def test_azure_without_credentials(azure: Place) -> None:
    """In a program of its own, in which nobody is logged in, and which asks no cloud."""
    host = azure.endpoint.partition("://")[2]
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AZURE")},
        "AZURE_TOKEN_CREDENTIALS": "dev",  # not a machine's own, which is asked for over a network
        "PATH": "/usr/bin:/bin",
    }
    command = [
        sys.executable, "-c", "from tfio_store.cli.entry import script; script()",
        "info", azure.url("train"),
        "-o", f"account_name={ACCOUNT}", "-o", f"account_host={host}",
    ]  # fmt: skip
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 3, ended.stderr
    assert "no credentials were found" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr


@pytest.mark.filterwarnings("error")
def test_an_account_that_is_missing_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adlfs")
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=FORM):
        list(tfs.RecordReader("az://account/container/x"))

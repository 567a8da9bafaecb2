"""What Azure Blob Storage has of its own."""

from __future__ import annotations

from typing import Any

import pytest

import tfio_store as tfs
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


@pytest.mark.filterwarnings("error")
def test_an_account_that_is_missing_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("adlfs")
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_CONNECTION_STRING"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValueError, match=FORM):
        list(tfs.RecordReader("az://account/container/x"))

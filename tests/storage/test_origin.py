"""A path becomes a URL again, with what the first URL told beside the path."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.servers import hosted
from tfio_store.storage import open_store
from tfio_store.storage.registry import surroundings


@pytest.mark.parametrize(
    ("url", "path", "beside"),
    [
        ("ftp://user@host:21/a/b", "/a/b", "ftp://user@host:21/c"),
        ("ftp://host/a/a", "/a/a", "ftp://host/c"),
        ("ftp://host/a/b/", "/a/b", "ftp://host/c"),
        ("ftp://host", "/", "ftp://host/c"),
        ("ftp://host/", "/", "ftp://host/c"),
        ("webhdfs://host:1/a/b?user.name=x", "/a/b", "webhdfs://host:1/c?user.name=x"),
        ("webhdfs://host:1/a?b#c", "/a?b#c", "webhdfs://host:1/c"),
        ("github://org:repo@sha/dir/file", "dir/file", "github://org:repo@sha/c"),
        ("github://org:repo@sha", "", "github://org:repo@sha/c"),
        ("zip://in/a::s3://b/x.zip", "in/a", "zip://c::s3://b/x.zip"),
        ("zip://::s3://b/x.zip", "", "zip://c::s3://b/x.zip"),
        ("simplecache::s3://b/key", "b/key", "simplecache::s3://c"),
        ("simplecache::zip://a::file:///x", "a", "simplecache::zip://c::file:///x"),
        ("simplecache::memory://a/b", "/a/b", "simplecache::memory:///c"),
    ],
)
def test_what_is_around_a_path_is_found(url: str, path: str, beside: str) -> None:
    found = surroundings(url, path)
    assert found is not None
    assert found.url("/c" if path.startswith("/") else "c") == beside


def test_a_path_that_the_url_does_not_hold_has_no_surroundings() -> None:
    assert surroundings("ftp://host/a%20b", "/a b") is None


@pytest.mark.parametrize(
    "url",
    ["az://box@one.dfs.core.windows.net/a/b", "abfss://box@one.blob.core.windows.net"],
)
def test_an_azure_url_keeps_its_account(url: str) -> None:
    pytest.importorskip("adlfs")
    store, path = open_store(url, {"anon": True})
    assert store.address(path) == store.url(path) == url
    again, same = open_store(store.address(path), {"anon": True})
    assert again is store
    assert same == path
    assert pickle.loads(pickle.dumps(store)).url(path) == url


def test_stores_of_two_hosts_are_two(tmp_path: Path) -> None:
    options = {"hosts": str(tmp_path)}
    one, path = open_store("hosted://user:secret@one/a/b", options)
    two, _ = open_store("hosted://two/a/b", options)
    assert path == "a/b"
    assert one.address("c") == "hosted://user:secret@one/c"
    assert one.url("c") == "hosted://one/c"
    assert two.url("c") == "hosted://two/c"
    assert open_store(one.address("c"), options) == (one, "c")


def test_a_host_that_would_be_lost_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strip = hosted.HostedFileSystem._strip_protocol
    spaced = classmethod(lambda cls, path: strip(path).replace("%20", " "))
    monkeypatch.setattr(hosted.HostedFileSystem, "_strip_protocol", spaced)
    with pytest.raises(ValueError, match=r"hosted://one/a%20b: .* 'a b'; pass host in storage_op"):
        open_store("hosted://one/a%20b", {"hosts": str(tmp_path)})


@pytest.mark.parametrize("name", ["in/a.tfrecord", "in/*.tfrecord"])
@pytest.mark.parametrize("cached", ["", "simplecache::"])
def test_files_within_an_archive_are_read(tmp_path: Path, name: str, cached: str) -> None:
    with tfs.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write(b"one")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.write(tmp_path / "a.tfrecord", "in/a.tfrecord")
    url = f"{cached}zip://{name}::file://{tmp_path}/x.zip"
    assert list(tfs.RecordReader(url)) == [b"one"]

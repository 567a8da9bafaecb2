"""Every function of ``tf.io.gfile`` on folders, and what moves files about, does on ours what it
does on TensorFlow's own filesystems.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers import ceph as ceph_server
from tests.servers.moto import KEY, SECRET
from tests.servers.place import Place

tf = pytest.importorskip("tensorflow")

from tests.tf.whole_files import get, put  # noqa: E402
from tfio_store.tf.filesystem import register_filesystem  # noqa: E402

pytestmark = pytest.mark.tensorflow

errors = tf.errors
gfile = tf.io.gfile


def test_mkdir(root: str) -> None:
    gfile.mkdir(f"{root}/d")
    put(f"{root}/d/file")
    gfile.mkdir(f"{root}/d")  # TensorFlow passes over that it exists
    assert gfile.listdir(f"{root}/d") == ["file"]


def test_mkdir_without_a_parent(root: str) -> None:
    """Object stores need no parents, so programs written for tensorflow-io make none."""
    if "://" not in root:
        with pytest.raises(errors.NotFoundError):
            gfile.mkdir(f"{root}/missing/d")
        return
    gfile.mkdir(f"{root}/missing/d")
    assert gfile.isdir(f"{root}/missing/d")
    assert gfile.listdir(f"{root}/missing") == ["d"]
    assert gfile.listdir(f"{root}/missing/d") == []


def test_mkdir_below_a_file(root: str) -> None:
    path = put(f"{root}/file")
    with pytest.raises(errors.FailedPreconditionError):
        gfile.mkdir(f"{path}/d")


def test_makedirs(root: str) -> None:
    gfile.makedirs(f"{root}/a/b/c")
    gfile.makedirs(f"{root}/a/b/c")
    gfile.makedirs(f"{root}/a/b/c/")
    assert gfile.isdir(f"{root}/a")
    assert gfile.listdir(f"{root}/a") == ["b"]
    gfile.rmtree(f"{root}/a/b")
    assert gfile.listdir(f"{root}/a") == []


def test_makedirs_where_a_file_is(root: str) -> None:
    path = put(f"{root}/file")
    with pytest.raises(errors.FailedPreconditionError):
        gfile.makedirs(f"{path}/d")


def test_rmtree(root: str) -> None:
    for name in ("t/a", "t/b/c", "t/b/d/e", "tt"):
        gfile.makedirs(os.path.dirname(f"{root}/{name}"))
        put(f"{root}/{name}")
    gfile.makedirs(f"{root}/t/empty")
    gfile.rmtree(f"{root}/t")
    assert not gfile.exists(f"{root}/t")
    assert not gfile.exists(f"{root}/t/b/d/e")
    assert gfile.listdir(root) == ["tt"]


def test_rmtree_of_what_is_a_file_and_a_folder(s3: Place) -> None:
    register_filesystem("s3", storage_options=s3.storage_options)
    s3.put("both", b"file")
    s3.put("both/below", b"file")
    gfile.rmtree(s3.url("both"))
    assert s3.names() == []


def test_rmtree_of_nothing(root: str) -> None:
    with pytest.raises(errors.NotFoundError):
        gfile.rmtree(f"{root}/missing")


def test_remove(root: str) -> None:
    path = put(f"{root}/file")
    gfile.remove(path)
    assert not gfile.exists(path)
    with pytest.raises(errors.NotFoundError):
        gfile.remove(path)


def test_remove_of_a_folder(root: str) -> None:
    gfile.mkdir(f"{root}/d")
    with pytest.raises((errors.FailedPreconditionError, errors.PermissionDeniedError)):
        gfile.remove(f"{root}/d")
    assert gfile.isdir(f"{root}/d")


# ---- copying and renaming ----


def test_copy(root: str) -> None:
    path = put(f"{root}/a", os.urandom(3 << 20))
    gfile.copy(path, f"{root}/b")
    assert get(f"{root}/b") == get(path)
    with pytest.raises(errors.AlreadyExistsError):
        gfile.copy(path, f"{root}/b")
    put(path, b"new")
    gfile.copy(path, f"{root}/b", overwrite=True)
    assert get(f"{root}/b") == b"new"
    with pytest.raises(errors.NotFoundError):
        gfile.copy(f"{root}/missing", f"{root}/c")
    assert not gfile.exists(f"{root}/c")


def test_copy_from_and_to_a_local_file(root: str, tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    (tmp_path / "in").write_bytes(data)
    gfile.copy(str(tmp_path / "in"), f"{root}/file")
    gfile.copy(f"{root}/file", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == data


def test_rename(root: str) -> None:
    path = put(f"{root}/a", b"1")
    gfile.rename(path, f"{root}/b")
    assert not gfile.exists(path)
    assert get(f"{root}/b") == b"1"
    put(path, b"2")
    with pytest.raises(errors.AlreadyExistsError):
        gfile.rename(path, f"{root}/b")
    gfile.rename(path, f"{root}/b", overwrite=True)
    assert get(f"{root}/b") == b"2"
    with pytest.raises(errors.NotFoundError):
        gfile.rename(f"{root}/missing", f"{root}/c")


def test_rename_onto_itself(root: str) -> None:
    path = put(f"{root}/a", b"1")
    gfile.rename(path, path, overwrite=True)
    assert get(path) == b"1"


def test_rename_a_folder(root: str) -> None:
    gfile.makedirs(f"{root}/d/sub")
    gfile.makedirs(f"{root}/d/empty")
    put(f"{root}/d/a", b"1")
    put(f"{root}/d/sub/b", b"2")
    gfile.rename(f"{root}/d", f"{root}/e")
    assert not gfile.exists(f"{root}/d")
    assert sorted(gfile.listdir(f"{root}/e")) == ["a", "empty", "sub"]
    assert get(f"{root}/e/sub/b") == b"2"


def test_folders_in_the_way(root: str) -> None:
    path = put(f"{root}/file")
    gfile.makedirs(f"{root}/d/full")
    for act in (
        lambda: put(f"{root}/d"),
        lambda: get(f"{root}/d"),
        lambda: gfile.rename(path, f"{root}/d", overwrite=True),
        lambda: gfile.copy(path, f"{root}/d", overwrite=True),
    ):
        with pytest.raises(errors.FailedPreconditionError):
            act()
    assert get(path) == b"data"


def test_paths_are_cleaned(root: str) -> None:
    gfile.makedirs(f"{root}/a/b/c")
    put(f"{root}/a//b/./c/../file", b"1")
    assert get(f"{root}/a/b/file") == b"1"


KEYS = [f"part-{i:05d}" for i in range(3_000)]
"""Three pages of a listing on S3."""


def full_of_keys(place: Place) -> str:
    scheme, _, base = place.url("many").partition("://")
    place.fs.pipe({f"{base}/{name}": b"" for name in KEYS})
    register_filesystem(scheme, storage_options=place.storage_options)
    return place.url("many")


@pytest.fixture
def roomy_moto() -> Iterator[Place]:
    """S3 by moto in this process, which takes 3,000 keys behind the server's back: by way of it
    they would take long."""
    pytest.importorskip("moto")
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer
    from moto.s3.models import s3_backends

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    place = Place("s3://roomy", {"endpoint_url": endpoint, "key": KEY, "secret": SECRET})
    place.fs.mkdir("roomy")
    for name in KEYS:
        s3_backends["123456789012"]["aws"].put_object("roomy", f"many/{name}", b"")
    yield place
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def many(request: pytest.FixtureRequest) -> str:
    """A folder of 3,000 files; on a real S3 gateway where one is installed."""
    if request.param == "memory":
        return full_of_keys(request.getfixturevalue("memory"))
    if ceph_server.installed():
        return full_of_keys(request.getfixturevalue("ceph"))
    place: Place = request.getfixturevalue("roomy_moto")
    register_filesystem("s3", storage_options=place.storage_options)
    return place.url("many")


@pytest.mark.long
def test_many_keys(many: str) -> None:
    assert sorted(gfile.listdir(many)) == KEYS
    assert len(gfile.glob(f"{many}/part-*")) == len(KEYS)
    assert len(gfile.glob(f"{many}/part-0001?")) == 10
    ((top, folders, files),) = gfile.walk(many)
    assert (top, folders, sorted(files)) == (many, [], KEYS)
    gfile.rmtree(many)
    assert not gfile.exists(many)

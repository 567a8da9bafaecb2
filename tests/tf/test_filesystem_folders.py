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

from tfio_store.tf.filesystem import register_filesystem  # noqa: E402

pytestmark = pytest.mark.tensorflow

errors = tf.errors
gfile = tf.io.gfile


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


def test_rmtree_of_what_is_a_file_and_a_folder(s3: Place) -> None:
    register_filesystem("s3", storage_options=s3.storage_options)
    s3.put("both", b"file")
    s3.put("both/below", b"file")
    gfile.rmtree(s3.url("both"))
    assert s3.names() == []


# ---- copying and renaming ----


def test_copy_from_and_to_a_local_file(root: str, tmp_path: Path) -> None:
    data = os.urandom(5 << 20)
    (tmp_path / "in").write_bytes(data)
    gfile.copy(str(tmp_path / "in"), f"{root}/file")
    gfile.copy(f"{root}/file", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == data


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

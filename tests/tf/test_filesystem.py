"""Every function of ``tf.io.gfile`` does on ours what it does on TensorFlow's own filesystems."""

from __future__ import annotations

import os
import uuid
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


# Where TensorFlow's ram:// is not what its local filesystem is: it does not truncate a file that is
# written anew, knows no append, keeps what rmtree or a rename should remove, and cleans no paths.
RAM_DIFFERS = {
    "test_a_missing_file",
    "test_writing_replaces",
    "test_append",
    "test_of_two_who_append_the_second_is_told",
    "test_mkdir_below_a_file",
    "test_tell_while_writing",
    "test_rmtree",
    "test_remove_of_a_folder",
    "test_copy",
    "test_rename_onto_itself",
    "test_rename_a_folder",
    "test_folders_in_the_way",
    "test_mkdir_without_a_parent",
    "test_makedirs_where_a_file_is",
    "test_paths_are_cleaned",
}


@pytest.fixture(params=["file", "ram", "memory", "s3", "s3+obstore", "gcs", "azure"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty folder."""
    if request.param == "ram" and request.function.__name__ in RAM_DIFFERS:
        pytest.skip("ram:// differs from the local filesystem here")
    if request.param == "file":
        yield str(tmp_path)
        return
    if request.param == "ram":
        url = f"ram://{uuid.uuid4().hex}"
    else:
        server, _, backend = request.param.partition("+")
        place: Place = request.getfixturevalue(server)
        scheme, _, path = place.url("root").partition("://")
        scheme = "gcs" if scheme == "gs" else scheme  # TensorFlow has gs:// itself
        options = place.storage_options
        register_filesystem(scheme, storage_options=options, backend=backend or "fsspec")
        url = f"{scheme}://{path}"
    gfile.makedirs(url)
    yield url


def put(path: str, data: bytes = b"data") -> str:
    with gfile.GFile(path, "wb") as file:
        file.write(data)
    return path


def get(path: str) -> bytes:
    with gfile.GFile(path, "rb") as file:
        return file.read()


# ---- files ----


@pytest.mark.parametrize("size", [0, 1, 511, 1 << 20, (2 << 20) + 1, 9 << 20])
def test_what_was_written_is_read(root: str, size: int) -> None:
    data = os.urandom(size)
    assert get(put(f"{root}/file", data)) == data
    assert gfile.stat(f"{root}/file").length == size


def test_an_empty_file(root: str) -> None:
    path = put(f"{root}/empty", b"")
    assert gfile.exists(path)
    assert not gfile.isdir(path)
    assert tf.io.read_file(path).numpy() == b""


def test_a_file_opened_and_closed_is_there_and_empty(root: str) -> None:
    # GFile opens its file at the first write, so by way of a record writer
    with tf.io.TFRecordWriter(f"{root}/none.tfrecord"):
        pass
    assert gfile.stat(f"{root}/none.tfrecord").length == 0


def test_a_missing_file(root: str) -> None:
    with pytest.raises(errors.NotFoundError, match="missing"):
        get(f"{root}/missing")
    with pytest.raises(errors.NotFoundError):
        tf.io.read_file(f"{root}/missing")
    with pytest.raises(errors.NotFoundError):
        gfile.stat(f"{root}/missing")
    assert not gfile.exists(f"{root}/missing")


def test_writing_replaces(root: str) -> None:
    path = put(f"{root}/file", b"a long old text")
    assert get(put(path, b"new")) == b"new"


@pytest.mark.parametrize(
    "name", ["ünïcödé-文件", "two words", "a+b&c=d", "100%", "x#y", "q?r", "~t"]
)
def test_names_of_all_kinds(root: str, name: str) -> None:
    gfile.makedirs(f"{root}/{name}")
    path = put(f"{root}/{name}/{name}.txt", b"1")
    assert get(path) == b"1"
    assert gfile.listdir(root) == [name]
    assert gfile.listdir(f"{root}/{name}") == [f"{name}.txt"]
    gfile.rename(path, f"{path}2")
    assert get(f"{path}2") == b"1"
    gfile.rmtree(f"{root}/{name}")
    assert gfile.listdir(root) == []


def test_seek_tell_and_read_past_the_end(root: str) -> None:
    path = put(f"{root}/file", bytes(range(100)))
    with gfile.GFile(path, "rb") as file:
        file.seek(90)
        assert file.read(5) == bytes(range(90, 95))
        assert file.tell() == 95
        assert file.read(100) == bytes(range(95, 100))
        assert file.read(100) == b""
        file.seek(0)
        assert file.read(3) == b"\0\1\2"


def test_lines(root: str) -> None:
    path = put(f"{root}/lines", b"one\ntwo\n\nfour")
    assert list(gfile.GFile(path)) == ["one\n", "two\n", "\n", "four"]
    dataset = tf.data.TextLineDataset(path)
    assert [line.numpy() for line in dataset] == [b"one", b"two", b"", b"four"]


def test_append(root: str) -> None:
    path = put(f"{root}/file", b"one ")
    with gfile.GFile(path, "ab") as file:
        file.write(b"two ")
        assert file.tell() == 8
    with gfile.GFile(path, "a") as file:
        file.write("three")
    assert get(path) == b"one two three"


@pytest.mark.parametrize("before", [None, b"before ", bytes(9 << 20)])
def test_of_two_who_append_the_second_is_told(root: str, before: bytes | None) -> None:
    if "://" not in root:
        pytest.skip("the local filesystem appends in place")
    path = f"{root}/file"
    if before is not None:
        put(path, before)
    first, second = gfile.GFile(path, "ab"), gfile.GFile(path, "ab")
    first.write(b"first")
    second.write(b"second")
    first.close()
    with pytest.raises(errors.AbortedError, match="somebody else"):
        second.close()
    assert get(path) == (before or b"") + b"first"


def test_append_to_a_missing_file(root: str) -> None:
    with gfile.GFile(f"{root}/new", "ab") as file:
        file.write(b"text")
    assert get(f"{root}/new") == b"text"


def test_a_file_that_nobody_closes_is_kept(root: str) -> None:
    gfile.GFile(f"{root}/file", "w").write("text")
    assert get(f"{root}/file") == b"text"


def test_tell_while_writing(root: str) -> None:
    with gfile.GFile(f"{root}/file", "wb") as file:
        for size in (1, 10, 3 << 20, 7):
            before = file.tell() if size > 1 else 0
            file.write(b"x" * size)
            assert file.tell() == before + size


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_records(root: str, compression: str) -> None:
    records = [os.urandom(i * 37 % 5000) for i in range(2000)]
    options = tf.io.TFRecordOptions(compression_type=compression)
    with tf.io.TFRecordWriter(f"{root}/r", options) as writer:
        for record in records:
            writer.write(record)
    dataset = tf.data.TFRecordDataset(f"{root}/r", compression_type=compression)
    assert list(dataset.as_numpy_iterator()) == records


def test_s3a_names_the_same_objects(s3: Place) -> None:
    """TensorFlow reads s3:// in pieces of 127 MiB, and s3a:// as any other file."""
    register_filesystem("s3", "s3a", storage_options=s3.storage_options)
    url = s3.url("file")
    other = url.replace("s3://", "s3a://")
    records = [os.urandom(1000) for _ in range(3000)]
    with tf.io.TFRecordWriter(other) as writer:
        for record in records:
            writer.write(record)
    for path in (url, other):
        assert list(tf.data.TFRecordDataset(path).as_numpy_iterator()) == records
        assert gfile.listdir(os.path.dirname(path)) == ["file"]
        assert gfile.glob(f"{path}*") == [path]


# ---- listing ----


def test_listdir_walk_and_isdir(root: str) -> None:
    for name in ("a", "sub/b", "sub/deep/c", "z"):
        gfile.makedirs(os.path.dirname(f"{root}/{name}"))
        put(f"{root}/{name}")
    assert sorted(gfile.listdir(root)) == ["a", "sub", "z"]
    assert sorted(gfile.listdir(f"{root}/sub/")) == ["b", "deep"]
    walked = {top: (sorted(dirs), sorted(files)) for top, dirs, files in gfile.walk(root)}
    assert walked == {
        root: (["sub"], ["a", "z"]),
        f"{root}/sub": (["deep"], ["b"]),
        f"{root}/sub/deep": ([], ["c"]),
    }
    assert gfile.isdir(f"{root}/sub")
    assert gfile.isdir(f"{root}/sub/")
    assert not gfile.isdir(f"{root}/a")
    assert not gfile.isdir(f"{root}/missing")
    assert gfile.stat(f"{root}/sub").is_directory


def test_listdir_of_what_is_no_folder(root: str) -> None:
    with pytest.raises(errors.NotFoundError):
        gfile.listdir(f"{root}/missing")
    with pytest.raises(errors.NotFoundError):
        gfile.listdir(put(f"{root}/file"))


def test_an_empty_folder(root: str) -> None:
    gfile.mkdir(f"{root}/d")
    assert gfile.exists(f"{root}/d")
    assert gfile.isdir(f"{root}/d")
    assert gfile.listdir(f"{root}/d") == []
    assert gfile.listdir(root) == ["d"]


def test_a_folder_outlives_its_files(root: str) -> None:
    gfile.makedirs(f"{root}/d")
    gfile.remove(put(f"{root}/d/file"))
    assert gfile.isdir(f"{root}/d")
    assert gfile.listdir(f"{root}/d") == []


def test_glob(root: str) -> None:
    for name in ("a.txt", "b.txt", "c.csv", "[x].txt", "s1/a.txt", "s2/b.txt", "s2/d/e.txt"):
        gfile.makedirs(os.path.dirname(f"{root}/{name}"))
        put(f"{root}/{name}")

    def found(*patterns: str) -> list[str]:
        paths = gfile.glob([f"{root}/{pattern}" for pattern in patterns])
        return sorted(path.removeprefix(f"{root}/") for path in paths)

    assert found("*.txt") == ["[x].txt", "a.txt", "b.txt"]
    assert found("?.txt") == ["a.txt", "b.txt"]
    assert found("[ab].txt") == ["a.txt", "b.txt"]
    assert found("[^a].txt") == ["b.txt"]
    assert found("[b-z].*") == ["b.txt", "c.csv"]
    assert found("\\[x\\].txt") == ["[x].txt"]
    assert found("*/*.txt") == ["s1/a.txt", "s2/b.txt"]
    assert found("s*") == ["s1", "s2"]
    assert found("s2/*") == ["s2/b.txt", "s2/d"]
    assert found("*/d/*") == ["s2/d/e.txt"]
    assert found("a.txt") == ["a.txt"]
    assert found("missing*") == []
    assert found("missing/*") == []
    assert found("missing") == []
    assert found("a.txt", "c*") == ["a.txt", "c.csv"]


def test_glob_feeds_datasets(root: str) -> None:
    for i in range(3):
        put(f"{root}/part-{i}", b"%d" % i)
    files = tf.data.Dataset.list_files(f"{root}/part-*", shuffle=False)
    assert [tf.io.read_file(path).numpy() for path in files] == [b"0", b"1", b"2"]


# ---- folders ----


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


KEYS = [f"part-{i:05d}" for i in range(10_000)]
"""Ten pages of a listing on S3."""


def full_of_keys(place: Place) -> str:
    scheme, _, base = place.url("many").partition("://")
    place.fs.pipe({f"{base}/{name}": b"" for name in KEYS})
    register_filesystem(scheme, storage_options=place.storage_options)
    return place.url("many")


@pytest.fixture
def roomy_moto() -> Iterator[Place]:
    """S3 by moto in this process, which takes 10,000 keys behind the server's back: by way of it
    they would take a minute."""
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
    """A folder of 10,000 files; on a real S3 gateway where one is installed."""
    if request.param == "memory":
        return full_of_keys(request.getfixturevalue("memory"))
    if ceph_server.installed():
        return full_of_keys(request.getfixturevalue("ceph"))
    place: Place = request.getfixturevalue("roomy_moto")
    register_filesystem("s3", storage_options=place.storage_options)
    return place.url("many")


@pytest.mark.slow
def test_many_keys(many: str) -> None:
    assert sorted(gfile.listdir(many)) == KEYS
    assert len(gfile.glob(f"{many}/part-*")) == len(KEYS)
    assert len(gfile.glob(f"{many}/part-0001?")) == 10
    ((top, folders, files),) = gfile.walk(many)
    assert (top, folders, sorted(files)) == (many, [], KEYS)
    gfile.rmtree(many)
    assert not gfile.exists(many)

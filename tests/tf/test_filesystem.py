"""Every function of ``tf.io.gfile`` on files does on ours what it does on TensorFlow's own
filesystems.
"""

from __future__ import annotations

import os

import pytest

from tests.servers.place import Place

tf = pytest.importorskip("tensorflow")

from tests.tf.whole_files import get, put  # noqa: E402
from tfio_store.tf.filesystem import register_filesystem  # noqa: E402

pytestmark = pytest.mark.tensorflow

errors = tf.errors
gfile = tf.io.gfile


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

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


def test_a_file_opened_and_closed_is_there_and_empty(root: str) -> None:
    # GFile opens its file at the first write, so by way of a record writer
    with tf.io.TFRecordWriter(f"{root}/none.tfrecord"):
        pass
    assert gfile.stat(f"{root}/none.tfrecord").length == 0


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


def test_lines(root: str) -> None:
    path = put(f"{root}/lines", b"one\ntwo\n\nfour")
    assert list(gfile.GFile(path)) == ["one\n", "two\n", "\n", "four"]
    dataset = tf.data.TextLineDataset(path)
    assert [line.numpy() for line in dataset] == [b"one", b"two", b"", b"four"]


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


def test_a_file_that_nobody_closes_is_kept(root: str) -> None:
    gfile.GFile(f"{root}/file", "w").write("text")
    assert get(f"{root}/file") == b"text"


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


def test_glob_feeds_datasets(root: str) -> None:
    for i in range(3):
        put(f"{root}/part-{i}", b"%d" % i)
    files = tf.data.Dataset.list_files(f"{root}/part-*", shuffle=False)
    assert [tf.io.read_file(path).numpy() for path in files] == [b"0", b"1", b"2"]

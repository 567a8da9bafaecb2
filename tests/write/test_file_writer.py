"""`TFRecordWriter`: TensorFlow's bytes, on every storage, whole or not at all."""

from __future__ import annotations

import gc
import gzip
import io
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.cores import framed
from tfio_store.records.compression import decompress

COMPRESSIONS = [None, "GZIP", "ZLIB", "ZSTD"]
RECORDS = [b"", b"one", bytes(100), os.urandom(70_000), b"drei"]


def content(data: bytes, compression: str | None) -> bytes:
    return decompress(data, compression, limit=1 << 30) if compression else data


def write(place: Place, name: str, records: list[bytes], options: Any = None) -> None:
    url = place.url(name)
    with tfs.TFRecordWriter(url, options, storage_options=place.storage_options) as writer:
        for record in records:
            writer.write(record)


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_the_bytes_are_the_frames(place: Place, compression: str | None) -> None:
    write(place, "folder/file.tfrecord", RECORDS, compression)
    assert content(place.get("folder/file.tfrecord"), compression) == framed(*RECORDS)
    assert place.names() == ["folder/file.tfrecord"]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_writer_without_records_makes_a_valid_file(place: Place, compression: str | None) -> None:
    write(place, "empty", [], compression)
    assert content(place.get("empty"), compression) == b""


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_batch_is_as_good_as_single_records(tmp_path: Path, compression: str | None) -> None:
    records = [os.urandom(random.randrange(3000)) for _ in range(5000)]
    expected = framed(*records)
    batch = tfs.RecordBatch.from_records(records)
    for given in (records, iter(records), tuple(records), batch, map(memoryview, records)):  # type: ignore[arg-type, var-annotated]
        with tfs.TFRecordWriter(tmp_path / "file", compression) as writer:
            writer.write_batch(given)
        assert content((tmp_path / "file").read_bytes(), compression) == expected


def test_many_blocks_reach_s3_in_order(s3: Place) -> None:
    records = [os.urandom(100_000) for _ in range(300)]
    write(s3, "large", records)
    assert s3.get("large") == framed(*records)


def test_an_exception_leaves_the_old_file(place: Place) -> None:
    place.put("file", b"old")
    with (
        pytest.raises(RuntimeError, match="in the block"),
        tfs.TFRecordWriter(place.url("file"), storage_options=place.storage_options) as writer,
    ):
        writer.write_batch([os.urandom(1 << 20)] * 20)
        raise RuntimeError("in the block")
    assert place.names() == ["file"]
    assert place.get("file") == b"old"
    assert not pending(place)


def pending(place: Place) -> list[Any]:
    from tfio_store.storage import open_store

    store, path = open_store(place.root, place.storage_options)
    return store.pending_uploads(path)


def test_nothing_is_visible_before_close(place: Place) -> None:
    writer = tfs.TFRecordWriter(place.url("file"), storage_options=place.storage_options)
    writer.write(b"x" * 3_000_000)
    writer.flush()
    assert "file" not in place.names()
    writer.close()
    assert place.names() == ["file"]


class Unbuffered(io.RawIOBase):
    """Takes at most 1000 bytes at a time, as a pipe may."""

    def __init__(self) -> None:
        self.data = b""
        self.flushes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.data += bytes(data[:1000])
        return min(len(data), 1000)

    def flush(self) -> None:
        self.flushes += 1


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_file_object_is_written_and_flushed_but_not_closed(compression: str | None) -> None:
    file: Any = Unbuffered()
    with tfs.TFRecordWriter(file, compression) as writer:
        writer.write(b"one")
        writer.flush()
        if compression != "ZLIB":
            assert content(file.data, compression) == framed(b"one")
        writer.write(b"x" * 9000)
    assert not file.closed
    assert file.flushes == 2
    assert content(file.data, compression) == framed(b"one", b"x" * 9000)


@pytest.mark.filterwarnings("ignore:unclosed GzipFile:ResourceWarning")  # from Python 3.14 on
@pytest.mark.parametrize("end", ["close", "abort"])
def test_a_writer_that_has_ended_keeps_no_file_object(tmp_path: Path, end: str) -> None:
    """gzip writes its last bytes when nobody holds the file any more."""
    path = tmp_path / "file.gz"
    writer = tfs.TFRecordWriter(gzip.open(path, "wb"))  # type: ignore[arg-type]  # noqa: SIM115
    writer.write_batch([b"one", b"two"])
    writer.flush()
    getattr(writer, end)()
    assert gzip.decompress(path.read_bytes()) == framed(b"one", b"two")
    getattr(writer, end)()


def test_an_fsspec_file_is_a_file_object(place: Place) -> None:
    fs = place.fs
    with fs.open(place.url("file"), "wb") as file, tfs.TFRecordWriter(file, "GZIP") as writer:
        writer.write(b"record")
    assert content(place.get("file"), "GZIP") == framed(b"record")


def test_closed_means_closed(tmp_path: Path) -> None:
    writer = tfs.TFRecordWriter(tmp_path / "file")
    writer.close()
    writer.close()
    writer.abort()
    assert (tmp_path / "file").exists()
    for call in (
        lambda: writer.write(b"x"),
        lambda: writer.write_batch([b"x"]),
        lambda: writer.write({"a": [1]}),
        writer.flush,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_a_record_of_another_type_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "file") as writer:
        for wrong in ("text", 5, None, ["list"]):
            with pytest.raises(TypeError):
                writer.write(wrong)  # type: ignore[arg-type]
        writer.write(bytearray(b"right"))
        writer.write(memoryview(b"too"))
    assert (tmp_path / "file").read_bytes() == framed(b"right", b"too")


@pytest.mark.parametrize("wrong", ["text", b"bytes", 5, None, [b"x", "text"]])
def test_a_batch_of_another_type_is_refused(tmp_path: Path, wrong: Any) -> None:
    writer = tfs.TFRecordWriter(tmp_path / "file")
    with pytest.raises(TypeError):
        writer.write_batch(wrong)
    with pytest.raises(TypeError):  # nobody can tell what it holds now
        writer.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", ["gzip", "SNAPPY", 5, object()])
def test_unknown_options_are_named(tmp_path: Path, options: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="options must be"):
        tfs.TFRecordWriter(tmp_path / "file", options)


def test_places_that_can_not_be_written(tmp_path: Path, s3: Place) -> None:
    with pytest.raises(IsADirectoryError, match=str(tmp_path)):
        tfs.TFRecordWriter(tmp_path)
    with pytest.raises(TypeError, match="path must be"):
        tfs.TFRecordWriter(5)  # type: ignore[arg-type]
    missing = tfs.TFRecordWriter("s3://no-such-bucket-1/f", storage_options=s3.storage_options)
    missing.write(b"x")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="no-such-bucket-1"):
            missing.close()
    with pytest.raises(FileNotFoundError, match="no-such-bucket-1"):
        missing.write(b"x")


def test_a_dropped_writer_publishes_nothing_and_says_so(tmp_path: Path) -> None:
    writer = tfs.TFRecordWriter(tmp_path / "file")
    writer.write_batch([bytes(1 << 20)] * 3)
    with pytest.warns(UserWarning, match="dropped without close"):
        del writer
        gc.collect()
    wait_until_empty(tmp_path)


def wait_until_empty(folder: Path) -> None:
    import time

    for _ in range(100):
        if not list(folder.iterdir()):
            return
        time.sleep(0.05)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("leave", ["sys.exit(3)", "raise KeyboardInterrupt", "pass"])
def test_a_process_that_ends_publishes_nothing(tmp_path: Path, leave: str) -> None:
    code = f"""
import sys, tfio_store
writer = tfio_store.TFRecordWriter({str(tmp_path / "file")!r}, "GZIP")
writer.write_batch([bytes(1000)] * 5000)
{leave}
"""
    subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, timeout=60)
    assert not (tmp_path / "file").exists()


@pytest.mark.tensorflow
@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB"])
def test_tensorflow_reads_what_we_write_and_writes_the_same(
    tmp_path: Path, compression: str
) -> None:
    import tensorflow as tf

    sizes = [*range(0, 70_000, 997), 20 << 20, 0, 1]
    records = [random.Random(size).randbytes(size) for size in sizes]
    ours, theirs = str(tmp_path / "ours"), str(tmp_path / "theirs")
    options = tf.io.TFRecordOptions(compression_type=compression, compression_level=1)
    with tfs.TFRecordWriter(ours, options) as writer:
        for record in records:
            writer.write(record)
    with tf.io.TFRecordWriter(theirs, options) as writer:
        for record in records:
            writer.write(record)
    read = tf.data.TFRecordDataset(ours, compression_type=compression)
    assert list(read.as_numpy_iterator()) == records
    assert list(tfs.RecordReader(theirs)) == records
    if not compression:
        assert Path(ours).read_bytes() == Path(theirs).read_bytes()


@pytest.mark.tensorflow
def test_every_form_of_tensorflow_options(tmp_path: Path) -> None:
    import tensorflow as tf

    kinds = tf.compat.v1.io.TFRecordCompressionType
    for form, codec in [
        (tf.io.TFRecordOptions(), None),
        (tf.io.TFRecordOptions(kinds.NONE), None),
        (tf.io.TFRecordOptions(kinds.ZLIB), "ZLIB"),
        (tf.io.TFRecordOptions(kinds.GZIP, compression_level=9), "GZIP"),
        (tf.io.TFRecordOptions("GZIP"), "GZIP"),
        (tf.io.TFRecordOptions("", compression_level=9), None),
    ]:
        with tfs.TFRecordWriter(tmp_path / "file", form) as writer:
            writer.write(b"record")
        assert content((tmp_path / "file").read_bytes(), codec) == framed(b"record")

"""Batches straight from the files, beside TensorFlow's own reader and ``batch``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import Outcome, error_of, outcome  # noqa: E402

pytestmark = pytest.mark.tensorflow

SIZES = [0, 5, 100, 70_000, 65_536, 65_535, 200_000, 1, 1_500_000, 0, 30, 300_000] * 3


def records() -> list[bytes]:
    return [bytes([i % 251]) * size for i, size in enumerate(SIZES)]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Three files, the second empty."""
    folder = tmp_path_factory.mktemp("batches")
    parts: tuple[list[bytes], ...] = (records()[:20], [], records()[20:])
    for name, part in zip("abc", parts, strict=True):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for record in part:
                writer.write(record)
    return [str(folder / name) for name in "abc"]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 5, 36, 100])
def test_as_native(files: list[str], batch_size: int, drop: bool) -> None:
    native = tf.data.TFRecordDataset(files).batch(batch_size, drop)
    ours = tfs.TFRecordDataset(files, batch_size=batch_size, drop_remainder=drop)
    found = outcome(lambda: ours)
    assert found == outcome(lambda: native)
    assert ours.cardinality() == len(found.elements)
    assert ours.element_spec.shape.as_list() == native.element_spec.shape.as_list()


@pytest.mark.parametrize("codec", [None, "GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("batch_size", [1, 5, 100])
def test_of_a_dataset_with_a_manifest(tmp_path: Path, codec: str | None, batch_size: int) -> None:
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=2, compression=codec) as writer:
        writer.write_batch(records())
    single = [r.numpy() for r in tfs.TFRecordDataset(str(tmp_path / "set"))]
    assert sorted(single) == sorted(records())
    batches = [
        b.numpy().tolist()
        for b in tfs.TFRecordDataset(str(tmp_path / "set"), batch_size=batch_size)
    ]
    assert [record for batch in batches for record in batch] == single
    assert {len(batch) for batch in batches[:-1]} <= {batch_size}


@pytest.mark.parametrize("at", [3, 9, 200, 70_200, 74_000, 135_800, 330_000, 1_900_000])
def test_damage(files: list[str], tmp_path: Path, at: int) -> None:
    """Found before and after the blocks were: by a disk, say, which changes no file's time."""
    path = tmp_path / "f"
    whole = Path(files[0]).read_bytes()
    path.write_bytes(whole)
    written = path.stat().st_mtime_ns
    before = tfs.TFRecordDataset(str(path), batch_size=3)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    os.utime(path, ns=(written, written))
    native = outcome(lambda: tf.data.TFRecordDataset(str(path)).batch(3))
    assert native.error is tf.errors.DataLossError
    assert outcome(lambda: before) == native
    text = error_of(lambda: before)
    assert str(path) in text
    assert "offset" in text
    assert outcome(lambda: tfs.TFRecordDataset(str(path), batch_size=3)) == native


@pytest.mark.parametrize("length", [0, 5, 100, 70_300, 200_000, 330_000])
def test_a_file_shorter_than_its_manifest_tells(
    files: list[str], tmp_path: Path, length: int
) -> None:
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=1) as writer:
        writer.write_batch(records()[:20])
    (path,) = tmp_path.glob("set-*")
    assert path.read_bytes() == Path(files[0]).read_bytes()
    path.write_bytes(path.read_bytes()[:length])
    found: Any = outcome(lambda: tfs.TFRecordDataset(str(tmp_path / "set"), batch_size=3))
    assert found.error is tf.errors.DataLossError
    native = outcome(lambda: tf.data.TFRecordDataset(str(path)).batch(3))
    assert found.elements == [batch for batch in native.elements if len(batch) == 3]


@pytest.mark.parametrize("length", [0, 100, 330_000])
def test_a_file_cut_after_its_blocks_were_found(
    files: list[str], tmp_path: Path, length: int
) -> None:
    path = tmp_path / "f"
    whole = Path(files[0]).read_bytes()
    path.write_bytes(whole)
    dataset = tfs.TFRecordDataset(str(path), batch_size=3)
    path.write_bytes(whole[:length])
    assert outcome(lambda: dataset) == Outcome([], tf.errors.FailedPreconditionError)
    assert str(path) in error_of(lambda: dataset)

"""Files that TensorFlow compressed, and other programs, once they are indexed, in tf.data."""

from __future__ import annotations

import os
import shutil
from itertools import chain
from pathlib import Path

import pytest
import tensorflow as tf

import tfio_store as tfs
from tests.support.foreign import short_blocks, texts
from tests.tf.saved import restored
from tests.vectors.make_foreign import COUNT, FILES, FOLDER, records
from tfio_store.records.framing import backend

pytestmark = pytest.mark.skipif(
    backend().core == "pure", reason="only the compiled core builds indexes"
)

RECORDS = texts(400)


def written(folder: Path, codec: str) -> str:
    path = str(folder / "a.gz")
    options = tf.io.TFRecordOptions(compression_type=codec)
    with tf.io.TFRecordWriter(path, options) as writer:
        for record in RECORDS:
            writer.write(record)
    return path


@pytest.mark.parametrize("codec", ["GZIP", "ZLIB"])
def test_every_pipeline(tmp_path: Path, codec: str) -> None:
    path = written(tmp_path, codec)
    tfs.build_index(path)
    assert os.path.getsize(tmp_path / "_a.gz.checkpoints") <= 0.03 * os.path.getsize(path)
    assert tfs.RecordSource(path)[:] == RECORDS

    whole = tfs.TFRecordDataset(path)
    assert whole.cardinality().numpy() == len(RECORDS)
    assert list(whole.as_numpy_iterator()) == RECORDS
    shuffled = list(tfs.TFRecordDataset(path, shuffle=True).as_numpy_iterator())
    assert shuffled != RECORDS
    assert sorted(shuffled) == sorted(RECORDS)
    batches = tfs.TFRecordDataset(path).batch(32)
    assert list(chain.from_iterable(batches.as_numpy_iterator())) == RECORDS
    mixed = tfs.TFRecordDataset(path).shuffle(100).batch(32)
    assert sorted(chain.from_iterable(mixed.as_numpy_iterator())) == sorted(RECORDS)
    shares = [tfs.TFRecordDataset(path).shard(3, i).as_numpy_iterator() for i in range(3)]
    assert sorted(chain.from_iterable(shares)) == sorted(RECORDS)
    part = tfs.TFRecordDataset(tfs.slice(path, "50:333"))
    assert list(part.as_numpy_iterator()) == RECORDS[50:333]


def test_in_a_folder_of_the_users(tmp_path: Path) -> None:
    path = written(tmp_path, "GZIP")
    tfs.build_index(path, index_dir=tmp_path / "indexes")
    dataset = tfs.TFRecordDataset(tfs.open(path, index_dir=tmp_path / "indexes"))
    assert dataset.cardinality().numpy() == len(RECORDS)
    assert list(dataset.as_numpy_iterator()) == RECORDS


def test_a_checkpoint_of_the_iterator(tmp_path: Path) -> None:
    path = written(tmp_path, "GZIP")
    tfs.build_index(path)
    one, other, whole = (tfs.TFRecordDataset(path, shuffle=True, seed=1) for _ in range(3))
    given, rest = restored(one, 123, tmp_path, other)
    assert [each.numpy() for each in [*given, *rest]] == list(whole.as_numpy_iterator())


def test_damage_is_passed_over(tmp_path: Path) -> None:
    path = written(tmp_path, "GZIP")
    tfs.build_index(path)
    blocks = tfs.open(path).shards[0].blocks
    assert blocks is not None
    status = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(int(blocks.offsets[1] + blocks.offsets[2]) // 2)
        file.write(b"\xff\xff\xff")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(tf.errors.DataLossError, match=r"a\.gz"):
        list(tfs.TFRecordDataset(path))
    found = list(tfs.TFRecordDataset(path, on_corrupt="skip").as_numpy_iterator())
    begin, end = blocks.records[1:3].tolist()
    assert found[:begin] == RECORDS[:begin]
    assert found[-(len(RECORDS) - end) :] == RECORDS[end:]
    assert set(found) < set(RECORDS)


def test_an_index_that_went_away_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path, "GZIP")
    tfs.build_index(path)
    dataset = tfs.TFRecordDataset(path)
    os.remove(tmp_path / "_a.gz.checkpoints")
    with pytest.raises(tf.errors.OpError, match=r"a\.gz"):
        list(dataset)


@pytest.mark.parametrize("name", FILES)
def test_files_of_others(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, wanted = str(shutil.copy(FOLDER / name, tmp_path)), records()
    assert list(tfs.TFRecordDataset(path).as_numpy_iterator()) == wanted
    short_blocks(monkeypatch)
    tfs.build_index(path)
    assert list(tfs.TFRecordDataset(path).as_numpy_iterator()) == wanted
    shuffled = list(tfs.TFRecordDataset(path, shuffle=True).as_numpy_iterator())
    assert shuffled != wanted
    assert sorted(shuffled) == sorted(wanted)
    parsed = (
        tfs.TFRecordDataset(path)
        .shuffle(100)
        .batch(32)
        .map(lambda each: tf.io.parse_example(each, {"i": tf.io.FixedLenFeature((), tf.int64)}))
    )
    found = chain.from_iterable(batch["i"] for batch in parsed.as_numpy_iterator())
    assert sorted(found) == list(range(COUNT))

"""What `salvage` could not save: it refuses to lose a whole shard unless that is allowed, and the
manifest tells of every loss ever after."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import tfio_store as tfs

SECOND = "train-00001-of-00004.tfrecord"


@pytest.fixture
def url(tmp_path: Path) -> str:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=4) as writer:
        writer.write_batch([b"record %d" % i for i in range(400)])
    (tmp_path / SECOND).unlink()
    return str(tmp_path / "train")


def test_a_repair_in_place_refuses_to_lose_a_whole_shard(url: str) -> None:
    before = sorted(os.listdir(os.path.dirname(url)))
    with pytest.raises(FileNotFoundError, match=f"1 of 4 files .* 100 records of {SECOND}") as why:
        tfs.salvage(url, url, if_exists="overwrite")
    assert "allow_missing=True" in str(why.value)
    assert sorted(os.listdir(os.path.dirname(url))) == before


def test_a_loss_that_is_allowed_is_told_ever_after(url: str, tmp_path: Path) -> None:
    report = tfs.salvage(url, url, if_exists="overwrite", allow_missing=True)
    told = f"lost in a salvage: 100 records of {SECOND}"
    assert not report.ok
    assert told in str(report)
    document = json.loads((tmp_path / "_train.manifest.json").read_text())
    assert document["lost"] == {"records": 100, "shards": [SECOND]}
    assert tfs.info(url).lost == report.lost
    again = tfs.verify(url)
    assert again.ok
    assert told in str(again)
    with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
        writer.write(b"one more")
    copied = tfs.copy(url, str(tmp_path / "copied"))
    assert copied.lost == report.lost
    assert tfs.diff(url, str(tmp_path / "copied")).lost == (report.lost, report.lost)
    with tfs.ShardedWriter(url, num_shards=1, if_exists="overwrite") as writer:
        writer.write(b"anew")
    assert tfs.info(url).lost is None


def test_damage_counts_as_a_loss(tmp_path: Path) -> None:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=1) as writer:
        writer.write_batch([b"record %d" % i for i in range(100)])
    file = tmp_path / "train-00000-of-00001.tfrecord"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    report = tfs.salvage(tmp_path / "train", tmp_path / "good")
    assert report.lost is not None
    assert report.lost.records == 100 - report.records > 0
    assert report.lost.shards == (file.name,)


def test_a_loss_of_records_that_nobody_counted(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        writer.write_batch([b"one", b"two"])
    with (tmp_path / "a.tfrecord").open("r+b") as file:
        file.seek(12)
        file.write(b"X")
    report = tfs.salvage(tmp_path / "a.tfrecord", tmp_path / "good")
    assert str(report.lost) == "records of a.tfrecord"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_reached(url: str, tmp_path: Path) -> None:
    file = tmp_path / "train-00000-of-00004.tfrecord"
    file.chmod(0)
    with pytest.raises(PermissionError):
        tfs.salvage(url, tmp_path / "good")
    report = tfs.salvage(url, tmp_path / "good", allow_missing=True)
    assert report.lost is not None
    assert report.lost.records == 200

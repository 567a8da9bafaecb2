"""What a reader tells of its work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.framed import flipped, framed

RECORDS = [b"%06d" % i * 500 for i in range(4000)]


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("how", ["batches", "records", "shuffled"])
def test_what_was_read(tmp_path: Path, compression: str | None, how: str) -> None:
    with tfs.ShardedWriter(tmp_path / "train", num_shards=2, compression=compression) as writer:
        writer.write_batch(RECORDS)
    reader = tfs.RecordReader(tmp_path / "train")
    assert set(reader.metrics().values()) == {0}
    reader = reader.shuffle(1) if how == "shuffled" else reader
    found = list(reader.batches()) if how == "batches" else list(reader)
    metrics = reader.metrics()
    stored = sum(os.path.getsize(path) for path in tmp_path.glob("train-*"))
    assert metrics["bytes"] == stored
    assert metrics["requests"] >= 2
    assert metrics["records"] == sum(map(len, found)) if how == "batches" else len(found)
    assert metrics["skipped"] == metrics["held_bytes"] == 0
    assert min(metrics["waited_s"], metrics["read_s"]) > 0
    assert (metrics["inflate_s"] > 0) == (compression is not None)
    again = sum(1 for _ in reader)
    assert reader.metrics()["records"] == metrics["records"] + again


def test_the_budget_in_use(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    with tfs.RecordReader(tmp_path / "x") as reader:
        batches = reader.batches()
        next(batches), next(batches)
        assert reader.metrics()["held_bytes"] >= 1 << 20
    assert reader.metrics()["held_bytes"] == 0


def test_what_was_skipped(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(flipped(framed(RECORDS[:100]), 3500))
    reader = tfs.RecordReader(tmp_path / "x", on_corrupt=lambda _: None)
    assert len(list(reader)) == 99
    assert reader.metrics()["skipped"] == 1
    assert reader.metrics()["records"] == 99


def test_an_open_file_and_a_mixture(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    with open(tmp_path / "x", "rb") as file:
        reader = tfs.RecordReader(file)
        assert list(reader) == RECORDS
    assert reader.metrics()["bytes"] == os.path.getsize(tmp_path / "x")
    mixture = tfs.mix({tmp_path / "x": 1})
    assert len(list(mixture)) == len(RECORDS)
    assert mixture.metrics()["records"] == len(RECORDS)
    assert mixture.metrics()["bytes"] == os.path.getsize(tmp_path / "x")

"""A shard that is missing: `verify` and `salvage` name it, and go on. And patterns beside a
manifest."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs

RECORDS = [b"record %d" % i for i in range(300)]


@pytest.fixture
def url(tmp_path: Path) -> str:
    with tfs.ShardedWriter(str(tmp_path / "train"), num_shards=3) as writer:
        writer.write_batch(RECORDS)
    return str(tmp_path / "train")


@pytest.mark.parametrize("quick", [False, True])
def test_verify_names_it_and_goes_on(url: str, quick: bool) -> None:
    one, two, three = sorted(Path(url).parent.glob("train-*"))
    two.unlink()
    data = bytearray(three.read_bytes())
    three.write_bytes(data[:-1])
    report = tfs.verify(url, quick=quick)
    assert not report.ok
    assert f"{two}: is missing" in report.problems
    assert any(str(three) in problem for problem in report.problems)
    assert not any(str(one) in problem for problem in report.problems)
    if not quick:
        assert report.records == 199


def test_salvage_copies_the_others(url: str, tmp_path: Path) -> None:
    two = sorted(Path(url).parent.glob("train-*"))[1]
    two.unlink()
    report = tfs.salvage(url, str(tmp_path / "good"), allow_missing=True)
    assert not report.ok
    assert report.problems == [f"{two}: is missing"]
    assert report.records == len(list(tfs.RecordReader(str(tmp_path / "good")))) == 200


def test_a_pattern_after_an_append_and_after_an_overwrite(url: str) -> None:
    assert len(list(tfs.RecordReader(f"{url}-*"))) == 300
    with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
        writer.write(b"one more")
    assert len(list(tfs.RecordReader(f"{url}-*"))) == 301
    with tfs.ShardedWriter(url, num_shards=1, if_exists="overwrite") as writer:
        writer.write(b"anew")
    assert list(tfs.RecordReader(f"{url}-*")) == [b"anew"]

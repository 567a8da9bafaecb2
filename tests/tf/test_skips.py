"""`on_corrupt="skip"` where blocks are read one by one: one word for each file, never silence."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tfio_store.records.recovery import SkippedRegion  # noqa: E402
from tfio_store.tf.dataset import runtime  # noqa: E402
from tfio_store.tf.dataset.runtime import BlockSkips  # noqa: E402

pytestmark = pytest.mark.tensorflow

RECORDS = [b"%d:" % i + bytes(1000) for i in range(5000)]
SHAPES: dict[str, dict[str, Any]] = {
    "records": {},
    "batches": {"batch_size": 7},
    "shuffled": {"shuffle": 2, "seed": 1},
    "in turns": {"num_parallel_reads": 2},
}


@pytest.fixture(autouse=True)
def skips(monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockSkips]:
    """Fresh ones, which tell of no damage because of the time that a test takes."""
    made = BlockSkips()
    monkeypatch.setattr(runtime, "TELLING_SECONDS", 3600.0)
    monkeypatch.setattr(runtime, "_skips", made)
    yield made
    said(lambda: made._tell(0.0))


def shards(folder: Path, codec: str | None = "GZIP") -> list[Path]:
    """Three files of several blocks."""
    with tfs.ShardedWriter(str(folder / "t"), num_shards=3, compression=codec) as writer:
        writer.write_batch(RECORDS)
    return sorted(folder.glob("t-*"))


def damage(path: Path, *places: float) -> None:
    data = bytearray(path.read_bytes())
    for place in places:
        data[int(len(data) * place)] ^= 1
    path.write_bytes(data)


def count(dataset: Any) -> int:
    return sum(tf.size(each).numpy() for each in dataset)


def said(read: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        read()
    return sorted(
        str(each.message) for each in caught if each.category is tfs.errors.DataLossWarning
    )


def generation(folder: Path, letter: bytes, size: int, codec: str | None) -> list[Path]:
    """Two files of several blocks, which have as many bytes in each generation of a size."""
    folder.mkdir()
    count = 3_048_000 // (size + 16)
    with tfs.ShardedWriter(
        str(folder / "t"), num_shards=2, compression=codec, record_positions=False
    ) as writer:
        writer.write_batch([b"%b%07d" % (letter, i) + bytes(size - 8) for i in range(count)])
    return sorted(folder.glob("t-*"))


@pytest.mark.parametrize("size", [1000, 492, 1508])
@pytest.mark.parametrize("shape", SHAPES)
def test_another_generation_is_no_damage(tmp_path: Path, shape: str, size: int) -> None:
    ours = generation(tmp_path / "ours", b"a", 1000, None)
    theirs = generation(tmp_path / "theirs", b"b", size, None)
    for here, there in zip(ours, theirs, strict=True):
        assert here.stat().st_size == there.stat().st_size
        here.write_bytes(there.read_bytes())
    dataset = tfs.TFRecordDataset(str(tmp_path / "ours" / "t"), on_corrupt="skip", **SHAPES[shape])
    with pytest.raises(tf.errors.FailedPreconditionError, match=str(tmp_path / "ours")):
        for found in dataset:
            assert b"b" not in {record[:1] for record in np.atleast_1d(found.numpy()).tolist()}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shorter_generation_is_never_passed_in_silence(tmp_path: Path, shape: str) -> None:
    for blocks in (0, 1):  # that the file has whole
        ours = generation(tmp_path / f"{blocks}", b"a", 1000, None)[1]
        with tfs.TFRecordWriter(str(ours)) as writer:
            writer.write_batch([b"b%07d" % i + bytes(484) for i in range(300 + 2200 * blocks)])
        url = str(tmp_path / f"{blocks}" / "t")
        dataset = tfs.TFRecordDataset(url, on_corrupt="skip", **SHAPES[shape])
        if blocks:
            with pytest.raises(tf.errors.FailedPreconditionError, match=str(ours)):
                list(dataset)
            continue
        (text,) = said(lambda dataset=dataset: list(dataset))
        assert text.startswith(f"{ours}: ")
        assert "replaced by a shorter one" in text


@pytest.mark.parametrize("codec", [None, "GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 7}, {"shard": (2, 0)}, {"shard": (2, 1)}])
def test_swapped_files_are_no_damage(
    tmp_path: Path, codec: str | None, options: dict[str, Any]
) -> None:
    one, other = generation(tmp_path / "ours", b"a", 1000, codec)
    if one.stat().st_size != other.stat().st_size:
        pytest.skip("compressed to other sizes")
    one.rename(tmp_path / "aside")
    other.rename(one)
    (tmp_path / "aside").rename(other)
    dataset = tfs.TFRecordDataset(str(tmp_path / "ours" / "t"), on_corrupt="skip", **options)
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"ours.t-0000"):
        next(iter(dataset))


@pytest.mark.parametrize("codec", [None, "GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("shape", SHAPES)
def test_one_warning_for_each_file(tmp_path: Path, shape: str, codec: str | None) -> None:
    first, _, third = shards(tmp_path, codec)
    damage(first, 0.1, 0.9)
    damage(third, 0.5)
    expected = said(lambda: list(tfs.RecordReader(str(tmp_path / "t"), on_corrupt="skip")))
    assert [text.partition(":")[0] for text in expected] == [str(first), str(third)]
    dataset = tfs.TFRecordDataset(str(tmp_path / "t"), on_corrupt="skip", **SHAPES[shape])
    for _ in range(2):  # each epoch says it
        assert said(lambda: count(dataset)) == expected


def test_epochs_that_overlap_are_told_apart(tmp_path: Path) -> None:
    first, *_ = shards(tmp_path)
    damage(first, 0.1, 0.9)
    dataset = tfs.TFRecordDataset(str(tmp_path / "t"), on_corrupt="skip", shuffle=2)
    once = said(lambda: count(dataset))
    assert len(once) == 1
    assert said(lambda: count(dataset.repeat(3))) == once * 3


@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_of_which_nothing_can_be_read_is_an_error(tmp_path: Path, shape: str) -> None:
    _, second, _ = shards(tmp_path)
    second.write_bytes(bytes(second.stat().st_size))
    dataset = tfs.TFRecordDataset(str(tmp_path / "t"), on_corrupt="skip", **SHAPES[shape])
    with pytest.raises(tf.errors.DataLossError, match=f"{second}: nothing in this file"):
        count(dataset)


def test_a_share_is_told_of_while_it_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "TELLING_SECONDS", 0.01)
    first, *_ = shards(tmp_path)
    damage(first, 0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        count(tfs.TFRecordDataset(str(tmp_path / "t"), on_corrupt="skip", shard=(2, 0)))
        while not any(each.category is tfs.errors.DataLossWarning for each in caught):
            time.sleep(0.01)


def test_what_was_not_told_is_told_at_exit(tmp_path: Path) -> None:
    first, *_ = shards(tmp_path)
    damage(first, 0.01)
    program = (
        "import sys, tfio_store as tfs\n"
        "for _ in tfs.TFRecordDataset(sys.argv[1], on_corrupt='skip', shard=(2, 0)): pass"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.stderr.count("skipped, ") == 1
    assert f"{first}: " in done.stderr


class TestPasses:
    """By the block, without TensorFlow."""

    REGION = SkippedRegion("url", 7, 5, "the reason")

    def test_a_pass_that_another_overtakes_is_told_of(self, skips: BlockSkips) -> None:
        def read(block: int) -> None:
            skips.read(("way",), "url", (block, 3), 1, [self.REGION])

        assert said(lambda: [read(0), read(1), read(0)]) == []
        (text,) = said(lambda: read(0))
        assert text.startswith("url: 2 damaged regions skipped, 10 bytes; the first at offset 7")

    def test_ways_of_reading_do_not_mix(self, skips: BlockSkips) -> None:
        skips.read(("one",), "url", (0, 2), 0, [self.REGION])
        skips.read(("other",), "url", (1, 2), 1, [])
        with pytest.raises(tfs.CorruptRecordError, match="nothing in this file can be read"):
            skips.read(("one",), "url", (1, 2), 0, [])

    def test_files_that_wait_are_not_kept_without_end(
        self, skips: BlockSkips, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(runtime, "FILES", 10)

        def read() -> None:
            for i in range(15):
                skips.read((i,), f"{i}", (0, 2), 1, [self.REGION])

        found = said(read)
        assert len(found) == 5
        assert len(skips._passes) == 10

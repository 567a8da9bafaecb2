"""Runs of records: small enough for the memory budget, and blocks as large as was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.write.records import runs

KIB = 1 << 10


def as_bytes(size: int) -> bytes:
    return bytes(size)


def as_mapping(size: int) -> dict[str, Any]:
    return {"x": [bytes(size)]}


@pytest.mark.parametrize("make", [as_bytes, as_mapping])
def test_of_a_generator_no_more_is_held_than_a_block(make: Any) -> None:
    made = 0

    def generator() -> Iterator[Any]:
        nonlocal made
        for size in [10] * 5000 + [64 * KIB] * 50:
            made += 1
            yield make(size)

    taken = 0
    for run in runs(generator(), 128 * KIB):
        taken += len(run)
        assert made == taken
        assert len(run) <= 4096
        assert sum(isinstance(r, bytes) and len(r) for r in run) < 192 * KIB
    assert taken == 5050


@pytest.mark.parametrize("placed", [{"num_shards": 2}, {"max_shard_bytes": 1 << 30}])
@pytest.mark.parametrize("listed", [False, True])
def test_mappings_fill_blocks_as_bytes_do(tmp_path: Path, placed: Any, listed: bool) -> None:
    records: Any = [as_mapping(20 * KIB) for _ in range(200)]
    with tfs.ShardedWriter(str(tmp_path / "train"), block_bytes=4 * KIB, **placed) as writer:
        writer.write_batch(records if listed else iter(records))
    blocks = [shard.blocks for shard in writer.manifest.shards]
    assert sum(len(one.offsets) - 1 for one in blocks if one is not None) == 200


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize("wrong", ["text", None, 3])
def test_what_is_no_record_is_told_by_its_number(tmp_path: Path, wrong: Any, listed: bool) -> None:
    records: list[Any] = [b"a"] * 5000 + [wrong]
    job = tfs.WriteJob(str(tmp_path / "train"))
    for write in (job.write, tfs.TFRecordWriter(str(tmp_path / "file")).write_batch):
        with pytest.raises(TypeError, match=r"records\[5000\] must be bytes-like, or a mapping"):
            write(records if listed else iter(records))
    with job.open() as writer, pytest.raises(TypeError, match="record must be bytes-like"):
        writer.write(wrong)
    job.abort()


def test_one_record_is_no_batch(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"))
    single: list[Any] = [b"record", "text", {"x": 1}]
    for one in single:
        with pytest.raises(TypeError, match="put a single record in a list"):
            job.write(one)
    job.abort()


def test_a_misfit_is_told_by_its_number_in_the_whole_batch(tmp_path: Path) -> None:
    job = tfs.WriteJob(str(tmp_path / "train"), schema={"x": tfs.Feature("int64")})
    with pytest.raises(tfs.SchemaError) as caught:
        job.write([{"x": 1}] * 5000 + [{"x": 1, "y": 2}])
    assert caught.value.record == 5000
    job.abort()

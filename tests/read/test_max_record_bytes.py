"""`max_record_bytes` holds for every look at a file, the walk along its headers too."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.indexes import put_dataset
from tfio_store.dali import write_idx
from tfio_store.dataset.block_tables import BlockTable, ShardInfo
from tfio_store.dataset.manifest import DatasetManifest

LONG = 3 << 29


@pytest.fixture
def long(tmp_path: Path) -> str:
    """A sparse file of one record that is longer than the default limit."""
    length = LONG.to_bytes(8, "little")
    header = length + tfs.masked_crc32c(length).to_bytes(4, "little")
    with (tmp_path / "long").open("wb") as file:
        file.write(header)
        file.truncate(LONG + 16)
    return str(tmp_path / "long")


WALKS: dict[str, Callable[..., Any]] = {
    "shuffle": lambda url, folder, **limit: tfs.RecordReader(url, **limit).shuffle(1).state(),
    "shard": lambda url, folder, **limit: tfs.RecordReader(url, **limit).shard(0, 2).state(),
    "source": lambda url, folder, **limit: tfs.RecordSource(url, **limit),
    "write_idx": lambda url, folder, **limit: write_idx(url, folder + "/idx", **limit),
}


@pytest.mark.parametrize("walk", WALKS)
def test_a_raised_limit_reaches_the_walk(long: str, tmp_path: Path, walk: str) -> None:
    with pytest.raises(tfs.errors.RecordTooLargeError, match="max_record_bytes="):
        WALKS[walk](long, str(tmp_path))
    WALKS[walk](long, str(tmp_path), max_record_bytes=2 << 30)


WHOLE = WALKS | {
    "build_index": lambda url, folder, **limit: tfs.build_index(url, **limit),
    "infer_schema": lambda url, folder, **limit: tfs.infer_schema(url, **limit),
    "read_table": lambda url, folder, **limit: tfs.read_table(url, **limit),
}


@pytest.mark.parametrize("walk", WHOLE)
def test_a_lowered_limit_reaches_everything(tmp_path: Path, walk: str) -> None:
    (tmp_path / "x").write_bytes(framed([tfs.encode_example({"a": 1}), bytes(1000)]))
    with pytest.raises(tfs.errors.RecordTooLargeError):
        WHOLE[walk](str(tmp_path / "x"), str(tmp_path), max_record_bytes=500)


def test_an_index_that_claims_a_huge_block_is_not_believed(tmp_path: Path) -> None:
    """No writer makes a block of more than 64 MiB and a record."""
    record = framed([bytes(1 << 20)])
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(record) for _ in range(70)) + packer.flush()
    table = BlockTable(np.array([0, len(data)]), np.array([0, 70 * len(record)]), np.array([0, 70]))
    shard = ShardInfo("t-00000.tfrecord", len(data), 70, tfs.crc32c(data), table)
    (tmp_path / shard.name).write_bytes(data)
    put_dataset(tmp_path / "t", DatasetManifest((shard,), "GZIP", generation="x"))
    with pytest.raises(tfs.errors.RecordTooLargeError, match="max_record_bytes="):
        list(tfs.RecordReader(tmp_path / "t", max_record_bytes=1 << 21))
    assert len(list(tfs.RecordReader(tmp_path / "t", max_record_bytes=1 << 24))) == 70

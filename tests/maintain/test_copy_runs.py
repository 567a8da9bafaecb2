"""`copy` to a number of shards: each holds a run of the source, which is placed as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.write.placement import FixedShards, InRuns


@pytest.fixture
def one_by_one(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The records that were placed one by one."""
    placed: list[Any] = []
    write = FixedShards.write

    def counting(self: FixedShards, record: Any, key: Any) -> None:
        placed.append(record)
        write(self, record, key)

    monkeypatch.setattr(FixedShards, "write", counting)
    return placed


@pytest.mark.parametrize(
    ("records", "num_shards"), [(0, 3), (1, 3), (2, 3), (7, 2), (5_000, 3), (5_000, 7)]
)
def test_each_shard_is_a_run(
    tmp_path: Path, one_by_one: list[Any], records: int, num_shards: int
) -> None:
    items = [b"%d" % number * (number % 9 + 1) for number in range(records)]
    source = f"{tmp_path}/a"
    with tfs.ShardedWriter(source, num_shards=1) as writer:
        writer.write_batch(items)
    made = tfs.copy(source, f"{tmp_path}/b", num_shards=num_shards)
    found = [list(tfs.RecordReader(f"{tmp_path}/{shard.name}")) for shard in made.shards]
    expected: list[list[bytes]] = [[] for _ in range(num_shards)]
    for number, item in enumerate(items):  # in the words of arithmetic
        expected[number * num_shards // records].append(item)
    assert found == expected
    assert one_by_one == []


def test_runs_are_cut_where_one_by_one_they_would_end() -> None:
    for records in range(12):
        for num_shards in range(1, 6):
            each = InRuns(records, num_shards)
            expected = [each(None) for _ in range(records + 3)]  # 3 that were not counted
            cut = InRuns(records, num_shards)
            found: list[int] = []
            for first in range(0, records + 3, 4):
                run = [b""] * min(4, records + 3 - first)
                for shard, part in cut.cut(run):
                    found += [shard] * len(part)
            assert found == expected
            assert max(found) == num_shards - 1


def test_a_shuffled_copy_has_as_many_shards(tmp_path: Path) -> None:
    tfs.write_table({"x": range(100)}, tmp_path / "a", num_shards=3)
    made = tfs.copy(tmp_path / "a", tmp_path / "b", shuffle_seed=1)
    assert len(made.shards) == 3
    found = tfs.read_table(tmp_path / "b")["x"].tolist()
    assert sorted(found) == list(range(100)) != found

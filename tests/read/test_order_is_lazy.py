"""`shard` and `shuffle` ask nothing of the store: the first record does. A long walk is told."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import flipped, framed

MIB = 1 << 20
RECORDS = [b"%04d" % i * 500 for i in range(2_000)]
"""4 MB: four blocks."""

ARRANGED: dict[str, Callable[[tfs.RecordReader], tfs.RecordReader]] = {
    "shared": lambda reader: reader.shard(1, 3),
    "shuffled": lambda reader: reader.shuffle(7, window=1),
    "shuffled, shared": lambda reader: reader.shuffle(7, window=1).shard(1, 3),
}


@pytest.fixture
def remote(tmp_path: Path) -> Place:
    place = Place(f"plain://{tmp_path}")
    place.put("x", framed(RECORDS))
    return place


@pytest.fixture
def asked(remote: Place, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The ranges that the store is asked for."""
    ranges: list[tuple[int, int]] = []
    kind = type(remote.open()[0])
    read = kind.read

    def counted(store: Any, path: str, start: int, stop: int, **version: Any) -> Any:
        ranges.append((start, stop))
        return read(store, path, start, stop, **version)

    monkeypatch.setattr(kind, "read", counted)
    return ranges


@pytest.mark.parametrize("arrange", ARRANGED)
def test_nothing_is_read_before_the_first_record(
    remote: Place, asked: list[tuple[int, int]], arrange: str
) -> None:
    whole = tfs.RecordReader(remote.url("x"))
    reader = pickle.loads(pickle.dumps(ARRANGED[arrange](whole)))
    assert asked == []
    records = list(reader)
    assert asked
    assert records == list(ARRANGED[arrange](whole))


def test_one_walk_serves_all_that_are_made_of_a_reader(
    remote: Place, asked: list[tuple[int, int]]
) -> None:
    whole = tfs.RecordReader(remote.url("x")).shuffle(3)
    found = [list(whole.shard(index, 4)) for index in range(4)]
    assert sorted(record for records in found for record in records) == RECORDS
    nbytes = len(framed(RECORDS))
    assert sum(stop - start for start, stop in asked) <= 2 * nbytes + MIB  # a walk, and a pass


def test_damage_of_a_header_is_met_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(flipped(framed(RECORDS), 100 * 2_016))
    reader = tfs.RecordReader(tmp_path / "x").shard(0, 1)
    with pytest.raises(tfs.CorruptRecordError, match=f"offset {100 * 2_016}"):
        next(iter(reader))


@pytest.mark.parametrize("arrange", ARRANGED)
def test_past_damage_no_blocks_are_looked_for(tmp_path: Path, arrange: str) -> None:
    """They could not be relied on: such files are read as streams, and so shared out whole."""
    data = bytearray(framed(RECORDS))
    data[100 * 2_016] ^= 1
    for name in "abc":
        (tmp_path / name).write_bytes(data)
    regions: list[tfs.SkippedRegion] = []
    reader = tfs.RecordReader(str(tmp_path / "*"), on_corrupt=regions.append)
    files = 3 if arrange == "shuffled" else 1
    assert sorted(ARRANGED[arrange](reader)) == sorted((RECORDS[:100] + RECORDS[101:]) * files)
    assert len(regions) == files


def test_a_long_walk_is_told(remote: Place) -> None:
    reader = tfs.RecordReader(remote.url("x"), memory_budget=2 * MIB).shard(0, 2)
    with pytest.warns(RuntimeWarning, match=r"3 MiB in 1 remote files have no index.*build_index"):
        list(reader)
    with pytest.warns(RuntimeWarning, match="no index") as told:
        tfs.RecordSource(remote.url("x"), memory_budget=2 * MIB)
    assert told[0].filename == __file__


def test_a_short_walk_is_not(remote: Place) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(tfs.RecordReader(remote.url("x")).shard(0, 2))
        tfs.RecordSource(remote.url("x"))
        tfs.build_index(remote.url("x"), memory_budget=2 * MIB)

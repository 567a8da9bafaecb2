"""Shards shuffled by way of a temporary file."""

from __future__ import annotations

import errno
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import numbered, read, sharded


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_names_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(**_: Any) -> Any:
        return open("/dev/full", "r+b", buffering=0)

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(OSError, match=r"shuffle_seed=.*TMPDIR") as caught:  # noqa: SIM117
        with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=2, shuffle_seed=1) as writer:
            writer.write_batch([bytes(1000)] * 10_000)
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == tempfile.gettempdir()
    assert list(tmp_path.iterdir()) == []


def test_records_go_round_the_shards(tmp_path: Path) -> None:
    """What the docstring of ``num_shards`` says."""
    with tfs.ShardedWriter(str(tmp_path / "t"), num_shards=4) as writer:
        writer.write_batch(b"%d" % i for i in range(100))
    assert tfs.RecordSource(tmp_path / "t")[7] == b"28"


def test_a_shuffle_is_a_permutation_and_the_same_for_the_same_seed(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    records = numbered(20_000)
    found = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        with sharded(place, name, shuffle_seed=seed) as writer:
            for record in records[:100]:
                writer.write(record)
            step = 7000 if name == "a" else 333
            for start in range(100, len(records), step):
                writer.write_batch(records[start : start + step])
        found[name] = read(place, name)
    assert sorted(found["a"]) == sorted(records)
    assert found["a"] == found["b"]
    assert found["a"] != found["c"]


def test_a_shuffle_is_uniform(tmp_path: Path) -> None:
    """Where record i ends up is spread over all places, and has nothing to do with i."""
    import numpy as np

    place = Place(str(tmp_path))
    with sharded(place, shuffle_seed=0) as writer:
        writer.write_batch(b"%d" % i for i in range(50_000))
    order = np.array([int(record) for record in read(place, "ds/train")])
    assert abs(np.corrcoef(order, np.arange(len(order)))[0, 1]) < 0.02
    counts = np.array([shard.records for shard in writer.manifest.shards])
    assert (abs(counts - 12_500) < 600).all()
    neighbours = np.abs(np.diff(order)) == 1
    assert neighbours.sum() < 20


def test_a_shuffled_writer_that_fails_leaves_nothing(place: Place) -> None:
    with pytest.raises(RuntimeError), sharded(place, shuffle_seed=3) as writer:
        writer.write_batch([bytes(1 << 20)] * 12)
        raise RuntimeError
    assert place.names() == []

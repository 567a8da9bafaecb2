"""Grain takes a `RecordSource` as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.framed import framed

grain = pytest.importorskip("grain.python", reason="Grain is not installed")

RECORDS = [b"%d" % i for i in range(500)]


@pytest.fixture
def source(tmp_path: Path) -> tfs.RecordSource:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    return tfs.RecordSource(tmp_path / "x")


def test_random_access_data_source(source: tfs.RecordSource) -> None:
    sampler = grain.IndexSampler(
        len(source), grain.NoSharding(), shuffle=True, num_epochs=1, seed=1
    )
    loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count=0)
    assert sorted(loader, key=int) == RECORDS


def test_map_dataset(source: tfs.RecordSource) -> None:
    dataset = grain.MapDataset.source(source).shuffle(seed=1).map(int)
    assert sorted(dataset) == list(range(500))

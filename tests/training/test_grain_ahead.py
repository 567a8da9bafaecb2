"""What Grain's `stream` decodes ahead: errors in their place, metrics, and little memory."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.training.grain_loading import COUNT, write, xs

pytest.importorskip("grain", reason="Grain is not installed")

import tfio_store.grain


def test_metrics_are_of_the_epoch(tmp_path: Path) -> None:
    write(str(tmp_path / "train"))
    reading = iter(tfio_store.grain.stream(str(tmp_path / "train"), num_epochs=2).batch(50))
    assert reading.metrics() == {}
    next(reading)
    assert reading.metrics()["records"] == 50
    assert len(xs(reading)) == 2 * COUNT - 50
    rows = iter(tfio_store.grain.stream(str(tmp_path / "train")))
    next(rows)
    assert rows.metrics()["decode_s"] > 0


@pytest.mark.parametrize("batch", [None, 20])
def test_a_record_that_does_not_fit_comes_in_its_place(tmp_path: Path, batch: int | None) -> None:
    url = str(tmp_path / "train")
    records = [tfs.encode_example({"x": x}) for x in range(1000)]
    records[700] = tfs.encode_example({"y": 700})
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096) as writer:
        writer.write_batch(records)
    dataset = tfio_store.grain.stream(url, schema={"x": "int64"})
    reading = iter(dataset if batch is None else dataset.batch(batch))
    given = []
    for _ in range(2):
        with pytest.raises(tfs.SchemaError):
            while True:
                given += xs([next(reading)])
    whole = {"x": tfs.Feature("int64", default=700)}
    other = tfio_store.grain.stream(url, schema=whole)
    rest = iter(other if batch is None else other.batch(batch))
    rest.set_state(reading.get_state())
    assert given + xs(rest) == list(range(1000))

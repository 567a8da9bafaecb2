"""Files that others wrote, as PyTorch's datasets: without an index, as streams, and damaged."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from tests.support.framed import framed
from tests.training.loading import loader

pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import TFRecordIterable

RECORDS = [b"%d" % i for i in range(2000)]


def records(dataset: TFRecordIterable, workers: int) -> list[bytes]:
    return [record for batch in loader(dataset, workers) for record in batch]


@pytest.fixture
def streams(tmp_path: Path) -> str:
    """Three GZIP streams, which cannot be cut."""
    for part in range(3):
        (tmp_path / f"x-{part}.gz").write_bytes(gzip.compress(framed(RECORDS[part::3])))
    return str(tmp_path / "x-*.gz")


def test_streams_have_no_even_shares(streams: str) -> None:
    with pytest.raises(ValueError, match=r"x-0\.gz"):
        TFRecordIterable(streams, batch_size=64, even="pad")


def test_streams_have_no_len(streams: str) -> None:
    with pytest.raises(TypeError, match=r"len\(\) is not known"):
        len(TFRecordIterable(streams, batch_size=64, num_workers=0))


def test_a_file_object_is_no_source() -> None:
    with pytest.raises(ValueError, match="source= is a file object"):
        TFRecordIterable(io.BytesIO(framed(RECORDS)), batch_size=64)  # type: ignore[arg-type]


def test_workers_that_persist_take_the_epoch_that_is_set(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    dataset = TFRecordIterable(str(tmp_path / "x"), batch_size=64, shuffle=True)
    with_workers = loader(dataset, 1, persistent_workers=True)
    orders = []
    for epoch in (3, 1, 3):
        dataset.set_epoch(epoch)
        orders.append([record for batch in with_workers for record in batch])
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0], key=int) == RECORDS

"""PyTorch's DataLoader over S3: worker processes of both start methods, map-style and streaming."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed

torch_data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")

RECORDS = [b"%04d" % i * 500 for i in range(4000)]


@pytest.fixture
def written(s3: Place) -> Place:
    for shard in range(4):
        s3.put(f"x-{shard}", framed(RECORDS[shard * 1000 : (shard + 1) * 1000]))
    return s3


class Streaming(torch_data.IterableDataset):  # type: ignore[name-defined]
    """Each worker reads its own blocks."""

    def __init__(self, reader: tfs.RecordReader) -> None:
        self.reader = reader

    def __iter__(self) -> Iterator[bytes]:
        worker = torch_data.get_worker_info()
        return iter(self.reader.shard(worker.id, worker.num_workers))


def loader(dataset: Any, method: str, **options: Any) -> Any:
    return torch_data.DataLoader(
        dataset, num_workers=2, multiprocessing_context=method, collate_fn=list, **options
    )


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_map_style(written: Place, method: str) -> None:
    source = tfs.RecordSource(written.url("x-*"), storage_options=written.storage_options)
    assert source[0] == RECORDS[0]  # connections exist before the fork
    batches = list(loader(source, method, batch_size=100, shuffle=True))
    assert sorted(record for batch in batches for record in batch) == RECORDS


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_streaming(written: Place, method: str) -> None:
    reader = tfs.RecordReader(written.url("x-*"), storage_options=written.storage_options)
    next(iter(reader))
    dataset = Streaming(
        tfs.RecordReader(written.url("x-*"), storage_options=written.storage_options)
    )
    batches = list(loader(dataset, method, batch_size=64))
    assert sorted(record for batch in batches for record in batch) == RECORDS

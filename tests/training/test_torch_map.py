"""`TFRecordMap` under samplers: rows by number, decoded a batch at a time, one index for all."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.long import first
from tests.training.loading import COUNT, numbers, torch_data, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import RaggedTensor, TFRecordMap  # noqa: E402

ALL = list(range(COUNT))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"))


def test_rows_and_batches(url: str) -> None:
    dataset = TFRecordMap(url)
    order = numbers([dataset[:]])
    assert len(dataset) == COUNT
    assert sorted(order) == ALL
    assert dataset[7]["x"].item() == dataset[torch.tensor(7)]["x"].item() == order[7]
    assert dataset[[9, 3]]["x"].tolist() == [order[9], order[3]]
    assert dataset[torch.tensor([9, 3])]["x"].tolist() == [order[9], order[3]]
    assert dataset[-1]["x"].item() == order[-1]
    with pytest.raises(IndexError):
        dataset[COUNT]


@pytest.mark.parametrize("workers", [0, 2])
def test_shuffled_by_a_loader(url: str, workers: int) -> None:
    loader = torch_data.DataLoader(
        TFRecordMap(url), batch_size=100, shuffle=True, num_workers=workers
    )
    first, second = numbers(loader), numbers(loader)
    assert sorted(first) == sorted(second) == ALL
    assert first != second


@pytest.mark.parametrize("method", first(1, ["forkserver", "spawn"]))
def test_workers_that_are_not_forked(s3: Place, method: str) -> None:
    url = written(s3.url("train"), storage_options=s3.storage_options)
    dataset = TFRecordMap(url, storage_options=s3.storage_options)
    loader = torch_data.DataLoader(
        dataset, batch_size=100, shuffle=True, num_workers=2, multiprocessing_context=method
    )
    assert sorted(numbers(loader)) == ALL


def test_a_distributed_sampler(url: str) -> None:
    dataset, read = TFRecordMap(url), []
    for rank in range(2):
        sampler = torch_data.DistributedSampler(dataset, 2, rank, seed=3)
        loader = torch_data.DataLoader(dataset, batch_size=100, sampler=sampler)
        read.append(numbers(loader))
    assert [len(part) for part in read] == [502, 502]
    assert set(read[0] + read[1]) == set(ALL)


def test_a_sampler_of_batches(url: str) -> None:
    dataset = TFRecordMap(url)
    batches = torch_data.BatchSampler(torch_data.SequentialSampler(dataset), 100, drop_last=False)
    loader = torch_data.DataLoader(dataset, sampler=batches, batch_size=None)
    assert sorted(numbers(loader)) == ALL


def test_a_subset(url: str) -> None:
    part = torch_data.Subset(TFRecordMap(url), range(10))
    (batch,) = torch_data.DataLoader(part, batch_size=10)
    assert len(batch["x"]) == 10


def test_rows_for_a_collate_fn(url: str) -> None:
    dataset = TFRecordMap(url)
    (rows,) = torch_data.DataLoader(
        torch_data.Subset(dataset, range(5)), batch_size=5, collate_fn=list
    )
    assert [row["x"].item() for row in rows] == numbers([dataset[:5]])
    collated = torch_data.default_collate(rows)
    assert collated["x"].tolist() == numbers([dataset[:5]])
    assert rows[1:3] == rows[1:3]


def test_ragged_rows_come_in_one_batch(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    tfs.write_table({"ids": tfs.Ragged.from_rows([[1], [2, 3], []])}, url)
    (batch,) = torch_data.DataLoader(TFRecordMap(url), batch_size=3)
    assert isinstance(batch["ids"], RaggedTensor)
    assert batch["ids"].padded(fill=-1).tolist() == [[1, -1], [2, 3], [-1, -1]]


def test_records_as_bytes(tmp_path: Path) -> None:
    records = [b"%d" % i for i in range(10)]
    (tmp_path / "x").write_bytes(framed(records))
    dataset = TFRecordMap(str(tmp_path / "x"))
    assert dataset.schema is None
    assert dataset[3] == b"3"
    assert dataset[2:4] == [b"2", b"3"]
    (batch,) = torch_data.DataLoader(dataset, batch_size=10)
    assert batch == records


# The index


def large_index(folder: Path) -> TFRecordMap:
    """A source of 450,000 records, of which the index holds places and CRCs: 3.6 MB. Longer
    indexes are read in parts, where they are used."""
    with tfs.ShardedWriter(str(folder / "train"), num_shards=1, record_positions=True) as writer:
        writer.write_batch([b""] * 450_000)
    return TFRecordMap(str(folder / "train"), schema="bytes", cache_bytes=0)


def private_bytes(address: int) -> int:
    """What this process holds for itself of the memory mapping in which an address lies."""
    mappings = re.split(
        r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.M
    )
    for mapping in mappings[1:]:
        start, end = (int(bound, 16) for bound in mapping.split()[0].split("-"))
        if start <= address < end:
            return sum(int(kib) << 10 for kib in re.findall(r"^Private_\w+: +(\d+)", mapping, re.M))
    raise AssertionError("no mapping has that address")


class Held(torch_data.Dataset):
    """Tells how much of the index is a worker's own, once it has read."""

    def __init__(self, dataset: TFRecordMap) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[int, int]:
        assert self.dataset[index] == b""
        return os.getpid(), private_bytes(table(self.dataset).starts.ctypes.data)


@pytest.mark.parametrize("method", first(1, ["spawn", "forkserver"]))
def test_workers_share_the_index(tmp_path: Path, method: str) -> None:
    dataset = large_index(tmp_path)
    picked = np.random.default_rng(1).integers(0, len(dataset), 64).tolist()
    loader = torch_data.DataLoader(
        Held(dataset), sampler=picked, batch_size=None, num_workers=2,
        multiprocessing_context=method,
    )  # fmt: skip
    found = list(loader)
    assert len({pid for pid, _ in found}) == 2
    assert max(own for _, own in found) < table(dataset).nbytes // 4


def table(dataset: TFRecordMap) -> Any:
    (found,) = dataset._records.value.dataset.shards.tables([0])
    return found


def test_a_spawned_worker_gets_a_small_pickle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from multiprocessing import reduction

    dataset = large_index(tmp_path)
    sizes: list[int] = []
    assert table(dataset).nbytes > 3_000_000

    def dump(*args: Any) -> None:
        into = args[1]
        before = into.tell()
        plain_dump(*args)
        sizes.append(into.tell() - before)

    plain_dump = reduction.dump
    monkeypatch.setattr(reduction, "dump", dump)
    process = multiprocessing.get_context("spawn").Process(target=len, args=(dataset,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert max(sizes) < 20_000

"""A loader's ``collate_fn`` gets the same of both of PyTorch's datasets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.training.loading import COUNT, loader, written

torch_data = pytest.importorskip("torch.utils.data", reason="PyTorch is not installed")

from tfio_store.torch import TFRecordIterable, TFRecordMap  # noqa: E402


def doubled(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"] * 2}


def told(got: Any) -> tuple[str, str, Any]:
    """What a collate_fn got: its kind, that of its first item, and the numbers in it."""
    if isinstance(got, dict):
        return "dict", type(got["x"]).__name__, got["x"].tolist()
    first = "dict" if isinstance(got[0], dict) else type(got[0]).__name__
    return "list", first, [row["x"].item() if isinstance(row, dict) else row for row in got]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(str(tmp_path_factory.mktemp("collate") / "train"))


@pytest.mark.parametrize("transform", [None, doubled])
@pytest.mark.parametrize("workers", [0, 1])
def test_a_list_of_rows(url: str, workers: int, transform: Any) -> None:
    """Where the loader makes the batches."""
    found = [
        list(torch_data.DataLoader(dataset, batch_size=10, num_workers=workers, collate_fn=told))
        for dataset in (
            TFRecordIterable(url, transform=transform),
            TFRecordMap(url, transform=transform),
        )
    ]
    assert found[0] == found[1]
    assert {each[:2] for each in found[0]} == {("list", "dict")}
    times = 2 if transform else 1
    wanted = [int(x) * times for x in tfs.read_table(url)["x"]]
    assert [x for each in found[0] for x in each[2]] == wanted


@pytest.mark.parametrize("workers", [0, 1])
def test_a_batch(url: str, workers: int) -> None:
    """Where the dataset makes the batches."""
    by_tens = TFRecordIterable(url, batch_size=10)
    found = list(loader(by_tens, workers, collate_fn=told))
    dataset = TFRecordMap(url)
    tens = torch_data.BatchSampler(torch_data.SequentialSampler(dataset), 10, drop_last=False)
    assert list(loader(dataset, workers, sampler=tens, collate_fn=told)) == found
    assert {each[:2] for each in found} == {("dict", "Tensor")}
    assert sum(len(each[2]) for each in found) == COUNT


def test_a_list_of_records(tmp_path: Path) -> None:
    records = [b"%d" % i for i in range(20)]
    (tmp_path / "x").write_bytes(framed(records))
    for kind in (TFRecordIterable, TFRecordMap):
        found = torch_data.DataLoader(kind(str(tmp_path / "x")), batch_size=20, collate_fn=told)
        assert list(found) == [("list", "bytes", records)]

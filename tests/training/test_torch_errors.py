"""What fails in a worker fails in the training process, with all that the error tells. Nothing is
lost behind it, and nothing hangs."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tests.training.loading import loader, torch_data, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tfio_store.torch import TFRecordIterable, TFRecordMap  # noqa: E402
from tfio_store.torch.workers import carrying_errors  # noqa: E402

RECORDS = [tfs.encode_example({"x": i}) for i in range(20)]


@pytest.fixture
def damaged(tmp_path: Path) -> str:
    """Record 10 has one bit that is wrong."""
    (tmp_path / "x").write_bytes(flipped(framed(RECORDS), len(framed(RECORDS[:10])) + 12))
    return str(tmp_path / "x")


def kinds(source: str, **options: Any) -> list[Any]:
    schema = {"x": "int64"}
    return [
        TFRecordIterable(source, schema=schema, batch_size=4, **options),
        TFRecordMap(source, schema=schema, **options),
    ]


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_damage_tells_path_and_offset(damaged: str, kind: int, method: str) -> None:
    dataset = kinds(damaged)[kind]
    sampler = None if kind == 0 else [[10]]
    batches = iter(loader(dataset, 1, method, sampler=sampler))
    with pytest.raises(tfs.CorruptRecordError) as caught:
        list(batches)
    assert caught.value.path == damaged
    assert caught.value.offset == len(framed(RECORDS[:10]))
    assert type(caught.value) is tfs.CorruptRecordError
    assert "in DataLoader worker process 0" in str(caught.value.__cause__)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_schema_that_does_not_fit_names_source_and_feature(tmp_path: Path, workers: int) -> None:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    dataset = TFRecordIterable(str(tmp_path / "x"), schema={"y": "int64"}, batch_size=4)
    with pytest.raises(tfs.SchemaError) as caught:
        list(loader(dataset, workers))
    assert caught.value.feature == "y"
    assert caught.value.path == str(tmp_path / "x")


def test_too_large_a_record_tells_its_length(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([b"x" * 5000]))
    dataset = TFRecordIterable(str(tmp_path / "x"), batch_size=1)
    reader = dataset._reader.value
    assert isinstance(reader, tfs.RecordReader)
    object.__setattr__(reader._traversal.options, "max_record_bytes", 1000)
    with pytest.raises(tfs.errors.RecordTooLargeError) as caught:
        list(loader(dataset, 1))
    assert (caught.value.length, caught.value.limit) == (5000, 1000)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("size", [None, 4])
def test_a_record_that_does_not_fit_is_no_end(
    tmp_path: Path, size: int | None, shuffle: bool
) -> None:
    """The state stands before what was not given, also of single rows."""
    url = str(tmp_path / "train")
    records = [tfs.encode_example({"x": i}) for i in range(1000)]
    records[700] = tfs.encode_example({"y": 700})
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096) as writer:
        writer.write_batch(records)
    options: dict[str, Any] = {"batch_size": size, "shuffle": shuffle}
    dataset = TFRecordIterable(url, schema={"x": "int64"}, **options)
    steps, given = iter(dataset), []
    for _ in range(2):
        with pytest.raises(tfs.SchemaError):
            while True:
                given.append(next(steps)["x"])
    other = TFRecordIterable(url, schema={"x": tfs.Feature("int64", default=700)}, **options)
    other.load_state_dict(dataset.state_dict())
    given += [row["x"] for row in other]
    assert sorted(int(x) for part in given for x in part.reshape(-1)) == list(range(1000))


def test_a_file_that_has_gone(tmp_path: Path) -> None:
    url = written(str(tmp_path / "train"))
    dataset = TFRecordIterable(url, batch_size=4)
    for file in tmp_path.glob("train-*"):
        file.unlink()
    for workers in (0, 1):
        with pytest.raises(FileNotFoundError, match="train-00000") as caught:
            list(loader(dataset, workers))
        assert type(caught.value) is FileNotFoundError
        assert caught.value.errno == errno.ENOENT
        assert "train-00000" in caught.value.filename


class Unpicklable(OSError):
    """An error of a client, which holds its connection."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.connection = open(os.devnull)  # noqa: SIM115 - a pickle of it is an error


class Failing(torch_data.Dataset):
    def __getitem__(self, index: int) -> Any:
        with carrying_errors:
            raise Unpicklable("the connection broke")


def test_an_error_that_holds_a_connection_crosses_as_its_text() -> None:
    with pytest.raises(Unpicklable, match="the connection broke"):
        list(torch_data.DataLoader(Failing(), sampler=[0], num_workers=1, timeout=60))


class Deadly(torch_data.Dataset):
    """Kills the worker that reads row 50."""

    def __init__(self, url: str) -> None:
        self.dataset = TFRecordMap(url)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        if index == 50:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.dataset[index]


def deadly(batch: Any) -> Any:
    if 500 in batch["x"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch


@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_that_is_killed_is_named(tmp_path: Path, persistent: bool) -> None:
    dataset = TFRecordIterable(written(str(tmp_path / "train")), batch_size=10)
    check_killed_is_named(loader(dataset, 2, collate_fn=deadly, persistent_workers=persistent))


def check_killed_is_named(with_workers: Any) -> None:
    with pytest.raises(RuntimeError, match=r"DataLoader worker \(pid\(?s?\)? ?\d+\)"):
        try:
            list(with_workers)
        except (ConnectionError, EOFError):  # in the midst of a tensor that the worker sent
            time.sleep(20)  # until the loader's handler of SIGCHLD tells why


def test_a_worker_that_is_killed_over_a_map(tmp_path: Path) -> None:
    dataset = Deadly(written(str(tmp_path / "train")))
    check_killed_is_named(torch_data.DataLoader(dataset, batch_size=20, num_workers=2))

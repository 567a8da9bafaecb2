"""Processes of a job: they find their rank, and train to the end where shares are even."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.long import first
from tests.training.loading import COUNT, loader, numbers, written

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchdata", reason="torchdata is not installed")

from tfio_store.torch import TFRecordIterable  # noqa: E402

ROOT = Path(__file__).parent.parent.parent
ALL = list(range(COUNT))


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(str(tmp_path / "train"))


def joined(rank: int, folder: str, ranks: int) -> Any:
    """This process as a rank of a job."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks
    )
    return torch.distributed


def started(target: Any, *arguments: Any, start: str = "spawn") -> list[Any]:
    """Spawned: a forked child has no forkserver of its own once this process has one."""
    context: Any = multiprocessing.get_context(start)
    found = [context.Process(target=target, args=(rank, *arguments)) for rank in range(2)]
    for process in found:
        process.start()
    return found


def read(rank: int, folder: str, url: str, workers: int, method: str) -> None:
    dataset = TFRecordIterable(url, batch_size=50, shuffle=True)  # before there is a group
    dist = joined(rank, folder, 2)
    given = numbers(loader(dataset, workers, method))
    Path(folder, f"read-{rank}").write_text(repr(given))
    dist.barrier()


@pytest.mark.parametrize(
    ("workers", "method"), first(3, [(0, "fork"), (2, "fork"), (1, "forkserver"), (1, "spawn")])
)
def test_ranks_of_a_process_group(tmp_path: Path, url: str, workers: int, method: str) -> None:
    for process in started(read, str(tmp_path), url, workers, method):
        process.join()
        assert process.exitcode == 0
    parts = [eval((tmp_path / f"read-{rank}").read_text()) for rank in range(2)]
    assert sorted(parts[0] + parts[1]) == ALL
    assert parts[0]
    assert parts[1]


def read_of(rank: int, dataset: Any, folder: str, workers: int, method: str) -> None:
    dist = joined(rank, folder, 2)
    with_workers = loader(dataset, workers, method)
    given = [numbers(with_workers) for _ in range(2)]
    Path(folder, f"read-{rank}").write_text(repr(given))
    dist.barrier()


@pytest.mark.parametrize(
    ("start", "workers", "method"),
    first(
        3,
        [
            ("spawn", 1, "spawn"),
            ("spawn", 1, "fork"),
            ("fork", 0, "fork"),
            ("spawn", 0, "fork"),
            ("fork", 1, "fork"),
            ("fork", 1, "spawn"),
        ],
    ),
)
def test_ranks_that_were_handed_a_dataset(
    tmp_path: Path, url: str, start: str, workers: int, method: str
) -> None:
    """As by torch.multiprocessing.spawn. Each is a rank of its own, in the same epochs."""
    dataset = TFRecordIterable(url, batch_size=50, shuffle=True)
    for process in started(read_of, dataset, str(tmp_path), workers, method, start=start):
        process.join()
        assert process.exitcode == 0
    parts = [eval((tmp_path / f"read-{rank}").read_text()) for rank in range(2)]
    for epoch in range(2):
        assert sorted(parts[0][epoch] + parts[1][epoch]) == ALL
    assert sorted(numbers(dataset)) == ALL


def test_ranks_of_the_environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        parts.append(numbers(loader(TFRecordIterable(url, batch_size=50), 1)))
    assert sorted(sum(parts[1:], parts[0])) == ALL
    monkeypatch.setenv("RANK", "one")
    with pytest.raises(ValueError, match="RANK='one'"):
        numbers(TFRecordIterable(url, batch_size=50))


def train(rank: int, folder: str, url: str, even: Any) -> None:
    dist = joined(rank, folder, 2)
    torch.manual_seed(0)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))
    dataset = TFRecordIterable(url, batch_size=10, even=even)
    for steps, batch in enumerate(loader(dataset, 1), 1):
        model(batch["x"].float()[:, None] / COUNT).mean().backward()
        Path(folder, f"steps-{rank}").write_text(str(steps))
    Path(folder, f"ended-{rank}").touch()
    dist.barrier()


@pytest.fixture
def uneven(tmp_path: Path) -> str:
    """Three blocks: one rank has two of them."""
    url = str(tmp_path / "uneven")
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096, schema={"x": "int64"}) as writer:
        for x in range(300):
            writer.write({"x": x})
    return url


@pytest.mark.parametrize("even", ["pad", "drop"])
def test_even_shares_train_to_the_end(tmp_path: Path, uneven: str, even: str) -> None:
    for process in started(train, str(tmp_path), uneven, even):
        process.join()
        assert process.exitcode == 0
    assert (tmp_path / "steps-0").read_text() == (tmp_path / "steps-1").read_text() == "15"


@pytest.mark.long
def test_uneven_shares_hang(tmp_path: Path, uneven: str) -> None:
    """What `even=` is for. One rank ends, and the other waits for it in its next step."""
    processes = started(train, str(tmp_path), uneven, None)
    try:
        while not list(tmp_path.glob("ended-*")):
            assert all(process.is_alive() for process in processes)
        processes[0].join(timeout=5)
        assert all(process.is_alive() for process in processes)
        assert len(list(tmp_path.glob("ended-*"))) == 1
    finally:
        for process in processes:
            process.kill()
            process.join()


@pytest.mark.long
def test_the_example_goes_on_with_another_number_of_processes(tmp_path: Path) -> None:
    values = np.random.default_rng(1)
    x = values.random((1003, 8)).astype(np.float32)
    tfs.write_table({"x": x, "y": x.sum(axis=1)}, f"{tmp_path}/train", num_shards=3)

    def run(processes: int, epochs: int) -> str:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node"]
        command += [str(processes), "--master-port", "0", "--rdzv-backend", "c10d"]
        command += ["--rdzv-endpoint", "127.0.0.1:0", str(ROOT / "examples/torch_ddp.py")]
        command += [f"{tmp_path}/train", "--checkpoint", f"{tmp_path}/model.pt"]
        environment = os.environ | {"GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*command, "--epochs", str(epochs)],
            env=environment, capture_output=True, text=True, timeout=200,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(2, 1).count("epoch 0") == 2
    assert run(1, 2).count("epoch 1") == 1

"""Far from the usual, as little is done as usual: what is counted here is work, not time."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from tests.support.framed import framed
from tests.support.requests import Bucket

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.saved import restored  # noqa: E402
from tfio_store.tf.dataset import blocks, runtime, streams  # noqa: E402
from tfio_store.tf.dataset.options import StreamRequest  # noqa: E402

pytestmark = pytest.mark.tensorflow

FILES = 600


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Small files of 0 to 2 records, every third compressed, the last one empty."""
    folder = tmp_path_factory.mktemp("tiny")
    for i in range(FILES):
        data = framed([b"%d %d" % (i, k) for k in range((FILES - 1 - i) % 3)])
        (folder / f"{i:03d}").write_bytes(gzip.compress(data) if i % 3 == 0 else data)
    return sorted(str(path) for path in folder.iterdir())


@pytest.fixture
def readers(monkeypatch: pytest.MonkeyPatch) -> list[blocks.BlockReader]:
    """Those that are made."""
    made: list[blocks.BlockReader] = []
    make = blocks.BlockReader.__init__

    def noted(self: blocks.BlockReader, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(blocks.BlockReader, "__init__", noted)
    return made


def records(tiny: list[str]) -> list[bytes]:
    return [b"%d %d" % (i, k) for i in range(len(tiny)) for k in range((FILES - 1 - i) % 3)]


def test_small_files_share_a_scan_and_need_no_reader(
    tiny: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_stream = runtime._open

    def noted(asked: StreamRequest) -> Any:
        opened.append(asked.url)
        return open_stream(asked)

    monkeypatch.setattr(runtime, "_open", noted)
    assert streams.files_at_once([100] * FILES) == FILES // 64
    found = [record.numpy() for record in tfs.TFRecordDataset(tiny)]
    assert found == records(tiny)
    assert opened == []


def test_a_checkpoint_among_small_files(tiny: list[str], tmp_path: Path) -> None:
    expected = records(tiny)
    dataset = tfs.TFRecordDataset(tiny)
    assert [record.numpy() for record in restored(dataset, 211, tmp_path)[1]] == expected[211:]


@pytest.mark.parametrize(
    ("sizes", "at_once"),
    [
        pytest.param([], 1, id="none"),
        pytest.param([0] * 10, 1, id="few"),
        pytest.param([100] * 10_000, 156, id="many small"),
        pytest.param([1 << 20] * 10_000, 1, id="many large"),
        pytest.param([1 << 18] * 10_000, 4, id="a MiB at once"),
        pytest.param([1 << 13] * 10_000, 128, id="a MiB of smaller ones"),
    ],
)
def test_how_many_files_share_a_scan(sizes: list[int], at_once: int) -> None:
    assert streams.files_at_once(sizes) == at_once


def test_tiny_batches_are_not_read_one_by_one(
    tmp_path: Path, readers: list[blocks.BlockReader]
) -> None:
    (tmp_path / "f").write_bytes(framed([b"x"] * 100_000))
    found = tfs.TFRecordDataset(str(tmp_path / "f"), batch_size=1)
    assert found.cardinality() == 100_000
    assert [reader.count for reader in readers] == [2]  # blocks as one request brings them


def test_a_window_is_no_larger_than_the_dataset(
    tmp_path: Path, readers: list[blocks.BlockReader]
) -> None:
    (tmp_path / "f").write_bytes(framed([b"x"] * 100))
    tfs.TFRecordDataset(str(tmp_path / "f"), shuffle=10**8)
    assert [reader.window for reader in readers] == [1]


def test_a_window_keeps_to_the_budget(tmp_path: Path, readers: list[blocks.BlockReader]) -> None:
    (tmp_path / "f").write_bytes(framed([bytes(100_000)] * 200))
    with pytest.warns(RuntimeWarning, match="memory_budget"):
        tfs.TFRecordDataset(str(tmp_path / "f"), shuffle=256, memory_budget=8 << 20)
    assert 1 <= readers[0].window <= 4


class Gate:
    """Answers wait until so many are asked for at once, or until nothing more is asked for."""

    def __init__(self, least: int) -> None:
        self.least = least
        self.waiting: SimpleQueue[tuple[Future[Any], Future[Any]]] = SimpleQueue()
        self.stalls = 0
        """How often fewer were asked for."""
        self.asked = self.seen = 0
        self.ended = threading.Event()
        threading.Thread(target=self.run, daemon=True).start()

    def hold(self, answer: Future[Any]) -> Future[Any]:
        held: Future[Any] = Future()
        self.waiting.put((answer, held))
        self.asked += 1
        return held

    def run(self) -> None:
        while not self.ended.wait(0.4):
            count = self.waiting.qsize()
            if count >= self.least or (count and self.asked == self.seen):
                self.stalls += count < self.least
                for _ in range(count):
                    answer, held = self.waiting.get()
                    if not held.set_running_or_notify_cancel():
                        continue
                    try:
                        held.set_result(answer.result())
                    except BaseException as error:
                        held.set_exception(error)
            self.seen = self.asked


def test_blocks_of_a_shuffle_are_asked_for_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If some are asked for only when their records are wanted, batches wait for the store."""
    bucket, wherever, gate = Bucket(tmp_path), runtime._wherever, Gate(8)
    monkeypatch.setattr(runtime, "_wherever", lambda *given: gate.hold(wherever(*given)))
    url = "s3://bucket/train"
    with tfs.ShardedWriter(str(bucket.folder / "train"), num_shards=2) as writer:
        writer.write_batch([bytes(10_000)] * 32_000)
    with bucket.served() as how:
        records = tfs.TFRecordDataset(url, storage_options=how).shuffle(1000, seed=1)
        assert len(list(records.batch(256))) == 125
    gate.ended.set()
    assert gate.stalls <= 4  # at the end

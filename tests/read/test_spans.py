"""Spans: many threads do the work, and nothing else changes: records, states, errors, memory."""

from __future__ import annotations

import gc
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.long import long_on_pure
from tfio_store.errors import CorruptRecordError, DataLossError, ReplacedError
from tfio_store.read import spans
from tfio_store.records.framing import FileScan
from tfio_store.storage import read_ahead
from tfio_store.storage.cores import cores, workers
from tfio_store.storage.local import LocalStore

THREADS = [1, 2, 5, None]


def records_of(seed: int, longest: int = 3000, count: int = 400) -> list[bytes]:
    """Some of them hold frames themselves, whole ones and cut ones."""
    dice = random.Random(seed)
    found = [dice.randbytes(dice.randrange(longest)) for _ in range(count)]
    for i in range(0, count, 7):
        inner = framed(found[i : i + dice.randrange(4)])
        found[i] = inner[dice.randrange(3) * dice.randrange(20) :]
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Spans of 4 to 16 KiB, none of which is small enough for the caller."""
    monkeypatch.setattr(LocalStore, "range_bytes", 1 << 12)
    monkeypatch.setattr(read_ahead, "_SMALL", 0)
    return 1 << 12


def ours(path: Path, records: list[bytes], compression: str | None) -> str:
    url = str(path / "train")
    with tfs.ShardedWriter(url, num_shards=3, compression=compression, block_bytes=4096) as writer:
        writer.write_batch(records)
    return url


def foreign(path: Path, records: list[bytes]) -> str:
    (path / "foreign").write_bytes(framed(records))
    return str(path / "foreign")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
def test_threads_change_nothing(tmp_path: Path, compression: str | None, threads: int) -> None:
    records = records_of(1)
    url = ours(tmp_path, records, compression)
    reader = tfs.RecordReader(url, threads=threads)
    assert sorted(reader) == sorted(records)
    in_order = [record for batch in reader.batches() for record in batch]
    assert in_order == list(tfs.RecordReader(url, on_corrupt="skip", threads=threads))
    assert sorted(reader.shuffle(1)) == sorted(records)
    assert sorted(reader.shard(0, 2)) + sorted(reader.shard(1, 2)) != []


@long_on_pure
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("seed", range(30))
def test_a_foreign_stream_is_cut_anywhere(tmp_path: Path, seed: int) -> None:
    longest = random.Random(seed).choice((30, 600, 5000, 30_000))
    records = records_of(seed, longest, 300)
    url = foreign(tmp_path, records)
    for on_corrupt in ("raise", "skip"):
        reader = tfs.RecordReader(url, on_corrupt=on_corrupt, threads=3)
        assert [record for batch in reader.batches() for record in batch] == records
        assert list(reader) == records


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("kind", ["ours", "foreign", "GZIP"])
def test_a_state_at_any_record(tmp_path: Path, kind: str, verify: bool) -> None:
    records = records_of(3, 600)
    if kind == "foreign":
        url = foreign(tmp_path, records)
    else:
        url = ours(tmp_path, records, "GZIP" if kind == "GZIP" else None)
    reader = tfs.RecordReader(url, verify=verify)
    whole, states = [], [reader.state()]
    for record in reader:
        whole.append(record)
        states.append(reader.state())
    for at in range(0, len(whole), 17):
        again = tfs.RecordReader(url, verify=verify, threads=2)
        again.restore(states[at])
        rest = [record for batch in again.batches() for record in batch]
        assert rest == whole[at:]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("seed", range(15))
def test_an_error_comes_in_its_place(tmp_path: Path, seed: int, compression: str | None) -> None:
    records = records_of(seed, 600)
    url = ours(tmp_path, records, compression)
    whole = list(tfs.RecordReader(url))
    dice = random.Random(seed)
    path = dice.choice([each for each in sorted(tmp_path.iterdir()) if "train-" in each.name])
    data = bytearray(path.read_bytes())
    at = dice.randrange(len(data))
    data[at] ^= 1 + dice.randrange(255)
    path.write_bytes(data)
    found: list[bytes] = []
    with pytest.raises(DataLossError) as caught:
        for batch in tfs.RecordReader(url, threads=3).batches():
            found += batch
    assert found == whole[: len(found)]
    assert caught.value.path == str(path)
    regions: list[tfs.SkippedRegion] = []
    sound = list(tfs.RecordReader(url, on_corrupt=regions.append, threads=3))
    assert [record for record in whole if record not in set(sound)] != []
    assert sound[: len(found)] == found
    if compression is None:
        assert caught.value.offset == regions[0].offset <= at


@pytest.mark.usefixtures("small")
def test_a_foreign_error_comes_in_its_place(tmp_path: Path) -> None:
    records = records_of(5, 600)
    url = foreign(tmp_path, records)
    data = bytearray(Path(url).read_bytes())
    starts = [0]
    for record in records:
        starts.append(starts[-1] + len(record) + 16)
    for number in (0, 1, 57, 200, 399):
        damaged = bytearray(data)
        damaged[starts[number] + 3] ^= 1
        Path(url).write_bytes(damaged)
        found: list[bytes] = []
        with pytest.raises(CorruptRecordError) as caught:
            for batch in tfs.RecordReader(url).batches():
                found += batch
        assert (found, caught.value.offset) == (records[:number], starts[number])


@pytest.mark.usefixtures("small")
def test_a_file_replaced_meanwhile(tmp_path: Path) -> None:
    records = records_of(6)
    url = foreign(tmp_path, records)
    batches = tfs.RecordReader(url, threads=1).batches()
    first = next(batches).tolist()
    (tmp_path / "other").write_bytes(framed(records[::-1]))
    (tmp_path / "other").rename(url)
    found = list(first)
    with pytest.raises(ReplacedError):
        for batch in batches:
            found += batch
    assert found == records[: len(found)]


@pytest.fixture
def busy() -> Iterator[threading.Event]:
    """All of the process's workers wait for this."""
    free = threading.Event()
    waiting = [workers().submit(free.wait, 60) for _ in range(cores() + 5)]
    yield free
    free.set()
    for each in waiting:
        each.result()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_no_reader_waits_for_what_others_do(
    tmp_path: Path, busy: threading.Event, compression: str | None
) -> None:
    records = records_of(7)
    url = ours(tmp_path, records, compression)
    assert sorted(tfs.RecordReader(url)) == sorted(records)
    assert not busy.is_set()


@pytest.mark.usefixtures("small")
def test_several_readers_in_several_threads(tmp_path: Path) -> None:
    records = records_of(8)
    url = ours(tmp_path, records, None)
    found: list[list[bytes]] = []
    threads = [
        threading.Thread(target=lambda n=n: found.append(list(tfs.RecordReader(url, threads=n))))
        for n in (None, 1, 2, 3, None, None)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 6
    assert all(each == found[0] for each in found)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_an_abandoned_reader_leaves_nothing(tmp_path: Path, compression: str | None) -> None:
    url = ours(tmp_path, records_of(9), compression)
    list(tfs.RecordReader(url))
    gc.collect()
    threads = len(threading.enumerate())
    for turn in range(200):
        batches = tfs.RecordReader(url).batches()
        for _ in range(turn % 4):
            next(batches)
        del batches
    assert len(threading.enumerate()) <= threads + cores()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_so_many_threads_work_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, threads: int
) -> None:
    url = ours(tmp_path, records_of(10), None)
    at_once, most, lock = 0, 0, threading.Lock()

    class InPython:
        def __init__(self, *args: Any, **options: Any) -> None:
            self._scan = FileScan(*args, **options)

        def begin(self, threads: int, at_once: int) -> bool:
            return False

        def result(self) -> Any:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            found = self._scan.result()
            with lock:
                at_once -= 1
            return found

    monkeypatch.setattr(spans, "FileScan", InPython)
    list(tfs.RecordReader(url, threads=threads).batches())
    assert most <= max(threads, cores()) + 1

"""What several threads read at once: a source of all, readers of their own, and one reader of all,
which is misuse: it may say so, but gives no record twice, and none that is another's."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.threads import THREADS, in_threads

RECORDS = [b"%06d" % i * (1 + i % 50) for i in range(10_000)]


@pytest.fixture(scope="module", params=[None, "GZIP"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("written") / "train"
    how = {"compression": request.param, "block_bytes": 64 << 10}
    with tfs.ShardedWriter(path, num_shards=4, **how) as writer:
        writer.write_batch(RECORDS)
    return path


def taken(next_one: Callable[[], Any]) -> list[Any]:
    """All that comes, with patience for those who say that another thread is reading."""
    found = []
    while True:
        try:
            found.append(next_one())
        except StopIteration:
            return found
        except RuntimeError as fault:
            if "another thread" not in str(fault):
                raise


@pytest.mark.parametrize("how", ["records", "batches", "shuffled", "mixed"])
def test_one_reader(written: Path, how: str) -> None:
    reader: Any = tfs.RecordReader(written)
    if how == "mixed":
        reader = tfs.mix([(written, 1.0), (written, 2.0)], stop="first")
    reader = reader.shuffle(seed=1, window=1) if how == "shuffled" else reader
    expected = sorted(pickle.loads(pickle.dumps(reader)))
    records, batches = iter(reader), reader.batches()

    def read(number: int) -> list[bytes]:
        if how == "batches":
            return [each for batch in taken(batches.__next__) for each in batch]
        return taken(records.__next__)

    found = [record for each in in_threads(read) for record in each]
    assert sorted(found) == expected
    if how != "mixed":  # which counts what its sources have at hand
        assert reader.metrics()["records"] == len(found)


def test_readers_of_their_own_and_their_metrics(written: Path) -> None:
    readers = [tfs.RecordReader(written, memory_budget=16 << 20) for _ in range(THREADS)]
    ended = threading.Event()

    def watch() -> list[float]:
        seen = []
        while not ended.wait(0.001):
            seen.append(sum(reader.metrics()["records"] for reader in readers))
        return seen

    with ThreadPoolExecutor(1) as watching:
        watched = watching.submit(watch)
        found = in_threads(lambda number: list(readers[number]))
        ended.set()
        seen = watched.result()
    assert all(sorted(each) == sorted(RECORDS) for each in found)
    assert seen == sorted(seen)
    assert {reader.metrics()["records"] for reader in readers} == {len(RECORDS)}


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_one_source(written: Path, cache_bytes: int) -> None:
    source = tfs.RecordSource(written, cache_bytes=cache_bytes)
    expected = list(source)

    def read(number: int) -> None:
        dice = np.random.default_rng(number)
        for _ in range(3):
            numbers = dice.integers(len(source), size=50)
            assert source[numbers] == [expected[at] for at in numbers]
            first = int(dice.integers(len(source) - 100))
            assert source[first : first + 100] == expected[first : first + 100]
            assert source[first] == expected[first]

    in_threads(read)

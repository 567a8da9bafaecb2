"""Batches that are decoded ahead: states, errors in their place, the budget, and what is left
behind."""

from __future__ import annotations

import gc
import gzip
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import flipped, framed
from tfio_store.loader.content import LoaderContent
from tfio_store.loader.gathering import Gathering
from tfio_store.storage.fsspec_store import MemoryStore

COUNT = 1003
SCHEMA: dict[str, Any] = {"x": "int64", "y": "float32"}


def records(count: int = COUNT, bad: int = -1) -> list[bytes]:
    """Rows whose x counts them. A ``bad`` one has no x."""
    return [
        tfs.encode_example({"y": x / 2} if x == bad else {"x": x, "y": x / 2}) for x in range(count)
    ]


def written(folder: Path, bad: int = -1, **options: Any) -> str:
    url = str(folder / "train")
    if not list(folder.glob("train-*")):
        with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096, **options) as writer:
            writer.write_batch(records(bad=bad))
    return url


def gathering(reader: Any, size: int, drop_last: bool = False, **options: Any) -> Gathering:
    content = LoaderContent.of("", reader, {**SCHEMA, **options}, None)
    return Gathering(reader, content, size, drop_last)


def some(found: Gathering, most: int = sys.maxsize) -> list[list[int]]:
    """The x of so many batches, or all."""
    given: list[list[int]] = []
    while len(given) < most and (columns := found.batch()) is not None:
        given.append(columns["x"].tolist())
        found.done()
    return given


def plain(folder: Path) -> Any:
    return tfs.RecordReader(written(folder))


def shuffled(folder: Path) -> Any:
    return tfs.RecordReader(written(folder)).shuffle(3)


def shared(folder: Path) -> Any:
    return tfs.RecordReader(written(folder)).shuffle(3).shard(1, 2, even="split")


def compressed(folder: Path) -> Any:
    return tfs.RecordReader(written(folder, compression="ZSTD"))


def foreign(folder: Path) -> Any:
    if not (folder / "x").exists():
        (folder / "x").write_bytes(framed(records()))
    return tfs.RecordReader(str(folder / "x"))


def stream(folder: Path) -> Any:
    if not (folder / "x.gz").exists():
        (folder / "x.gz").write_bytes(gzip.compress(framed(records())))
    return tfs.RecordReader(str(folder / "x.gz"))


def mixture(folder: Path) -> Any:
    pairs = []
    for name, weight in (("a", 3), ("b", 1)):
        (folder / name).mkdir(exist_ok=True)
        pairs.append((written(folder / name), weight))
    return tfs.mix(pairs, seed=1).shuffle(2)


READERS = [plain, shuffled, shared, compressed, foreign, stream, mixture]


@pytest.mark.parametrize("size", [1, 64, 500, 5000])
@pytest.mark.parametrize("make", READERS)
def test_a_state_stands_behind_what_was_given(
    make: Callable[[Path], Any], size: int, tmp_path: Path
) -> None:
    """However far the records behind it are read and decoded."""
    found, states = gathering(make(tmp_path), size), []
    states.append(found.state())
    given: list[list[int]] = []
    while batch := some(found, 1):
        given += batch
        states.append(found.state())
    assert [x for batch in given for x in batch] == list(
        itertools.chain.from_iterable(some(gathering(make(tmp_path), 7)))
    )
    every = max(1, len(given) // 8)
    for at in {*range(0, len(given), every), len(given) - 1}:
        reader = make(tmp_path)
        reader.restore(states[at])
        assert some(gathering(reader, size)) == given[at:]


@pytest.mark.parametrize("make", READERS)
def test_a_state_stands_before_rows_that_are_left(
    make: Callable[[Path], Any], tmp_path: Path
) -> None:
    found = gathering(make(tmp_path), 100)
    rows = [x for batch in some(found, 5) for x in batch]
    rest = [x for batch in some(gathering(make(tmp_path), 100)) for x in batch][len(rows) :]
    for unread in (0, 1, 50, 99, 100):
        reader = make(tmp_path)
        reader.restore(found.state(unread))
        others = [x for batch in some(gathering(reader, 100)) for x in batch]
        assert others == rows[len(rows) - unread :] + rest


def test_the_end_is_the_beginning_of_the_next_epoch(tmp_path: Path) -> None:
    for size in (100, 17, COUNT):
        found = gathering(shuffled(tmp_path), size)
        some(found)
        assert found.over
        reader = shuffled(tmp_path)
        reader.restore(found.state())
        again = [x for batch in some(gathering(reader, 100)) for x in batch]
        assert sorted(again) == list(range(COUNT))
        assert reader.state()["epoch"] == 2


def test_a_last_batch_is_left_out(tmp_path: Path) -> None:
    found = gathering(plain(tmp_path), 100, drop_last=True)
    assert some(found) == [list(range(at, at + 100)) for at in range(0, 1000, 100)]
    assert found.over
    assert some(gathering(plain(tmp_path), 2000, drop_last=True)) == []


@pytest.mark.parametrize("bad", [0, 99, 100, 700, COUNT - 1])
def test_a_record_that_does_not_fit_comes_in_its_place(bad: int, tmp_path: Path) -> None:
    """All batches before its own are given, and it is met as often as they are asked for."""
    found, given = gathering(tfs.RecordReader(written(tmp_path, bad)), 100), []
    for _ in range(3):
        with pytest.raises(tfs.SchemaError) as caught:
            while True:
                given += some(found, 1)
        assert (caught.value.feature, caught.value.record) == ("x", bad % 100)
    assert given == [list(range(at, at + 100)) for at in range(0, bad // 100 * 100, 100)]
    reader = tfs.RecordReader(written(tmp_path, bad))
    reader.restore(found.state())
    other = gathering(reader, 100, x=tfs.Feature("int64", default=bad))
    assert [x for batch in some(other) for x in batch] == list(range(bad // 100 * 100, COUNT))


@pytest.mark.parametrize("bad", [0, 99, 100, 700, COUNT - 1])
def test_damage_comes_in_its_place(bad: int, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(flipped(framed(records()), len(framed(records()[:bad])) + 12))
    found, given = gathering(tfs.RecordReader(str(tmp_path / "x")), 50), []
    for _ in range(3):
        with pytest.raises(tfs.CorruptRecordError):
            while True:
                given += some(found, 1)
    assert given == [list(range(at, at + 50)) for at in range(0, bad // 50 * 50, 50)]
    state, skipping = (
        found.state(),
        tfs.RecordReader(str(tmp_path / "x"), on_corrupt=lambda _: None),
    )
    skipping.restore(state)
    rest = [x for batch in some(gathering(skipping, 50)) for x in batch]
    assert rest == [x for x in range(bad // 50 * 50, COUNT) if x != bad]


def test_a_forked_child_goes_on_by_itself(tmp_path: Path) -> None:
    found = gathering(shuffled(tmp_path), 10)
    some(found, 20)
    into, out = os.pipe()
    child = os.fork()
    if not child:
        os.write(out, bytes(str(some(found)), "ascii"))
        os._exit(0)
    os.close(out)
    rest = str(some(found))
    with open(into, encoding="ascii") as pipe:
        assert pipe.read() == rest
    assert os.waitpid(child, 0)[1] == 0


def test_a_dropped_one_leaves_no_work(tmp_path: Path) -> None:
    found = gathering(plain(tmp_path), 10)
    some(found, 5)
    futures = [load.future for load in found._loads if load.future is not None]
    del found
    gc.collect()
    until = time.monotonic() + 60
    while not all(future.done() for future in futures) and time.monotonic() < until:
        time.sleep(0.01)
    assert all(future.done() for future in futures)


def test_a_store_that_is_slow_holds_up_no_batch_that_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store answers six ranges, and the others when they are let through."""
    url, read = "memory://slow/train", MemoryStore.read
    with tfs.ShardedWriter(url, num_shards=1, block_bytes=4096) as writer:
        writer.write_batch(records())
    held: list[tuple[Future[Any], Callable[[], Future[Any]]]] = []
    calls = itertools.count()

    def slow(store: MemoryStore, *args: Any, **options: Any) -> Future[Any]:
        answer = partial(read, store, *args, **options)
        if next(calls) < 6:
            return answer()
        held.append((Future(), answer))
        return held[-1][0]

    reader = tfs.RecordReader(url)
    monkeypatch.setattr(MemoryStore, "range_bytes", 4096)
    monkeypatch.setattr(MemoryStore, "read", slow)
    found, given = gathering(reader, 10), list[list[int]]()
    while not held or found._loads or (grown := found._growing) is None or grown.rows >= 10:
        columns = found.batch()
        given.append(columns["x"].tolist())
        found.done()
    assert len(given) > 20
    assert len(held) > 1

    def let_through() -> None:
        while given[-1][-1] != COUNT - 1:
            while held:
                future, answer = held.pop(0)
                future.set_result(answer().result())
            time.sleep(0.001)

    helper = threading.Thread(target=let_through, daemon=True)
    helper.start()
    while (columns := found.batch()) is not None:
        given.append(columns["x"].tolist())
        found.done()
    helper.join()
    assert list(itertools.chain.from_iterable(given)) == list(range(COUNT))


@pytest.mark.parametrize("budget", [100_000, 1 << 20, 8 << 20])
def test_what_waits_counts_against_the_budget(budget: int, tmp_path: Path) -> None:
    """Of long rows, whose columns are as long as their records."""
    url, count = str(tmp_path / "train"), 2000
    rows = np.arange(count * 2000, dtype=np.float32).reshape(count, 2000)
    tfs.write_table({"z": rows}, url, num_shards=1)
    with tfs.RecordReader(url, memory_budget=budget) as reader:
        schema = {"z": tfs.Feature("float32", (2000,))}
        found = Gathering(reader, LoaderContent.of(url, reader, schema, None), 4, False)
        most = largest = 0
        while (columns := found.batch()) is not None:
            most = max(most, int(found.metrics()["held_bytes"]))
            largest = max(largest, max(load.cost for load in found._loads))
            assert columns["z"].shape == (4, 2000)
            found.done()
    span = 2_200_000  # one goes alone, however long, and counts until the next one is wanted
    assert most <= max(budget, span) + span + largest
    assert found.metrics()["held_bytes"] == 0


def test_metrics(tmp_path: Path) -> None:
    found = gathering(plain(tmp_path), 100)
    assert found.metrics()["records"] == 0
    some(found, 3)
    assert found.metrics()["records"] == 300
    some(found)
    told = found.metrics()
    assert told["records"] == COUNT
    assert told["bytes"] > 0
    assert told["decode_s"] > 0
    assert told["held_bytes"] == 0


def test_a_batch_is_no_part_of_another(tmp_path: Path) -> None:
    """Who writes into one changes no other."""
    found, given = gathering(plain(tmp_path), 10), []
    while (columns := found.batch()) is not None:
        given.append(columns["x"].copy())
        columns["x"][:] = -1
        found.done()
    assert np.concatenate(given).tolist() == list(range(COUNT))

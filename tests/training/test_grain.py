"""Grain takes a `RecordSource` as it is: its loaders, workers, shards, mixtures and checkpoints."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.long import first

grain = pytest.importorskip("grain", reason="Grain is not installed")
flags = pytest.importorskip("absl.flags")

ROWS = 503
SCHEMA: dict[str, Any] = {"x": "int64", "tokens": ("int32", (4,))}


@pytest.fixture(autouse=True)
def parsed() -> None:
    """Grain's workers ask for flags, which a program that `absl.app.run` starts has parsed."""
    flags.FLAGS.mark_as_parsed()


def write(url: str, first: int = 0, **options: Any) -> None:
    x = np.arange(first, first + ROWS)
    tokens = np.add.outer(x, np.arange(4)).astype(np.int32)
    tfs.write_table({"x": x, "tokens": tokens}, url, num_shards=3, **options)


@pytest.fixture
def source(tmp_path: Path) -> tfs.RecordSource:
    write(f"{tmp_path}/train", compression="GZIP")
    return tfs.RecordSource(f"{tmp_path}/train")


class Parse(grain.transforms.Map):  # type: ignore[name-defined]
    def map(self, record: bytes) -> dict[str, Any]:
        row = tfs.decode_examples([record], SCHEMA)
        return {name: row[name][0] for name in row}


class Read(grain.transforms.Map):  # type: ignore[name-defined]
    """A batch of numbers in, arrays out."""

    def __init__(self, source: tfs.RecordSource, host: int = 0, hosts: int = 1) -> None:
        self.source, self.host, self.hosts = source, host, hosts

    def map(self, numbers: Any) -> dict[str, Any]:
        mine = np.array_split(numbers, self.hosts)[self.host]
        return dict(tfs.decode_examples(self.source[mine], SCHEMA))


def xs(batches: Any) -> list[int]:
    return [int(x) for batch in batches for x in np.atleast_1d(batch["x"])]


# DataLoader


def loader(
    source: tfs.RecordSource, workers: int, shard: Any = None, shuffle: bool = True, seed: int = 1
) -> Any:
    sampler = grain.samplers.IndexSampler(
        len(source),
        shard_options=shard or grain.sharding.NoSharding(),
        shuffle=shuffle,
        num_epochs=1,
        seed=seed,
    )
    return grain.DataLoader(
        data_source=source,
        sampler=sampler,
        operations=[Parse(), grain.transforms.Batch(16)],
        worker_count=workers,
    )


@pytest.mark.parametrize(
    ("workers", "shuffle"), first(3, [(0, False), (0, True), (2, True), (2, False)])
)
def test_each_record_comes_once(source: tfs.RecordSource, workers: int, shuffle: bool) -> None:
    batches = list(loader(source, workers, shuffle=shuffle))
    assert sorted(xs(batches)) == list(range(ROWS))
    if not workers:  # each worker makes batches of its own
        in_order = tfs.decode_examples(source[:], SCHEMA)["x"].tolist()
        assert (xs(batches) == in_order) == (not shuffle)
    for batch in batches:
        np.testing.assert_array_equal(batch["tokens"], np.add.outer(batch["x"], np.arange(4)))


STRINGS = [b"\x00\x01\x00\x00", b"q\x00", b"", b"zz"]


class ParseStrings(grain.transforms.Map):  # type: ignore[name-defined]
    def map(self, record: bytes) -> dict[str, Any]:
        row = tfs.decode_examples([record], {"b": "bytes", "s": "str", "two": ("bytes", (2,))})
        return {name: column[0, ...] for name, column in row.items()}


@pytest.mark.parametrize("workers", first(1, [0, 2]))
def test_batches_keep_zeros_at_the_ends_of_strings(tmp_path: Path, workers: int) -> None:
    texts = [string.decode() for string in STRINGS]
    table: dict[str, Any] = {
        "b": STRINGS,
        "s": texts,
        "two": [[string, b"\0"] for string in STRINGS],
    }
    tfs.write_table(table, f"{tmp_path}/train")
    source = tfs.RecordSource(f"{tmp_path}/train")
    batches = list(
        grain.DataLoader(
            data_source=source,
            sampler=grain.samplers.IndexSampler(
                len(source),
                shard_options=grain.sharding.NoSharding(),
                shuffle=False,
                num_epochs=1,
                seed=1,
            ),
            operations=[ParseStrings(), grain.transforms.Batch(2, drop_remainder=True)],
            worker_count=workers,
        )
    )
    batches.append(grain.MapDataset.source(source).map(ParseStrings()).batch(len(STRINGS))[0])
    for name, column in table.items():
        found = [row for batch in batches for row in batch[name].tolist()]
        assert sorted(found) == sorted(2 * column)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_goes_on_in_mid_epoch(tmp_path: Path, workers: int) -> None:
    write(f"{tmp_path}/train")
    iterator = iter(loader(tfs.RecordSource(f"{tmp_path}/train"), workers))
    before = list(itertools.islice(iterator, 7))
    state = iterator.get_state()
    rest = xs(iterator)
    assert sorted(xs(before) + rest) == list(range(ROWS))
    (tmp_path / "moved").mkdir()
    for file in [*tmp_path.glob("train*"), *tmp_path.glob("_train*")]:
        file.rename(tmp_path / "moved" / file.name)
    other = iter(loader(tfs.RecordSource(f"{tmp_path}/moved/train"), workers))
    other.set_state(state)
    assert xs(other) == rest


def test_a_state_of_another_source_is_refused(tmp_path: Path) -> None:
    write(f"{tmp_path}/a/train")
    write(f"{tmp_path}/b/train", first=1 << 20)  # as many records, and longer ones
    state = iter(loader(tfs.RecordSource(f"{tmp_path}/a/train"), 0)).get_state()
    other = iter(loader(tfs.RecordSource(f"{tmp_path}/b/train"), 0))
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        other.set_state(state)
    with pytest.raises(ValueError, match="Sampler in checkpoint does not match"):
        iter(loader(tfs.RecordSource(f"{tmp_path}/a/train"), 0, seed=2)).set_state(state)


@pytest.mark.parametrize("count", [2, 3])
def test_shards_of_a_loader_are_even_and_apart(source: tfs.RecordSource, count: int) -> None:
    shards = [
        xs(loader(source, 0, grain.sharding.ShardOptions(i, count, drop_remainder=True)))
        for i in range(count)
    ]
    assert {len(shard) for shard in shards} == {ROWS // count}
    assert len({*itertools.chain(*shards)}) == ROWS // count * count


# MapDataset


@pytest.mark.parametrize("workers", first(1, [0, 2]))
def test_batches_of_numbers_go_on_in_mid_epoch(source: tfs.RecordSource, workers: int) -> None:
    def iterator() -> Any:
        numbers = grain.MapDataset.range(len(source)).shuffle(seed=3).batch(20)
        dataset = numbers.map(Read(source)).to_iter_dataset()
        if workers:
            options = grain.multiprocessing.MultiprocessingOptions(num_workers=workers)
            dataset = dataset.mp_prefetch(options)
        return iter(dataset)

    reading = iterator()
    before = list(itertools.islice(reading, 5))
    state = json.loads(json.dumps(reading.get_state()))
    rest = xs(reading)
    assert sorted(xs(before) + rest) == list(range(ROWS))
    other = iterator()
    other.set_state(state)
    assert xs(other) == rest


# Reading many at once


def test_grain_knows_that_a_source_reads_many_at_once(source: tfs.RecordSource) -> None:
    base = pytest.importorskip("grain._src.python.dataset.base")
    assert isinstance(source, base.SupportsBatchedReadRandomAccessDataSource)
    dataset = grain.MapDataset.source(source).shuffle(seed=1)
    assert dataset._getitems(range(ROWS)) == [dataset[i] for i in range(ROWS)]


def test_a_batch_is_one_round_of_few_requests(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(memory.url("train"), compression="GZIP")  # three shards of one block each
    counted = Counted(memory.open()[0], monkeypatch)
    source = tfs.RecordSource(memory.url("train"), cache_bytes=0)
    numbers = grain.MapDataset.range(len(source)).shuffle(seed=1).batch(64)
    counted.clear()
    batch = numbers.map(Read(source))[0]
    assert len(counted.ranges) == 3
    counted.clear()
    assert source._getitems(batch["x"].tolist()) == source[batch["x"]]
    assert len(counted.ranges) == 6


# Orbax


def test_orbax_keeps_the_place_of_an_iterator(source: tfs.RecordSource, tmp_path: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")

    def iterator() -> Any:
        numbers = grain.MapDataset.range(len(source)).shuffle(seed=3).batch(20)
        return iter(numbers.map(Read(source)).to_iter_dataset())

    reading = iterator()
    before = xs(itertools.islice(reading, 4))
    with ocp.CheckpointManager(tmp_path / "checkpoints", item_names=("data",)) as manager:
        save = grain.checkpoint.CheckpointSave(reading)
        manager.save(4, args=ocp.args.Composite(data=save))
        manager.wait_until_finished()
        rest = xs(reading)
        other = iterator()
        restore = grain.checkpoint.CheckpointRestore(other)
        manager.restore(4, args=ocp.args.Composite(data=restore))
    assert xs(other) == rest
    assert sorted(before + rest) == list(range(ROWS))

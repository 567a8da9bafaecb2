"""`tfio_store.grain.source`: rows by number, batches of columns, and Grain's own steps."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed
from tests.support.long import first
from tests.training.grain_loading import COUNT, SCHEMA, grain, workers_of, write, xs
from tfio_store.errors import ReplacedError
from tfio_store.grain import elastic, order, source, together

ALL = list(range(COUNT))


@pytest.fixture
def url(tmp_path: Path) -> str:
    write(f"{tmp_path}/train", compression="GZIP")
    return f"{tmp_path}/train"


def plus(row: dict[str, Any]) -> dict[str, Any]:
    return {"x": row["x"] + 1000}


# The order


@pytest.mark.parametrize("size", [1, 2, 3, 503, 65_535, 65_536, 65_538, 262_146, 1 << 33])
def test_numbers_are_shuffled_as_grain_shuffles_them(size: int) -> None:
    some = np.unique(np.random.default_rng(0).integers(0, size, 64))
    for seed in (0, 1, 2**32 - 1):
        expected = order._one_by_one(some, size, seed) if size > 1 else some
        found = order._at_once(some, size, seed) if size > 1 else some
        assert found.tolist() == expected.tolist()
        assert order.shuffled_numbers(some, size, seed).tolist() == expected.tolist()


@pytest.mark.parametrize("size", [65_537, 262_145])
def test_each_number_comes_once_where_grain_lacks_a_bit(size: int) -> None:
    """Grain's own shuffle gives one of these twice, and one never."""
    found = order.shuffled_numbers(np.arange(size), size, 3)
    assert np.bincount(found).tolist() == [1] * size
    single = [int(order.shuffled_numbers(np.array([i]), size, 3)[0]) for i in (0, size - 1)]
    assert single == [found[0], found[-1]]


def test_another_shuffle_of_grain_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def backwards(index: int, *, max_index: int, seed: int, rounds: int) -> int:
        return max_index - index

    monkeypatch.setattr(grain.experimental, "index_shuffle", backwards)
    order._is_grains.cache_clear()
    found = order.shuffled_numbers(np.arange(100), 100, 9)
    order._is_grains.cache_clear()
    assert found.tolist() == list(range(99, -1, -1))


CHAINS: dict[str, Any] = {
    "as it is": lambda rows: rows,
    "shuffled": lambda rows: rows.shuffle(seed=5),
    "sliced": lambda rows: rows[3:400:7],
    "sliced backwards": lambda rows: rows[400:3:-3],
    "host of many": lambda rows: rows.shuffle(seed=5)[1::3],
    "host, shuffled": lambda rows: rows[1::3].shuffle(seed=5),
    "epochs": lambda rows: rows.shuffle(seed=5).repeat(3),
    "same epochs": lambda rows: rows.shuffle(seed=5).repeat(3, reseed_each_epoch=False),
    "epochs of hosts": lambda rows: rows.shuffle(seed=5).repeat(2)[1::2],
    "seeded": lambda rows: rows.seed(11).shuffle(),
    "twice": lambda rows: rows.shuffle(seed=5)[:100].shuffle(seed=6).repeat(2),
}


@pytest.mark.parametrize("name", CHAINS)
def test_rows_come_in_grains_order(url: str, name: str) -> None:
    """Rows, many rows, batches and a loop give what Grain gives of the same source."""
    rows = CHAINS[name](source(url))
    plain = CHAINS[name](grain.MapDataset.source(tfs.RecordSource(url)))
    expected = [int(tfs.decode_examples([plain[i]], SCHEMA)["x"][0]) for i in range(len(plain))]
    assert len(rows) == len(plain)
    assert xs(rows[i] for i in range(0, len(rows), 50)) == expected[::50]
    assert xs(rows._getitems(range(len(rows)))) == expected
    assert xs(rows) == expected
    assert xs(rows.batch(32)) == expected
    assert rows._order is not None


def test_batches_of_each_epoch_are_grains(url: str) -> None:
    rows = source(url).shuffle(seed=1).batch(100).repeat(2)
    plain = grain.MapDataset.range(COUNT).batch(100).repeat(2)
    assert [len(batch["x"]) for batch in rows] == [len(batch) for batch in plain]
    dropped = source(url).batch(100, drop_remainder=True)
    assert [len(batch["x"]) for batch in dropped] == [100] * (COUNT // 100)
    shuffled = xs(source(url).batch(10).shuffle(seed=2))
    assert sorted(shuffled) == ALL
    assert shuffled[1] == shuffled[0] + 1


# Rows and batches


def test_rows_and_batches(url: str) -> None:
    rows = source(url)
    row, batch = rows[7], rows.batch(10)[1]
    assert rows.schema == tfs.infer_schema(url)
    assert (row["x"], row["tokens"].tolist()) == (7, [7, 8, 9, 10])
    assert batch["x"].tolist() == list(range(10, 20))
    assert (batch["tokens"].shape, batch["tokens"].dtype) == ((10, 4), np.int32)
    assert list(source(url, columns=["x"])[0]) == ["x"]
    assert xs(rows[5:8]) == [5, 6, 7]
    again = pickle.loads(pickle.dumps(rows.shuffle(seed=1)))
    assert xs(again) == xs(rows.shuffle(seed=1))
    assert len(pickle.dumps(rows.shuffle(seed=1).batch(4))) < 20_000


def test_records_as_they_are(tmp_path: Path) -> None:
    records = [b"a\0", b"", b"\0\0", b"bc"]
    (tmp_path / "x").write_bytes(framed(records))
    for rows in (source(f"{tmp_path}/x"), source(f"{tmp_path}/x", schema="bytes")):
        assert rows.schema is None
        assert list(rows) == records
        assert rows.batch(4)[0].tolist() == records
        assert rows.map(bytes).batch(4)[0].tolist() == records
    with pytest.raises(ValueError, match=r"columns=.*pass schema="):
        source(f"{tmp_path}/x", columns=["x"])


def test_a_dataset_without_schema(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([tfs.encode_example({"x": i}) for i in range(4)]))
    assert source(f"{tmp_path}/x", schema="auto").batch(4)[0]["x"].tolist() == [0, 1, 2, 3]
    assert source(f"{tmp_path}/x", schema={"x": "int32"})[2]["x"].dtype == np.int32


TABLE: dict[str, Any] = {
    "b": [b"\x00\x01\x00\x00", b"q\x00", b"", b"zz"],
    "s": ["a\0", "", "ü", "zz"],
    "two": [[b"a\0", b""], [b"b", b"c"], [b"\0", b"\0"], [b"d", b"e"]],
    "ids": [[1], [2, 3], [], [4, 5, 6]],
    "n": [1, None, 3, None],
    "nb": [b"x\0", None, b"", b"y"],
    "nr": [[1], [2, 3], None, []],
}


def test_columns_keep_what_they_are(tmp_path: Path) -> None:
    """Zeros at the ends of strings, varying lengths and nulls."""
    tfs.write_table(TABLE, f"{tmp_path}/train")
    rows = source(f"{tmp_path}/train")
    batch = rows.batch(4)[0]
    for name, column in TABLE.items():
        assert batch[name].tolist() == column, name
        for row, value in zip(rows, column, strict=True):
            found = row[name]
            assert (found.tolist() if hasattr(found, "tolist") else found) == value, name
    assert isinstance(batch["ids"], tfs.Ragged)
    kept = rows.map(lambda row: {"b": row["b"], "s": row["s"], "two": row["two"]})
    stacked = kept.batch(4)[0]
    apart = next(iter(kept.to_iter_dataset().batch(4)))
    for name in ("b", "s", "two"):
        assert stacked[name].tolist() == apart[name].tolist() == TABLE[name]


def test_sequence_examples(tmp_path: Path) -> None:
    schema = {"id": "int64", "steps": tfs.Feature("int64", (None,), sequence=True)}
    with tfs.ShardedWriter(f"{tmp_path}/train", num_shards=1, schema=schema) as writer:
        for i in range(4):
            writer.write({"id": i, "steps": list(range(i))})
    batch = source(f"{tmp_path}/train").batch(4)[0]
    assert batch["steps"].tolist() == [[], [0], [0, 1], [0, 1, 2]]


# Grain's other steps


def test_mapped_rows_are_read_together(memory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    write(memory.url("train"), compression="GZIP")  # three shards of one block each
    counted = Counted(memory.open()[0], monkeypatch)
    for make in (
        lambda rows: rows.batch(64),
        lambda rows: rows.map(plus).batch(64),
        lambda rows: rows.map(plus).map_with_index(lambda _, row: row).batch(64),
        lambda rows: rows.batch(64).map(plus),
    ):
        dataset = make(source(memory.url("train"), cache_bytes=0).shuffle(seed=1))
        counted.clear()
        assert len(dataset[0]["x"]) == 64
        assert len(counted.ranges) == 3


def test_mapped_and_filtered(url: str) -> None:
    rows = source(url).shuffle(seed=1)
    assert sorted(xs(rows.map(plus))) == [x + 1000 for x in ALL]
    assert xs(rows.map(plus).batch(9)) == xs(rows.map(plus))
    assert xs(rows.batch(9).map(plus)) == xs(rows.map(plus))
    even = rows.filter(lambda row: row["x"] % 2 == 0)
    assert sorted(xs(even)) == ALL[::2]
    assert sorted(xs(even.to_iter_dataset().batch(9))) == ALL[::2]
    random = rows.random_map(lambda row, rng: {"x": row["x"], "r": rng.random()}, seed=3)
    assert [row["r"] for row in random] == [row["r"] for row in random]
    assert sorted(xs(rows.map_with_index(lambda i, row: {"x": row["x"], "i": i}))) == ALL


def test_a_custom_batch_function(url: str) -> None:
    batches = source(url).batch(4, batch_fn=lambda rows: [int(row["x"]) for row in rows])
    assert batches[0] == [0, 1, 2, 3]


def test_mixtures_and_zips(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(f"{tmp_path}/other", first=1000)
    parts = [source(each).shuffle(seed=1).repeat() for each in (url, f"{tmp_path}/other")]
    mixed = grain.MapDataset.mix(parts, weights=[0.75, 0.25])
    whole = together(mixed)
    assert xs(mixed[i] for i in range(40)) == xs(whole[i] for i in range(40))
    reads: list[int] = []
    plain = tfs.RecordSource.__getitems__

    def read(self: Any, indices: Any) -> Any:
        reads.append(len(indices))
        return plain(self, indices)

    monkeypatch.setattr(tfs.RecordSource, "__getitems__", read)
    batch = whole.batch(40)[0]
    assert sum(batch["x"] < 1000) == 30
    assert sorted(reads) == [10, 30]
    zipped = grain.experimental.ZipMapDataset([source(url), source(url).map(plus)])
    first, second = zipped[3]
    assert (first["x"], second["x"]) == (3, 1003)


# Iterators and their states


def test_states(url: str, tmp_path: Path) -> None:
    def made(at: str = url) -> Any:
        return iter(source(at).shuffle(seed=3).batch(20).to_iter_dataset())

    iterator = made()
    before = list(itertools.islice(iterator, 5))
    state = json.loads(json.dumps(iterator.get_state()))
    rest = xs(iterator)
    assert sorted(xs(before) + rest) == ALL
    (tmp_path / "moved").mkdir()
    for file in [*tmp_path.glob("train*"), *tmp_path.glob("_train*")]:
        shutil.copy(file, tmp_path / "moved" / file.name)
    moved = made(f"{tmp_path}/moved/train")
    moved.set_state(state)
    assert xs(moved) == rest
    write(f"{tmp_path}/other/train", first=1 << 20)
    with pytest.raises(ValueError, match=r"the state is of <RecordSource of 503.*reads <Record"):
        made(f"{tmp_path}/other/train").set_state(state)
    with pytest.raises(ValueError, match="the state is of no source"):
        made().set_state({"next_index": 3})


@pytest.mark.parametrize("kind", ["a file", "a dataset"])
def test_states_of_another_generation_of_equal_names_and_sizes(tmp_path: Path, kind: str) -> None:
    path, states = tmp_path / kind / "train", []
    for begin in (0, 1 << 20):
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        if kind == "a dataset":
            tfs.write_table({"x": np.full(COUNT, begin + 0.5, np.float32)}, str(path))
        else:
            path.write_bytes(framed([b"%07d" % (begin + i) for i in range(COUNT)]))
            os.utime(path, (begin, begin))
        iterator = iter(source(str(path)).batch(5).to_iter_dataset())
        next(iterator)
        states.append(json.loads(json.dumps(iterator.get_state())))
    iterator.set_state(states[1])
    with pytest.raises((ReplacedError, ValueError), match=r"another version|the state is of <Rec"):
        iterator.set_state(states[0])


def test_states_of_a_mixture_name_all_its_sources(url: str, tmp_path: Path) -> None:
    write(f"{tmp_path}/other", first=1 << 20)

    def made(*urls: str) -> Any:
        mixed = grain.MapDataset.mix([source(each).shuffle(seed=1) for each in urls])
        return iter(together(mixed).batch(10).map(plus).to_iter_dataset())

    iterator = made(url, f"{tmp_path}/other")
    given = xs(itertools.islice(iterator, 3))
    again = made(url, f"{tmp_path}/other")
    again.set_state(iterator.get_state())
    assert not {*given} & {*xs(again)}
    with pytest.raises(ValueError, match="the state is of"):
        made(url, url).set_state(iterator.get_state())


@pytest.mark.parametrize(("threads", "buffer"), [(0, 0), (1, 1), (16, 500)])
@pytest.mark.parametrize("size", [None, 7, 600])
def test_read_options(url: str, threads: int, buffer: int, size: int | None) -> None:
    rows = source(url).shuffle(seed=1)
    reading = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=buffer)
    dataset: Any = rows if size is None else rows.batch(size)
    assert xs(dataset.to_iter_dataset(reading)) == xs(rows.batch(50))


def test_few_groups_are_held(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfio_store.grain import records as ahead, rows

    monkeypatch.setattr(rows, "_ROWS_AT_ONCE", 10)
    held: list[int] = []
    plain = ahead.Ahead._group

    def group(self: Any, number: int) -> Any:
        held.append(len(self._groups))
        return plain(self, number)

    monkeypatch.setattr(ahead.Ahead, "_group", group)
    assert xs(source(url).batch(5).repeat(4)) == ALL * 4
    assert max(held) <= 8


@pytest.mark.parametrize(
    ("nbytes", "shuffled", "far", "groups"),
    [
        (10_000, False, True, 8),
        (10_000, True, True, 8),
        (200, True, True, 2),  # each row may be a request
        (1_000_000, True, True, 2),  # 32 MiB at most
        (1_000_000, False, True, 2),
        (10_000, False, False, 2),
    ],
)
def test_groups_ahead_of_who_reads_from_far_away(
    url: str, nbytes: int, shuffled: bool, far: bool, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfio_store.grain import records, rows

    found: list[int] = []
    plain = records.Ahead

    def noted(parent: Any, count: int, ahead: int) -> Any:
        found.append(ahead)
        return plain(parent, count, ahead)

    monkeypatch.setattr(rows, "Ahead", noted)
    monkeypatch.setattr(rows, "is_remote", lambda _: far)
    monkeypatch.setattr(rows.Rows, "_nbytes_each", nbytes)
    read = source(url).shuffle(1) if shuffled else source(url)
    iter(read.batch(20).to_iter_dataset())
    assert found == [groups]


@pytest.mark.parametrize("workers", first(1, [2, 1, 5]))
def test_worker_processes(url: str, workers: int) -> None:
    def made() -> Any:
        dataset = source(url).shuffle(seed=1).batch(20).to_iter_dataset()
        return iter(workers_of(dataset, workers))

    iterator = made()
    before = xs(itertools.islice(iterator, 7))
    state = iterator.get_state()
    rest = xs(iterator)
    assert sorted(before + rest) == ALL
    again = made()
    again.set_state(json.loads(json.dumps(state)))
    assert xs(again) == rest


def test_workers_that_take_a_run_each(url: str) -> None:
    """Grain cannot do so behind its own MapDataset.batch: it forgets how long a run is."""
    dataset = source(url).shuffle(seed=1).to_iter_dataset().batch(20)
    options = grain.multiprocessing.MultiprocessingOptions(num_workers=2)
    try:
        runs = dataset.mp_prefetch(options, sequential_slice=True)
    except TypeError:
        pytest.skip("this Grain has no sequential_slice=")
    assert sorted(xs(runs)) == ALL


def test_s3_and_workers(s3: Place) -> None:
    write(s3.url("train"), storage_options=s3.storage_options)
    rows = source(s3.url("train"), storage_options=s3.storage_options).shuffle(seed=1)
    assert rows[0]  # connections exist before the workers do
    assert sorted(xs(workers_of(rows.batch(20).to_iter_dataset(), 2))) == ALL


def test_a_data_loader(url: str) -> None:
    """Its states tell the source by themselves."""
    rows = source(url)
    records = rows._records
    loader = grain.DataLoader(
        data_source=records,
        sampler=grain.samplers.IndexSampler(
            len(rows), shard_options=grain.sharding.NoSharding(), shuffle=True, num_epochs=1, seed=1
        ),
        operations=[grain.transforms.Batch(16)],
    )
    assert sorted(xs(loader)) == ALL
    assert "RecordSource of 503" in repr(records)


# Hosts


@pytest.mark.parametrize("count", [2, 3, 7])
def test_hosts_share_the_rows(url: str, count: int) -> None:
    parts = [source(url, shard=(i, count)) for i in range(count)]
    assert sorted(itertools.chain(*map(xs, parts))) == ALL
    assert len({len(part) for part in parts}) <= 2
    options = [grain.sharding.ShardOptions(i, count, drop_remainder=True) for i in range(count)]
    even = [source(url, shard=option) for option in options]
    assert {len(part) for part in even} == {COUNT // count}
    assert set(Counter(itertools.chain(*map(xs, even))).values()) == {1}
    for option in options:
        kept = grain.sharding.ShardOptions(option.shard_index, count)
        expected = source(url)[index_range(COUNT, kept)]
        assert xs(source(url, shard=kept)) == xs(expected)


def index_range(size: int, options: Any) -> slice:
    """The run that Grain's own samplers give a host."""
    even_split = pytest.importorskip("grain._src.core.sharding").even_split
    return slice(*even_split(size, options))


def test_this_process_of_jax(url: str) -> None:
    assert xs(source(url, shard=grain.sharding.ShardByJaxProcess())) == ALL


@pytest.mark.parametrize("wrong", [(2, 2), (-1, 2), (0, 0)])
def test_a_host_that_is_none(url: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"shard= takes \(index, count\) with an index from 0"):
        source(url, shard=wrong)


@pytest.mark.parametrize("wrong", [3, "ab", (0, 1, 2), (0.5, 2)])
def test_a_shard_of_another_type(url: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"shard= takes \(index, count\) or one of grain.sharding"):
        source(url, shard=wrong)


@pytest.mark.parametrize("counts", [(2, 1), (2, 3), (1, 4)])
def test_another_number_of_hosts_goes_on(url: str, counts: tuple[int, int]) -> None:
    rows = source(url).shuffle(seed=1)

    def hosts(count: int) -> list[Any]:
        return [iter(elastic(rows, 12, shard=(i, count))) for i in range(count)]

    old = hosts(counts[0])
    given = [x for _ in range(9) for host in old for x in next(host)["x"].tolist()]
    states = [host.get_state() for host in old]
    assert all(state == states[0] for state in states)
    new = hosts(counts[1])
    for host in new:
        host.set_state(json.loads(json.dumps(states[0])))
    rest = [xs(host) for host in new]
    whole = Counter([*given, *itertools.chain(*rest)])
    assert set(whole.values()) == {1}
    assert len(whole) > COUNT - 12


def test_elastic_hosts_refuse(url: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="global_batch_size= takes a multiple of the 3 hosts"):
        elastic(source(url), 10, shard=(0, 3))
    write(f"{tmp_path}/other", first=1 << 20)
    state = iter(elastic(source(url), 4)).get_state()
    with pytest.raises(ValueError, match="the state is of <RecordSource"):
        iter(elastic(source(f"{tmp_path}/other"), 4)).set_state(state)


# What fails


def test_a_damaged_record_is_named_and_other_blocks_are_given(tmp_path: Path) -> None:
    records = [tfs.encode_example({"x": i}) for i in range(20)]
    data = bytearray(framed(records))
    offset = len(framed(records[:13]))
    data[offset + 14] ^= 1
    (tmp_path / "a").write_bytes(framed(records))
    (tmp_path / "b").write_bytes(data)
    rows = source(f"{tmp_path}/[ab]", schema={"x": "int64"}, cache_bytes=0)
    for dataset in (rows.batch(5), rows.map(lambda row: row).batch(5)):
        iterator = iter(dataset.to_iter_dataset())
        assert xs(itertools.islice(iterator, 4)) == list(range(20))
        with pytest.raises(tfs.DataLossError) as error:
            list(iterator)
        assert (error.value.path, error.value.offset) == (f"{tmp_path}/b", offset)
    with pytest.raises(tfs.DataLossError, match=re.escape(f"{tmp_path}/b")):
        list(workers_of(rows.batch(5).to_iter_dataset(), 2))

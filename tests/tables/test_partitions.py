"""`partitions`: each record once, small pickles, and a driver that reads no data."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed
from tests.support.indexes import all_long, put_dataset
from tests.support.long import first
from tfio_store.dataset.manifest import BlockTable, DatasetManifest, ShardInfo
from tfio_store.errors import ReplacedError
from tfio_store.storage import open_store
from tfio_store.tables.partitions import runs_of

MIB = 1 << 20
CODECS = [None, "GZIP", "ZLIB", "ZSTD"]


def items(count: int, seed: int = 0, most: int = 700) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [b"%d:" % i + rng.bytes(int(n)) for i, n in enumerate(rng.integers(0, most, count))]


def written(folder: Path, records: list[bytes], **options: Any) -> str:
    given: dict[str, Any] = {"num_shards": 3, "block_bytes": 4096} | options
    with tfs.ShardedWriter(f"{folder}/train", **given) as writer:
        writer.write_batch(records)
    return f"{folder}/train"


def sent(part: tfs.Partition) -> tfs.Partition:
    """As another process gets it."""
    found: tfs.Partition = pickle.loads(pickle.dumps(part))
    assert found == part
    return found


def check_cover(found: list[tfs.Partition], whole: list[bytes]) -> None:
    """All records once, in order, each partition knowing its own."""
    given: list[bytes] = []
    for number, part in enumerate(map(sent, found)):
        assert (part.index, part.first_record) == (number, len(given))
        records = list(part.reader())
        assert 0 < len(records) == part.num_records
        assert records == [r for batch in part.batches() for r in batch]
        given += records
    assert given == whole


@pytest.mark.parametrize("codec", first(2, CODECS))
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("long", [False, True])
def test_each_record_comes_once(
    tmp_path: Path, codec: str | None, positions: bool, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if long:
        all_long(monkeypatch)
    told = {"record_positions": positions} if codec is None else {}
    url = written(tmp_path, items(1000), compression=codec, **told)
    whole = list(tfs.RecordReader(url))
    for target in (1, 10_000, 50_000, 1 << 30):
        check_cover(tfs.partitions(url, target_bytes=target), whole)
    for count in (1, 2, 7, 40):
        found = tfs.partitions(url, num_partitions=count)
        assert len(found) == count
        check_cover(found, whole)
    assert any(len(part.urls) == 1 for part in tfs.partitions(url, num_partitions=7))


def test_a_shard_of_one_compressed_file_is_cut_in_its_middle(tmp_path: Path) -> None:
    url = written(tmp_path, items(1000), num_shards=1, compression="GZIP")
    found = tfs.partitions(url, num_partitions=2)
    assert [part.urls for part in found] == [(f"{url}-00000-of-00001.tfrecord",)] * 2
    sizes = [part.nbytes for part in found]
    assert sum(sizes) == os.path.getsize(f"{url}-00000-of-00001.tfrecord")
    assert max(sizes) - min(sizes) < 8000


def test_another_compression_than_that_of_the_files(tmp_path: Path) -> None:
    parts = tfs.partitions(written(tmp_path, items(10), num_shards=1, compression="GZIP"))
    assert len(list(tfs.RecordReader(parts[0], compression="GZIP"))) == 10
    for other in (None, "ZLIB"):
        with pytest.raises(ValueError, match="was made of files that are GZIP"):
            tfs.RecordReader(parts[0], compression=other)


def test_there_are_no_more_partitions_than_blocks_and_none_is_empty(tmp_path: Path) -> None:
    url = written(tmp_path, items(10), num_shards=4, block_bytes=1 << 20)
    found = tfs.partitions(url, num_partitions=100)
    assert [part.num_records for part in found] == [3, 3, 2, 2]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_source_without_records_has_no_partition(tmp_path: Path, shards: int) -> None:
    url = written(tmp_path, [], num_shards=shards)
    assert tfs.partitions(url) == tfs.partitions(url, num_partitions=5) == []
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    assert tfs.partitions(f"{tmp_path}/empty.tfrecord") == []


@pytest.mark.parametrize(
    "wrong", [{"target_bytes": 0}, {"num_partitions": 0}, {"num_partitions": -1}]
)
def test_wrong_sizes_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    url = written(tmp_path, items(10))
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}= takes 1 or more"):
        tfs.partitions(url, **wrong)


@given(
    st.lists(st.integers(0, 1000), min_size=1, max_size=60).filter(any),
    st.integers(1, 60),
)
def test_runs_have_a_unit_each_and_are_alike(nbytes: list[int], count: int) -> None:
    count = min(count, len(nbytes))
    bounds = runs_of(np.array(nbytes, np.int64), count)
    assert bounds[0] == 0
    assert bounds[-1] == len(nbytes)
    assert len(bounds) == count + 1
    assert (np.diff(bounds) > 0).all()
    if len(set(nbytes)) == 1:
        assert np.ptp(np.diff(bounds)) <= 1


# What the driver does


def foreign(folder: Path, count: int = 3) -> list[str]:
    for i in range(count):
        (folder / f"f{i}.tfrecord").write_bytes(framed(items(50, i)))
    return [f"{folder}/f{i}.tfrecord" for i in range(count)]


@pytest.mark.parametrize("name", ["target_bytes", "num_partitions"])
def test_sizes_that_are_no_whole_numbers(tmp_path: Path, name: str) -> None:
    url = written(tmp_path, items(5))
    how: dict[str, Any] = {name: 1e6}
    with pytest.raises(TypeError, match=f"{name}= takes a whole number"):
        tfs.partitions(url, **how)


def test_an_open_file_is_no_source(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"")
    with (tmp_path / "x").open("rb") as file, pytest.raises(TypeError, match="source= takes"):
        tfs.partitions(file)  # type: ignore[arg-type]


def test_a_file_without_an_index_is_a_partition_and_the_driver_reads_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = foreign(tmp_path)
    counted = Counted(open_store("/")[0], monkeypatch)
    found = tfs.partitions(names)
    assert [(part.urls, part.num_records) for part in found] == [((n,), None) for n in names]
    assert [part.first_record for part in found] == [0, None, None]
    few = tfs.partitions(names, num_partitions=2)
    assert [len(part.urls) for part in few] in ([1, 2], [2, 1])
    assert counted.ranges == []
    for parts in (found, few):
        records = [r for part in parts for r in sent(part).reader()]
        assert records == [r for i in range(3) for r in items(50, i)]


def test_the_driver_of_a_dataset_on_s3_reads_its_manifest_alone(
    s3: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tfs.ShardedWriter(
        s3.url("train"), num_shards=3, compression="GZIP", storage_options=s3.storage_options
    ) as writer:
        writer.write_batch(items(1000))
    counted = Counted(open_store(s3.root, s3.storage_options)[0], monkeypatch)
    found = tfs.partitions(s3.url("train"), storage_options=s3.storage_options, num_partitions=3)
    assert counted.ranges == []
    assert sorted(r for part in found for r in sent(part).reader()) == sorted(items(1000))
    assert not any(str(value) in repr(found) for value in s3.storage_options.values())


def test_indexed_and_foreign_files_go_together(tmp_path: Path) -> None:
    url = written(tmp_path, items(500), num_shards=2, compression="GZIP")
    names = [foreign(tmp_path)[0], url, foreign(tmp_path)[1]]
    whole = list(tfs.RecordReader(names))
    for found in (
        tfs.partitions(names, target_bytes=10_000),
        tfs.partitions(names, num_partitions=4),
    ):
        assert [r for part in found for r in part.reader()] == whole
        assert found[0].first_record == 0
        assert found[-1].first_record is None


# Pickles


def claimed(folder: Path, shards: int, blocks: int, ratio: int | None) -> str:
    """A dataset of which only the manifest and the index are there. ``ratio``: compressed so."""
    rng = np.random.default_rng(1)
    raw = rng.integers(MIB, MIB + 1024, blocks)
    stored = raw if ratio is None else raw // ratio + rng.integers(-20_000, 20_000, blocks)
    totals = [np.append(0, np.cumsum(steps)) for steps in (stored, raw)]
    records = np.append(0, np.cumsum(rng.integers(1000, 1010, blocks)))
    offsets, raw_offsets = totals[0], totals[0] if ratio is None else totals[1]
    table = BlockTable(offsets, raw_offsets, records)
    infos = tuple(
        ShardInfo(f"train-{i:05d}.tfrecord", int(offsets[-1]), int(records[-1]), i, table)
        for i in range(shards)
    )
    put_dataset(folder / "train", DatasetManifest(infos, None if ratio is None else "GZIP"))
    return f"{folder}/train"


@pytest.mark.parametrize("ratio", [None, 3])
def test_a_partition_of_128_mib_pickles_to_less_than_4_kib(
    tmp_path: Path, ratio: int | None
) -> None:
    url = claimed(tmp_path, 20, 1000, ratio)
    found = tfs.partitions(url)
    sizes = [len(pickle.dumps(part)) for part in found]
    assert max(part.nbytes for part in found) < 130 * MIB
    assert max(sizes) < 4096
    assert sum(part.num_records or 0 for part in found) == len(tfs.RecordSource(url))


@pytest.mark.long
def test_a_tebibyte_of_a_million_blocks(tmp_path: Path) -> None:
    url = claimed(tmp_path, 1000, 1050, None)
    tracemalloc.start()
    found = tfs.partitions(url)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(part.nbytes for part in found) > 1 << 40
    assert 8000 < len(found) < 9000
    assert max(len(pickle.dumps(part)) for part in found[::50]) < 2048
    assert peak < 200 * MIB


def test_another_process_reads_it_with_nothing_but_the_pickle(tmp_path: Path) -> None:
    url = written(tmp_path, items(500), compression="GZIP")
    whole = list(tfs.RecordReader(url))
    for part in tfs.partitions(url, num_partitions=3):
        (tmp_path / f"{part.index}.pickle").write_bytes(pickle.dumps(part))
    code = (
        "import pickle, sys; part = pickle.load(open(sys.argv[1], 'rb')); "
        "pickle.dump(list(part.reader()), sys.stdout.buffer)"
    )
    found: list[bytes] = []
    for i in range(3):
        run = [sys.executable, "-c", code, f"{tmp_path}/{i}.pickle"]
        found += pickle.loads(subprocess.run(run, check=True, stdout=subprocess.PIPE).stdout)
    assert found == whole


def test_credentials_travel_and_are_not_shown(tmp_path: Path) -> None:
    url = written(tmp_path, items(50))
    (part,) = tfs.partitions(url, storage_options={"auto_mkdir": True})
    assert sent(part).dataset.storage.options == {"auto_mkdir": True}
    for shown in (repr(part), str(part), repr(part.dataset), repr([part])):
        assert "True" not in shown


# Reading


def test_a_state_of_another_partition_is_refused(tmp_path: Path) -> None:
    url = written(tmp_path, items(1000), num_shards=1, compression="GZIP")
    one, two = tfs.partitions(url, num_partitions=2)
    reader = one.reader()
    first = next(iter(reader))
    with pytest.raises(ValueError, match="taken of another source"):
        two.reader().restore(reader.state())
    again = sent(one).reader()
    again.restore(reader.state())
    assert [first, *again] == list(one.reader())


def test_a_partition_shuffles_and_is_shared_out(tmp_path: Path) -> None:
    url = written(tmp_path, items(1000), num_shards=1, compression="ZSTD")
    for part in tfs.partitions(url, num_partitions=2):
        whole = list(part.reader())
        assert sorted(part.reader().shuffle(1)) == sorted(whole)
        shares = [list(part.reader().shard(i, 3)) for i in range(3)]
        assert sorted(r for share in shares for r in share) == sorted(whole)


@pytest.mark.parametrize("codec", [None, "GZIP"])
def test_damage_is_told_with_its_place_or_skipped(tmp_path: Path, codec: str | None) -> None:
    url = written(tmp_path, items(1000), num_shards=1, compression=codec)
    whole = list(tfs.RecordReader(url))
    path = tmp_path / "train-00000-of-00001.tfrecord"
    found = tfs.partitions(url, num_partitions=3)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    first, last = found[0].num_records, found[2].first_record
    assert list(found[0].reader()) == whole[:first]
    assert list(found[2].reader()) == whole[last:]
    with pytest.raises(tfs.CorruptRecordError, match=str(path)):
        list(found[1].reader())
    with pytest.warns(tfs.errors.DataLossWarning, match="skipped"):
        sound = list(found[1].reader(on_corrupt="skip"))
    mine = whole[first:last]
    assert set(sound) < set(mine)
    assert len(sound) > len(mine) // 2


def test_a_file_that_was_replaced_is_an_error(tmp_path: Path) -> None:
    (name,) = foreign(tmp_path, 1)
    (part,) = tfs.partitions(name)
    os.unlink(name)
    Path(name).write_bytes(framed(items(50, 7)))
    with pytest.raises(ReplacedError):
        list(sent(part).reader())


def test_a_partition_is_a_source(tmp_path: Path) -> None:
    tfs.write_table({"x": list(range(100))}, f"{tmp_path}/t", num_shards=1)
    url = f"{tmp_path}/t"
    (part,) = tfs.partitions(url)
    assert tfs.count(part) == len(tfs.RecordSource(part)) == 100
    assert list(tfs.RecordReader([part, url])) == 2 * list(tfs.RecordReader(url))
    assert tfs.read_table(part)["x"].tolist() == list(range(100))
    assert tfs.verify(part).ok
    copied = tfs.copy(part, f"{tmp_path}/other", num_shards=1)
    assert (copied.records, copied.schema) == (100, tfs.infer_schema(url).to_json())


def test_a_copy_of_a_partition_keeps_what_the_manifest_says(tmp_path: Path) -> None:
    url, about = f"{tmp_path}/t", {"labels": ["cat", "dog"], "mean": 0.5}
    with tfs.ShardedWriter(url, schema={"x": "int64"}, metadata=about, num_shards=2) as writer:
        writer.write_batch([{"x": i} for i in range(9)])
    for source in (url, tfs.slice(url, "2:"), [url, url]):
        parts = [sent(part) for part in tfs.partitions(source, num_partitions=2)]
        assert [part.metadata for part in parts] == [about, about]
        copied = tfs.copy(parts[1], f"{tmp_path}/other", if_exists="overwrite")
        assert copied.metadata == about
        assert copied.schema == writer.manifest.schema
    tfs.write_table({"x": [1]}, f"{tmp_path}/none")
    assert {part.metadata for part in tfs.partitions([url, f"{tmp_path}/none"])} == {None}


def test_many_datasets_have_the_schema_of_all(tmp_path: Path) -> None:
    urls = [f"{tmp_path}/t{i}" for i in range(20)]
    for url in urls:
        tfs.write_table({"x": [1]}, url)
    assert {part.schema for part in tfs.partitions(urls)} == {tfs.infer_schema(urls[0])}


# Arrow


@pytest.fixture
def table(tmp_path: Path) -> str:
    columns = {"x": list(range(3000)), "name": [f"n{i}" for i in range(3000)], "w": [0.5] * 3000}
    tfs.write_table(columns, f"{tmp_path}/t", num_shards=2, compression="GZIP")
    return f"{tmp_path}/t"


def test_arrow_batches_have_the_types_of_the_dataset(table: str) -> None:
    pa = pytest.importorskip("pyarrow")
    found = tfs.partitions(table, num_partitions=2)
    batches = [batch for part in found for batch in sent(part).arrow_batches()]
    assert pa.Table.from_batches(batches).equals(tfs.read_table(table).to_arrow())
    for part in found:
        assert part.arrow_schema().equals(batches[0].schema)
    rows = [batch.num_rows for batch in found[0].arrow_batches(batch_rows=999)]
    assert rows == [999, 501]


def test_arrow_batches_of_some_columns(table: str) -> None:
    pytest.importorskip("pyarrow")
    part = tfs.partitions(table)[0]
    (first, *_) = part.arrow_batches(columns=["w", "x"])
    assert first.schema.names == part.arrow_schema(columns=["w", "x"]).names == ["w", "x"]
    (first, *_) = part.arrow_batches({"x": "int64"})
    assert first.schema.names == ["x"]
    assert sum(batch.num_rows for batch in part.arrow_batches(columns=[])) == 3000
    with pytest.raises(KeyError, match="no feature 'z'"):
        part.arrow_batches(columns=["z"])
    with pytest.raises(ValueError, match="batch_rows must be at least 1"):
        part.arrow_batches(batch_rows=0)


def test_without_a_schema_it_is_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (name,) = foreign(tmp_path, 1)
    (part,) = tfs.partitions(name)
    for call in (part.arrow_schema, part.arrow_batches):
        with pytest.raises(ValueError, match=r"pass schema=.*infer_schema"):
            call()


def test_a_record_that_does_not_fit_names_the_partition(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with tfs.TFRecordWriter(f"{tmp_path}/f") as writer:
        writer.write_batch([{"x": 1}, {"x": 2}, {"x": "text"}])
    (part,) = tfs.partitions(f"{tmp_path}/f")
    with pytest.raises(tfs.SchemaError, match=r"partition 0 of .*/f.*record 2"):
        list(part.arrow_batches({"x": "int64"}))


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_layout_is_covered(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    records = items(data.draw(st.integers(0, 200)), data.draw(st.integers(0, 9)))
    options = {
        "num_shards": data.draw(st.integers(1, 5)),
        "block_bytes": data.draw(st.integers(4096, 20_000)),
        "compression": data.draw(st.sampled_from(CODECS)),
    }
    url = written(tmp_path_factory.mktemp("layout"), records, **options)
    whole = list(tfs.RecordReader(url))
    check_cover(tfs.partitions(url, num_partitions=data.draw(st.integers(1, 30))), whole)
    check_cover(tfs.partitions(url, target_bytes=data.draw(st.integers(1, 30_000))), whole)

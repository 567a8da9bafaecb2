"""`slice`: the same records as Python's own slice of the list, whatever the layout."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.support.counted import Counted
from tests.support.framed import framed
from tests.support.indexes import all_long
from tfio_store.dataset.block_tables import BlockTable, cut_table
from tfio_store.dataset.slice import bounds_of, span_text
from tfio_store.records.framing import crc32c, masked_crc32c
from tfio_store.storage import open_store

CODECS = [None, "GZIP", "ZLIB", "ZSTD"]


def items(count: int, seed: int = 0, most: int = 700) -> list[bytes]:
    rng = np.random.default_rng(seed)
    return [b"%d:" % i + rng.bytes(int(n)) for i, n in enumerate(rng.integers(0, most, count))]


def written(url: str, records: list[bytes], **options: Any) -> list[bytes]:
    """A dataset of small blocks. Its records, in order."""
    given: dict[str, Any] = {"num_shards": 3, "block_bytes": 4096} | options
    with tfs.ShardedWriter(url, **given) as writer:
        writer.write_batch(records)
    return list(tfs.RecordReader(url))


# Spans

bounds = st.one_of(
    st.none(), st.integers(-30, 30), st.integers(-(1 << 70), 1 << 70), st.integers(-3, 3)
)


@given(bounds, bounds, st.integers(0, 25))
def test_numbers_are_as_in_python(start: int | None, stop: int | None, total: int) -> None:
    whole = list(range(total))
    for span in (slice(start, stop), (start, stop)):
        first, end = bounds_of(span_text(span), total)
        assert 0 <= first <= end <= total
        assert whole[first:end] == whole[start:stop]


@given(st.lists(st.integers(0, 1000), max_size=8), st.integers(0, 10**15))
def test_percentages_meet_and_cover_all(cuts: list[int], total: int) -> None:
    edges = [f"{cut / 10}%" for cut in sorted(cuts)]
    spans = [f"{a}:{b}" for a, b in zip(["", *edges], [*edges, ""], strict=True)]
    found = [bounds_of(span_text(span), total) for span in spans]
    assert found[0][0] == 0
    assert found[-1][1] == total
    assert all(one[1] == following[0] for one, following in pairwise(found))


@pytest.mark.parametrize(
    ("span", "total", "expected"),
    [
        ("80%:", 10, (8, 10)),
        (":20%", 9, (0, 1)),
        ("10%:20%", 1000, (100, 200)),
        ("12.5%:", 8, (1, 8)),
        ("-20%:", 10, (8, 10)),
        (":-20%", 10, (0, 8)),
        (":200%", 10, (0, 10)),
        ("50%:3", 10, (5, 5)),
        ("25%:-1", 8, (2, 7)),
        (" 1_000 : ", 2000, (1000, 2000)),
        (":", 7, (0, 7)),
        ("33%:", 10**18 + 1, (330_000_000_000_000_000, 10**18 + 1)),
    ],
)
def test_texts(span: str, total: int, expected: tuple[int, int]) -> None:
    assert bounds_of(span_text(span), total) == expected


@pytest.mark.parametrize(
    "span", ["", "5", "a:b", "1:2:3", "%:", "1e3:", "nan%:", "1/2%:", "--1:", "1_:"]
)
def test_other_texts_are_refused(span: str) -> None:
    with pytest.raises(ValueError, match="span="):
        tfs.slice("train", span)


@pytest.mark.parametrize("span", [5, None, (1,), (1, 2, 3), (1.5, None), ("1", "2"), (True, None)])
def test_other_things_are_refused(span: Any) -> None:
    with pytest.raises(TypeError, match="span="):
        tfs.slice("train", span)


def test_a_step_is_refused() -> None:
    with pytest.raises(ValueError, match="takes no step"):
        tfs.slice("train", slice(0, 10, 2))


@pytest.mark.parametrize("source", [5, b"train", None, io.BytesIO(), [["a"]], ["a", b"b"]])
def test_a_source_that_is_none_is_refused(source: Any) -> None:
    with pytest.raises(TypeError, match="source="):
        tfs.slice(source, ":5")


# The value


def test_it_is_a_small_value() -> None:
    one = tfs.slice("s3://bucket/train", "80%:")
    assert pickle.loads(pickle.dumps(one)) == one
    assert tfs.slice(Path("/train"), ":1") == tfs.slice("/train", ":1") != one
    assert len(pickle.dumps(one)) < 200
    assert {one: 1}[tfs.slice("s3://bucket/train", "80%:")] == 1
    assert repr(one) == "slice('s3://bucket/train', '80%:')"
    assert repr(tfs.slice([one, "x"], (1, 2))) == f"slice([{one!r}, 'x'], '1:2')"


def test_a_password_in_the_source_is_not_shown() -> None:
    one = tfs.slice("https://user:s3cret@host/train", ":5")
    assert "s3cret" not in repr(one) + str(one) + repr(tfs.slice([one], ":1"))


# Tables


@st.composite
def tables(draw: st.DrawFn) -> tuple[BlockTable, list[tuple[int, int]]]:
    """A table, and of each record its block's raw bytes and its number there."""
    counts = draw(st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(any))
    records = np.append(0, np.cumsum(counts)).astype(np.int64)
    if draw(st.booleans()):
        sizes = [draw(st.lists(st.integers(16, 99), min_size=n, max_size=n)) for n in counts]
        offsets = np.append(0, np.cumsum([sum(each) for each in sizes])).astype(np.int64)
        starts = [sum(each[:i]) for each in sizes for i in range(len(each))]
        table = BlockTable(offsets, offsets, records, np.array(starts, np.uint32))
    else:
        offsets, raw = (np.append(0, np.cumsum(np.array(counts) * k + 1)) for k in (3, 7))
        table = BlockTable(offsets.astype(np.int64), raw.astype(np.int64), records)
    if draw(st.booleans()):
        crcs = np.arange(1, 1 + records[-1], dtype=np.uint32)
        sums = np.array([summed(crcs[:before]) for before in records.tolist()], np.uint32)
        known = crcs if table.starts is not None else None
        table = replace(table, sums=sums, crcs=known)
    return table, list(held(table))


def summed(crcs: np.ndarray[Any, np.dtype[np.uint32]]) -> int:
    return crc32c(crcs.astype("<u4").tobytes())


def held(table: BlockTable) -> Iterator[tuple[int, int]]:
    """Each record of a table: where it begins; or its block, and its number there."""
    for b in range(len(table)):
        first, stop = table.records[b : b + 2].tolist()
        for i in range(first, stop):
            if table.starts is not None:
                yield int(table.offsets[b] + table.starts[i]), 0
            else:
                skipped = table.before if b == 0 else 0
                yield int(table.raw_offsets[b]), i - first + skipped


@given(tables(), st.data())
def test_a_part_of_a_table_tells_of_its_records(
    of: tuple[BlockTable, list[tuple[int, int]]], data: st.DataObject
) -> None:
    table, expected = of
    before = 0
    for _ in range(3):  # a part of a part of a part
        first = data.draw(st.integers(0, len(expected)))
        stop = data.draw(st.integers(first, len(expected)))
        whole, table, expected = table, cut_table(table, first, stop), expected[first:stop]
        before += first
        assert list(held(table)) == expected
        assert (np.diff(table.records) >= 0).all()
        assert table.records[0] == 0
        assert table.records[-1] == len(expected)
        assert len(expected) or not len(table)
        for array in (table.offsets, table.raw_offsets, table.records, table.sums):
            assert array is None or len(array) == len(table) + 1
        for array in (table.starts, table.crcs):
            assert array is None or len(array) == len(expected)
        kept = ("starts", "crcs", "sums")
        assert [getattr(table, name) is None for name in kept] == [
            getattr(whole, name) is None for name in kept
        ]
        if table.sums is not None and expected:
            ends = (table.records + before).tolist()
            ends[0] -= table.before
            ends[-1] += table.behind
            known = np.arange(1, 1 + max(ends), dtype=np.uint32)
            assert table.sums.tolist() == [summed(known[:end]) for end in ends]


# Datasets


@pytest.fixture(scope="module", params=CODECS, ids=str)
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("slices")
    url = f"{folder}/train"
    return url, written(url, items(500), compression=request.param)


def read_all_ways(source: Any, expected: list[bytes]) -> None:
    reader = tfs.RecordReader(source)
    assert list(reader) == expected
    assert [r for batch in reader.batches() for r in batch] == expected
    assert sorted(reader.shuffle(3)) == sorted(expected)
    shares = [list(tfs.RecordReader(source).shard(i, 3)) for i in range(3)]
    assert sorted(r for share in shares for r in share) == sorted(expected)
    found = tfs.RecordSource(source)
    assert found[:] == expected
    picked = list(range(0, len(expected), 7))
    assert found[picked] == [expected[i] for i in picked]
    assert tfs.count(source) == len(expected)
    assert tfs.verify(source).records == len(expected)
    parts = tfs.partitions(source, num_partitions=4)
    assert [r for part in parts for r in pickle.loads(pickle.dumps(part)).reader()] == expected


@pytest.mark.parametrize("span", [":", "3:", ":3", "80%:", "17:18", "100:400", "-30:", "50:50"])
def test_a_slice_of_a_dataset(dataset: Any, span: str) -> None:
    url, whole = dataset
    first, stop = bounds_of(span, len(whole))
    read_all_ways(tfs.slice(url, span), whole[first:stop])


def test_train_and_validation_are_apart_and_whole(dataset: Any) -> None:
    url, whole = dataset
    parts = [list(tfs.RecordReader(tfs.slice(url, span))) for span in ("0%:80%", "80%:")]
    assert parts == [whole[:400], whole[400:]]


def test_slices_of_slices_and_in_lists(dataset: Any) -> None:
    url, whole = dataset
    inner = tfs.slice(tfs.slice(url, "100:400"), "-50%:")
    read_all_ways(inner, whole[250:400])
    read_all_ways([inner, url, tfs.slice(url, ":1")], whole[250:400] + whole + whole[:1])
    read_all_ways(tfs.slice([inner, url], "149:152"), whole[399:400] + whole[:2])


def test_a_slice_of_a_partition(dataset: Any) -> None:
    url, _ = dataset
    part = tfs.partitions(url, num_partitions=3)[1]
    assert part.first_record is not None
    read_all_ways(tfs.slice(part, "1:-1"), list(part.reader())[1:-1])


@pytest.mark.parametrize("codec", CODECS)
def test_a_slice_of_a_long_dataset(
    tmp_path: Path, codec: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_long(monkeypatch)
    whole = written(f"{tmp_path}/train", items(500), compression=codec)
    for span in ("30:470", ":200", "7:8", "95%:", "5:5"):
        first, stop = bounds_of(span, len(whole))
        read_all_ways(tfs.slice(f"{tmp_path}/train", span), whole[first:stop])
    read_all_ways(tfs.slice(tfs.slice(f"{tmp_path}/train", "30:470"), "10:20"), whole[40:50])


def test_a_state_of_another_slice_is_refused(dataset: Any) -> None:
    url, whole = dataset
    reader = tfs.RecordReader(tfs.slice(url, "5:300"))
    each = iter(reader)
    for _ in range(123):
        next(each)
    state = reader.state()
    again = tfs.RecordReader(tfs.slice(url, "5:300"))
    again.restore(state)
    assert list(again) == whole[128:300]
    for span in ("6:300", "5:301", "5:", ":300", ":"):
        with pytest.raises(ValueError, match="taken of another source"):
            tfs.RecordReader(tfs.slice(url, span)).restore(state)


def test_files_without_an_index_are_walked(tmp_path: Path) -> None:
    names = []
    for i in range(3):
        (tmp_path / f"f{i}").write_bytes(framed(items(100, i)))
        names.append(f"{tmp_path}/f{i}")
    whole = [r for i in range(3) for r in items(100, i)]
    read_all_ways(tfs.slice(names, "40:260"), whole[40:260])
    read_all_ways(tfs.slice(f"{tmp_path}/f*", "-99:"), whole[-99:])


OPENERS: dict[str, Any] = {
    "RecordReader": lambda part, **how: list(tfs.RecordReader(part, **how)),
    "RecordSource": lambda part, **how: list(tfs.RecordSource(part, **how)),
    "mix": lambda part, **how: list(tfs.mix({part: 1}, **how)),
    "count": lambda part, **how: [b"5"] * tfs.count(part, **how),
}


@pytest.mark.parametrize("opener", OPENERS)
def test_files_are_walked_within_the_limits_of_the_caller(tmp_path: Path, opener: str) -> None:
    long = struct.pack("<Q", (1 << 30) + 1)
    whole = framed([b"5"]) + long + struct.pack("<I", masked_crc32c(long))
    (tmp_path / "f").write_bytes(whole)
    os.truncate(tmp_path / "f", len(whole) + (1 << 30) + 5)  # a hole
    part = tfs.slice(f"{tmp_path}/f", ":1")
    assert OPENERS[opener](part, max_record_bytes=2 << 30) == [b"5"]
    with pytest.raises(tfs.errors.RecordTooLargeError, match="max_record_bytes="):
        OPENERS[opener](part)


def test_only_bytes_of_the_slice_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{tmp_path}/train"
    whole = written(url, items(500), num_shards=1, record_positions=True)
    for codec in ("raw", "GZIP"):
        if codec == "GZIP":
            written(url, items(500), num_shards=1, compression="GZIP", if_exists="overwrite")
        dataset = tfs.RecordSource(tfs.slice(url, "200:210")).dataset
        counted = Counted(open_store("/")[0], monkeypatch)
        assert list(tfs.RecordReader(tfs.slice(url, "200:210"))) == whole[200:210]
        if codec == "raw":
            assert counted.nbytes == sum(len(record) + 16 for record in whole[200:210])
        assert counted.nbytes == dataset.nbytes < 20_000


def test_a_compressed_stream_of_another_writer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(framed(items(10))))
    for read in (tfs.RecordReader, tfs.RecordSource, tfs.partitions):
        with pytest.raises(ValueError, match=r"a\.gz: is one GZIP stream.*tfio_store\.copy"):
            read(tfs.slice(f"{tmp_path}/a.gz", ":5"))


def test_damage_in_a_cut_block_is_told_by_both_sides(tmp_path: Path) -> None:
    url = f"{tmp_path}/train"
    whole = written(
        url, items(60, most=100), num_shards=1, block_bytes=1 << 20, record_positions=False
    )
    path = tmp_path / "train-00000-of-00001.tfrecord"
    data = bytearray(path.read_bytes())
    at = data.index(whole[45])
    data[at + 2] ^= 0xFF
    path.write_bytes(data)
    sides = [tfs.slice(url, span) for span in (":30", "30:")]
    for side in sides:
        with pytest.raises(tfs.CorruptRecordError, match=str(path)):
            list(tfs.RecordReader(side))
    found: list[bytes] = []
    for side in sides:
        regions: list[Any] = []
        found += tfs.RecordReader(side, on_corrupt=regions.append)
        assert len(regions) == 1
    assert found == whole[:45] + whole[46:]


def test_an_index_that_counts_other_records_is_refused(tmp_path: Path) -> None:
    """Also where the records beside the slice are wrong."""
    url = f"{tmp_path}/train"
    written(url, items(60, most=100), num_shards=1, block_bytes=1 << 20, record_positions=False)
    path = tmp_path / "train-00000-of-00001.tfrecord"
    other = framed(items(61, 5, most=90))
    path.write_bytes(other + bytes(path.stat().st_size - len(other)))
    with pytest.raises((tfs.ManifestError, tfs.DataLossError)):
        list(tfs.RecordReader(tfs.slice(url, ":10")))


def test_the_schema_and_the_metadata_come_along(tmp_path: Path) -> None:
    url = f"{tmp_path}/t"
    with tfs.ShardedWriter(url, num_shards=1, schema={"x": "int64"}, metadata={"a": 1}) as writer:
        writer.write_batch([{"x": i} for i in range(10)])
    part = tfs.slice(url, "5:")
    assert tfs.infer_schema(part) == tfs.infer_schema(url)
    assert tfs.read_table(part)["x"].tolist() == [5, 6, 7, 8, 9]
    assert tfs.stats(part).features["x"].least == 5
    copied = tfs.copy(part, f"{tmp_path}/c", num_shards=1)
    assert (copied.records, copied.metadata) == (5, {"a": 1})
    assert tfs.diff(part, f"{tmp_path}/c").same
    assert tfs.info(part).records == 5
    assert tfs.convert(part, f"{tmp_path}/c.jsonl").records == 5
    with pytest.raises(ValueError, match="a part of this file"):
        tfs.build_index(part)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_span_of_any_layout(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    url = f"{tmp_path_factory.mktemp('any')}/train"
    records = items(data.draw(st.integers(0, 120)), data.draw(st.integers(0, 9)))
    codec = data.draw(st.sampled_from(CODECS))
    whole = written(
        url,
        records,
        num_shards=data.draw(st.integers(1, 4)),
        block_bytes=data.draw(st.integers(4096, 20_000)),
        compression=codec,
        record_positions=data.draw(st.booleans()) if codec is None else None,
    )
    span = slice(data.draw(st.integers(-130, 130)), data.draw(st.integers(-130, 130)))
    read_all_ways(tfs.slice(url, span), whole[span])
    inner = slice(data.draw(st.integers(-130, 130)), data.draw(st.integers(-130, 130)))
    read_all_ways(tfs.slice(tfs.slice(url, span), inner), whole[span][inner])

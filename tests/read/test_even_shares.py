"""Even shares: each has the same number of records, known in advance, and together they are all."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.layouts import LAYOUTS, Layout, laid_out
from tests.support.million import BLOCKS, record, write_many

ARRANGED: dict[str, Any] = {
    "in order": lambda reader, index, count, even: reader.shard(index, count, even=even),
    "shuffled before": lambda reader, index, count, even: reader.shuffle(3, window=1).shard(
        index, count, even=even
    ),
    "shuffled behind": lambda reader, index, count, even: reader.shard(
        index, count, even=even
    ).shuffle(3, window=1),
    "a share of a share": lambda reader, index, count, even: reader.shard(0, 1).shard(
        index, count, even=even
    ),
}
arrangements = st.sampled_from(sorted(ARRANGED))


@given(LAYOUTS, st.integers(1, 9), arrangements, st.integers(0, 2))
def test_padded_shares_hold_every_record(
    layout: Layout, count: int, arranged: str, epoch: int
) -> None:
    with laid_out(layout) as (dataset, records):
        shares = []
        for index in range(count):
            reader = ARRANGED[arranged](tfs.RecordReader.of(dataset), index, count, "pad")
            for _ in range(epoch):
                list(reader)
            size = -(-len(records) // count)
            assert reader.num_records == size
            shares.append(list(reader))
            assert len(shares[-1]) == size
    given_out = Counter(found for share in shares for found in share)
    assert set(given_out) == set(records)
    repeated = sum(given_out.values()) - len(records)
    assert 0 <= repeated < count
    if arranged in ("in order", "a share of a share"):
        repeats = records * (1 + count)
        assert [found for share in shares for found in share] == repeats[: count * size]


@given(LAYOUTS, st.integers(1, 9), arrangements)
def test_cut_shares_repeat_nothing(layout: Layout, count: int, arranged: str) -> None:
    with laid_out(layout) as (dataset, records):
        shares = []
        for index in range(count):
            reader = ARRANGED[arranged](tfs.RecordReader.of(dataset), index, count, "drop")
            assert reader.num_records == len(records) // count
            shares.append(list(reader))
    assert {len(share) for share in shares} == {len(records) // count}
    found = [one for share in shares for one in share]
    assert len(set(found)) == len(found)
    assert len(records) - len(found) < count
    if arranged == "in order":
        assert found == records[: len(found)]


@given(LAYOUTS, st.integers(1, 5), arrangements, st.sampled_from(["drop", "pad"]), st.data())
def test_a_share_resumes_at_every_record(
    layout: Layout, count: int, arranged: str, even: str, data: Any
) -> None:
    index = data.draw(st.integers(0, count - 1))
    with laid_out(layout) as (dataset, _):

        def reader() -> tfs.RecordReader:
            whole = tfs.RecordReader.of(dataset)
            found: tfs.RecordReader = ARRANGED[arranged](whole, index, count, even)
            return found

        share = list(reader())
        at = data.draw(st.integers(0, len(share)))
        running = reader()
        each = iter(running)
        assert [next(each) for _ in range(at)] == share[:at]
        resumed = reader()
        resumed.restore(json.loads(json.dumps(running.state())))
        assert list(resumed) == share[at:]


@pytest.mark.parametrize("inner", [None, "drop", "pad"])
@pytest.mark.parametrize(("even", "each"), [("drop", 250), ("pad", 251)])
def test_ranks_are_even_whatever_their_workers_do(inner: str | None, even: str, each: int) -> None:
    """1,003 records over 4 ranks of 2 workers."""
    found = Counter[bytes]()
    with laid_out([("raw", [100, 3, 200]), ("gzip", [400, 300])]) as (dataset, records):
        for rank in range(4):
            mine = tfs.RecordReader.of(dataset).shuffle(1).shard(rank, 4, even=even)
            workers = [mine.shard(worker, 2, even=inner) for worker in range(2)]
            held = [list(worker) for worker in workers]
            if inner is None:
                assert sum(map(len, held)) == each
            else:
                assert len(held[0]) == len(held[1]) == (each + (inner == "pad")) // 2
            found.update(one for worker in held for one in worker)
    assert set(found) <= set(records)
    if inner != "drop" and even == "pad":
        assert set(found) == set(records)
    if inner is None:
        assert sum(found.values()) == 4 * each


@pytest.mark.parametrize(("even", "each"), [("drop", 0), ("pad", 1)])
def test_more_shares_than_records(even: str, each: int) -> None:
    with laid_out([("raw", [1, 0, 2])]) as (dataset, records):
        readers = [tfs.RecordReader.of(dataset).shard(i, 7, even=even) for i in range(7)]
        assert [reader.num_records for reader in readers] == [each] * 7
        assert [list(reader) for reader in readers] == [records[i % 3 :][:each] for i in range(7)]


@pytest.mark.parametrize("even", ["drop", "pad"])
@pytest.mark.parametrize("layout", [[("raw", [0, 0])], [("no index", [0])]])
def test_no_records(even: str, layout: Layout) -> None:
    with laid_out(layout) as (dataset, _):
        reader = tfs.RecordReader.of(dataset).shuffle(1).shard(1, 2, even=even)
        assert reader.num_records == 0
        assert list(reader) == []


def test_another_epoch_repeats_and_leaves_out_others() -> None:
    with laid_out([("raw", [1] * 50)]) as (dataset, records):
        readers = [
            tfs.RecordReader.of(dataset).shuffle(1).shard(i, 4, even="drop") for i in (0, 1, 2, 3)
        ]
        left = [set(records).difference(*map(list, readers)) for _ in range(4)]
    assert {len(each) for each in left} == {2}
    assert len(set(map(frozenset, left))) > 1


@pytest.mark.parametrize("other", [None, "drop"])
def test_the_state_of_another_share_is_refused(other: str | None) -> None:
    with laid_out([("raw", [3, 4])]) as (dataset, _):
        whole = tfs.RecordReader.of(dataset)
        state = whole.shard(0, 2, even="pad").state()
        with pytest.raises(ValueError, match=r"another order, shard\(0, 2, even=pad\); this"):
            whole.shard(0, 2, even=other).restore(state)


def test_a_stream_cannot_be_cut(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(framed([b"a"])))
    reader = tfs.RecordReader(tmp_path / "x").shard(0, 2, even="pad")
    with pytest.raises(ValueError, match=r"even=: .*x is one GZIP stream.*tfio_store\.copy"):
        next(iter(reader))
    with pytest.raises(ValueError, match="even=: "):
        reader.num_records  # noqa: B018
    assert tfs.RecordReader(tmp_path / "x").shard(0, 2).num_records is None


def test_arguments(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([b"a"]))
    with pytest.raises(ValueError, match='even= takes "drop", "pad", "split" or None'):
        tfs.RecordReader(tmp_path / "x").shard(0, 2, even=True)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"even= needs every record, and on_corrupt="):
        tfs.RecordReader(tmp_path / "x", on_corrupt="skip").shard(0, 2, even="pad")


@pytest.mark.parametrize("value", [1.0, "1", True, None])
def test_numbers_that_are_none(tmp_path: Path, value: Any) -> None:
    (tmp_path / "x").write_bytes(framed([b"a"]))
    reader = tfs.RecordReader(tmp_path / "x")
    for name, make in {
        "index": lambda: reader.shard(value, 2),
        "count": lambda: reader.shard(0, value),
        "seed": lambda: reader.shuffle(value),
        "window": lambda: reader.shuffle(1, window=value),
        "epoch": lambda: reader.shuffle(1, epoch=value),
    }.items():
        if (name, value) == ("epoch", None):
            continue
        with pytest.raises(TypeError, match=f"{name}= takes a whole number, not"):
            make()
    with pytest.raises(ValueError, match="epoch= takes a number from 0 on"):
        reader.shuffle(1, epoch=-1)


def test_numbers_of_records() -> None:
    with laid_out([("raw", [3, 4]), ("gzip", [5])]) as (dataset, _):
        whole = tfs.RecordReader.of(dataset)
        assert whole.num_records == 12
        assert [whole.shard(i, 2).num_records for i in (0, 1)] == [8, 4]
        assert whole.shuffle(3).num_records == 12
        assert tfs.RecordReader.of(dataset, on_corrupt="skip").num_records is None


def test_two_million_blocks(tmp_path: Path) -> None:
    """Of a long dataset, only the pages and tables of a share's two ends are read."""
    path = write_many(tmp_path, 1)
    count = 7
    each = -(-2048 * BLOCKS // count)
    first, last = (tfs.RecordReader(path).shard(i, count, even="pad") for i in (0, count - 1))
    assert first.num_records == last.num_records == each
    assert next(iter(first)) == record(0)
    assert next(iter(last)) == record((count - 1) * each % BLOCKS)
    first.restore(first.state() | {"position": each - 1, "records": 0})
    assert list(first) == [record((each - 1) % BLOCKS)]


@pytest.mark.parametrize("even", ["drop", "pad"])
def test_shares_of_a_slice_of_a_long_dataset(tmp_path: Path, even: str) -> None:
    """Cut at its own ends, in the midst of a shard."""
    path = write_many(tmp_path, 1)
    first, stop, count = 1_500, 3_757, 4
    part = tfs.slice(path, (first, stop))
    wanted = [record(number % BLOCKS) for number in range(first, stop)]
    shares = [tfs.RecordReader(part).shard(i, count, even=even) for i in range(count)]
    size = len(wanted) // count + (even == "pad")
    assert {share.num_records for share in shares} == {size}
    found = [one for share in shares for one in share]
    assert found == (wanted + wanted)[: count * size]

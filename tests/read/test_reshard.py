"""States of n workers become those of m: what was not given comes once, and nothing else does."""

from __future__ import annotations

import json
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.layouts import LAYOUTS, Layout, laid_out
from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.model import Dataset, Shard, Shards

Arrange = Callable[[tfs.RecordReader, int, int], tfs.RecordReader]

ARRANGED: dict[str, Arrange] = {
    "in order": lambda reader, index, count: reader.shard(index, count),
    "shuffled before": lambda reader, index, count: reader.shuffle(3, window=1).shard(index, count),
    "shuffled behind": lambda reader, index, count: reader.shard(index, count).shuffle(3, window=1),
    "shuffled twice": lambda reader, index, count: (
        reader.shuffle(5).shard(index, count).shuffle(3, window=1)
    ),
}


def taken(reader: tfs.RecordReader, count: int) -> list[bytes]:
    """Records, whose epoch ends if there are fewer."""
    return list(islice(reader, count))


def rest_of(reader: tfs.RecordReader, epoch: int) -> list[bytes]:
    """What is left of an epoch, which may have ended."""
    return list(reader) if reader.state()["epoch"] == epoch else []


def states_of(readers: Sequence[tfs.RecordReader]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps([reader.state() for reader in readers]))
    return found


def resharded(
    readers: Sequence[tfs.RecordReader], others: Sequence[tfs.RecordReader]
) -> Sequence[tfs.RecordReader]:
    states = states_of(readers)[::-1]
    new = json.loads(json.dumps(tfs.reshard_state(states, len(others))))
    for reader, state in zip(others, new, strict=True):
        reader.restore(state)
    return others


@settings(deadline=None, max_examples=40)
@given(
    LAYOUTS,
    st.lists(st.integers(1, 5), min_size=2, max_size=4),
    st.sampled_from(sorted(ARRANGED)),
    st.integers(0, 2),
    st.sampled_from([0, 90_000]),
    st.data(),
)
def test_every_record_once(
    layout: Layout, counts: list[int], arranged: str, epoch: int, nbytes: int, data: Any
) -> None:
    """Through several numbers of workers, each stopped anywhere, or at the end of its share."""
    with laid_out(layout, nbytes) as (dataset, records):

        def workers(count: int) -> list[tfs.RecordReader]:
            whole = tfs.RecordReader.of(dataset)
            return [ARRANGED[arranged](whole, index, count) for index in range(count)]

        readers: Sequence[tfs.RecordReader] = workers(counts[0])
        for reader in readers:
            for _ in range(epoch):
                list(reader)
        found: list[bytes] = []
        for count in counts[1:]:
            for reader in readers:
                stop = data.draw(st.integers(0, 1 + len(records) // len(readers)))
                found += taken(reader, stop) if reader.state()["epoch"] == epoch else []
            readers = resharded(readers, workers(count))
        found += [one for reader in readers for one in rest_of(reader, epoch)]
        assert sorted(found) == sorted(records)
        fresh = workers(counts[-1])
        for reader, other in zip(readers, fresh, strict=True):
            for _ in range(epoch + 1):
                list(other)
            assert list(reader) == list(other)  # the next epoch is the ordinary one


@settings(deadline=None)
@given(
    LAYOUTS,
    st.lists(st.integers(1, 5), min_size=2, max_size=4),
    st.sampled_from(["drop", "pad"]),
    st.booleans(),
    st.data(),
)
def test_even_shares_stay_even(
    layout: Layout, counts: list[int], even: str, shuffled: bool, data: Any
) -> None:
    with laid_out(layout) as (dataset, records):
        whole = tfs.RecordReader.of(dataset)
        whole = whole.shuffle(1, window=1) if shuffled else whole

        def workers(count: int) -> list[tfs.RecordReader]:
            return [whole.shard(index, count, even=even) for index in range(count)]

        readers: Sequence[tfs.RecordReader] = workers(counts[0])
        found: list[bytes] = []
        repeats = counts[0] - 1
        for count in counts[1:]:
            size = readers[0].num_records
            assert size is not None
            stop = data.draw(st.integers(0, size))  # as ranks that train in step
            for reader in readers:
                assert reader.num_records == size
                found += taken(reader, stop)
            readers = resharded(readers, workers(count))
            repeats += count - 1
        found += [one for reader in readers for one in rest_of(reader, 0)]
        held = Counter(found)
        assert set(held) <= set(records)
        if even == "pad":
            assert set(held) == set(records)
            assert len(found) - len(records) <= repeats
        else:
            assert len(found) == len(held) >= len(records) - repeats


@pytest.mark.parametrize("shuffled", [False, True])
def test_ranks_times_workers(shuffled: bool) -> None:
    """4 ranks of 2 workers become 3 of 3, and then one process that reads alone."""
    with laid_out([("raw", [100, 3, 200]), ("gzip", [400, 300])]) as (dataset, records):
        whole = tfs.RecordReader.of(dataset)
        whole = whole.shuffle(1, window=1) if shuffled else whole
        old = [whole.shard(r, 4, even="pad").shard(w, 2) for r in range(4) for w in range(2)]
        found = [one for reader in old for one in taken(reader, 40)]
        new = [whole.shard(r, 3, even="pad").shard(w, 3) for r in range(3) for w in range(3)]
        resharded(old, new)
        sizes = [
            sum(reader.num_records or 0 for reader in new[r * 3 : r * 3 + 3]) for r in range(3)
        ]
        assert len(set(sizes)) == 1
        found += [one for reader in new for one in taken(reader, 10)]
        resharded(new, [whole])
        found += whole
        assert set(found) == set(records)
        assert len(found) <= len(records) + 3 + 2


@pytest.mark.parametrize("kinds", ["raw", "gzip", "no index", "stream"])
@pytest.mark.parametrize("stop", [0, 1, 7, 8, 14, 15, 22, 23])
def test_from_one_reader_and_back(kinds: str, stop: int) -> None:
    """A reader in order reads raw files as streams; its workers read blocks."""
    with laid_out([(kinds, [3, 5]), (kinds, [0]), (kinds, [7, 0, 8])], 10_000) as (
        dataset,
        records,
    ):
        one = tfs.RecordReader.of(dataset)
        found = taken(one, stop)
        assert found == records[:stop]
        two = resharded([one], [tfs.RecordReader.of(dataset).shard(i, 2) for i in range(2)])
        found += [record for reader in two for record in taken(reader, 2)]
        (last,) = resharded(two, [tfs.RecordReader.of(dataset)])
        again = tfs.RecordReader.of(dataset)
        again.restore(last.state())
        rest = rest_of(last, 0)
        assert rest_of(again, 0) == rest
        assert sorted(found + rest) == sorted(records)
        assert list(last) == records  # the next epoch


@pytest.mark.parametrize("window", [1, 2, 16])
@pytest.mark.parametrize("stop", [0, 3, 9, 17, 40])
def test_streams_among_shuffled_blocks(window: int, stop: int) -> None:
    layout: Layout = [("stream", [20]), ("raw", [5, 6]), ("stream", [30]), ("gzip", [9, 4])]
    with laid_out(layout, 200_000) as (dataset, records):
        whole = tfs.RecordReader.of(dataset).shuffle(2, window=window)
        old = [whole.shard(i, 2) for i in range(2)]
        found = [record for reader in old for record in taken(reader, stop)]
        new = resharded(old, [whole.shard(i, 3) for i in range(3)])
        for reader in new:
            found += taken(reader, stop // 2) if reader.state()["epoch"] == 0 else []
        (last,) = resharded(new, [whole])
        assert sorted(found + rest_of(last, 0)) == sorted(records)


@pytest.mark.parametrize("even", ["drop", "pad"])
@pytest.mark.parametrize("stop", [3, 17])
def test_even_shares_of_the_rest_name_the_stream_that_cannot_be_cut(even: str, stop: int) -> None:
    with laid_out([("stream", [20]), ("raw", [5, 6]), ("stream", [30])]) as (dataset, _):
        whole = tfs.RecordReader.of(dataset).shuffle(2)
        old = [whole.shard(i, 2) for i in range(2)]
        for reader in old:
            taken(reader, stop)
        for reader, state in zip(
            [whole.shard(i, 3, even=even) for i in range(3)],
            tfs.reshard_state(states_of(old), 3),
            strict=True,
        ):
            with pytest.raises(ValueError, match=r"even=: .*s-[02] is one GZIP stream.*copy"):
                reader.restore(state)


def test_damage_is_passed_over_in_the_rest(tmp_path: Any) -> None:
    records = [b"%d" % i + bytes(1000) for i in range(300)]
    data = bytearray(framed(records))
    data[100 * 1_018 + 500] ^= 1
    for name in "abcd":
        (tmp_path / name).write_bytes(data)
    whole = tfs.RecordReader(str(tmp_path / "*"), on_corrupt=lambda region: None)
    old = [whole.shard(i, 2) for i in range(2)]
    found = [record for reader in old for record in taken(reader, 150)]
    new = resharded(old, [whole.shard(i, 3) for i in range(3)])
    found += [record for reader in new for record in reader]
    once = Counter(found)
    assert sum(once.values()) == 4 * 299
    assert set(once.values()) == {4}


def test_a_resharded_reader_resumes_and_pickles() -> None:
    with laid_out([("raw", [5, 9, 3]), ("gzip", [8, 2])]) as (dataset, _):
        whole = tfs.RecordReader.of(dataset).shuffle(1, window=1)
        old = [whole.shard(i, 2) for i in range(2)]
        for reader in old:
            taken(reader, 4)
        states = tfs.reshard_state(states_of(old), 3)

        def third() -> tfs.RecordReader:
            reader = whole.shard(1, 3)
            reader.restore(states[1])
            return reader

        rest = list(third())
        for at in range(len(rest) + 1):
            reader = third()
            assert taken(reader, at) == rest[:at]
            other = whole.shard(1, 3)
            other.restore(json.loads(json.dumps(reader.state())))
            if at < len(rest):
                assert list(pickle.loads(pickle.dumps(reader))) == rest[at:]
                assert list(other) == rest[at:]


def test_states_are_small_and_of_one_shape() -> None:
    with laid_out([("raw", [1] * 500)]) as (dataset, _):
        whole = tfs.RecordReader.of(dataset).shuffle(1, window=1)
        old = [whole.shard(i, 64) for i in range(64)]
        for reader in old:
            taken(reader, 3)
        states = tfs.reshard_state(states_of(old), 48)
        assert len(json.dumps(states[0])) < 300 + 64 * 10
        shapes = [{name: type(value) for name, value in each.items()} for each in states]
        assert shapes == [{name: type(value) for name, value in old[0].state().items()}] * 48


class TestRefused:
    @pytest.fixture
    def states(self) -> Any:
        with laid_out([("raw", [5, 5, 5, 5])]) as (dataset, _):
            readers = [tfs.RecordReader.of(dataset).shard(i, 4) for i in range(4)]
            for reader in readers:
                taken(reader, 2)
            yield states_of(readers)

    def test_a_missing_share(self, states: list[dict[str, Any]]) -> None:
        with pytest.raises(ValueError, match="holds no state of share 2 of 4"):
            tfs.reshard_state(states[:2] + states[3:], 2)

    def test_a_share_twice(self, states: list[dict[str, Any]]) -> None:
        with pytest.raises(ValueError, match="holds 2 states of share 1 of 4"):
            tfs.reshard_state([*states, states[1]], 2)

    def test_no_states(self) -> None:
        with pytest.raises(ValueError, match="holds no state"):
            tfs.reshard_state([], 2)
        for states in (None, 5, "state"):
            with pytest.raises(TypeError, match="states= takes a list of states"):
                tfs.reshard_state(states, 2)  # type: ignore[arg-type]

    def test_an_iterator_of_states(self, states: list[dict[str, Any]]) -> None:
        found = tfs.reshard_state(iter(states), 2)  # type: ignore[arg-type]
        assert found == tfs.reshard_state(states, 2)

    def test_one_state(self, states: list[dict[str, Any]]) -> None:
        with pytest.raises(ValueError, match="is one state"):
            tfs.reshard_state(states[0], 2)  # type: ignore[arg-type]

    @pytest.mark.parametrize("count", [0, -1, True, 1.5])
    def test_a_count_that_is_none(self, states: list[dict[str, Any]], count: Any) -> None:
        with pytest.raises(ValueError, match="count= takes"):
            tfs.reshard_state(states, count)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"source": "1-0"}, r"states\[2\] was taken of another source"),
            ({"blocks": "1-0"}, r"states\[2\] was taken of other blocks"),
            ({"order": "shard(2, 5)"}, r"states\[2\] was taken of shard\(2, 5\), which"),
            ({"order": "shuffle(seed=1, window=1).shard(2, 4)"}, "another order"),
            ({"order": "shard(2, 4, even=odd)"}, "no order of a reader"),
            ({"order": 3}, "no reader's state"),
            ({"epoch": 1}, r"states\[2\] stands in epoch 1"),
            ({"epoch": 2, "position": 0, "records": 0}, r"states\[2\] stands in epoch 2"),
            ({"format": 2}, "no reader's state"),
            ({"records": -1}, "records=-1"),
            ({"rest": "["}, "rest="),
            ({"rest": '[["shard(0, 1)",[[0,1]]]]'}, "the rest of another epoch"),
        ],
    )
    def test_a_state_of_another_reader(
        self, states: list[dict[str, Any]], change: dict[str, Any], message: str
    ) -> None:
        states[2] |= change
        with pytest.raises(ValueError, match=message):
            tfs.reshard_state(states, 2)

    @pytest.mark.parametrize(
        "rest",
        [
            '[["shard(0, 2)",[[9,1],[0,0]]]]',
            '[["shard(0, 2)",[[0,6],[0,0]]]]',
            '[["shard(0, 2)",[[0,0]]]]',
            '[["shard(0, 2)",[[0,true],[0,0]]]]',
            '[["shard(0, 2)",[[0],[0,0]]]]',
            '[["shuffle(seed=1, window=1).shard(0, 2)",[[0,1],[0,0]]]]',
            "[[[]]]",
            "{}",
            "nan",
            None,
            7,
        ],
    )
    def test_a_rest_that_is_none(self, states: list[dict[str, Any]], rest: Any) -> None:
        with laid_out([("raw", [5, 5, 5, 5])]) as (dataset, _):
            reader = tfs.RecordReader.of(dataset).shard(0, 2)
            with pytest.raises(ValueError, match="state="):
                reader.restore(reader.state() | {"rest": rest})

    def test_another_share_of_the_rest(self, states: list[dict[str, Any]]) -> None:
        with laid_out([("raw", [5, 5, 5, 5])]) as (dataset, _):
            whole = tfs.RecordReader.of(dataset)
            new = tfs.reshard_state(states, 2)
            for wrong in (whole.shard(0, 2), whole.shard(1, 3), whole.shuffle(1).shard(1, 2)):
                with pytest.raises(ValueError, match="state= was taken of another order"):
                    wrong.restore(new[1])
            right = whole.shard(0, 1).shard(1, 2, even="pad")
            right.restore(new[1])
            next(iter(right))
            with pytest.raises(ValueError, match="another order"):  # it is begun
                whole.shard(1, 2).restore(right.state())


def test_a_million_blocks_are_quick() -> None:
    """Nothing is done block by block."""
    count = 1_000_000
    offsets = np.arange(count + 1, dtype=np.int64) * 100
    table = BlockTable(offsets, offsets, np.arange(count + 1, dtype=np.int64))
    dataset = Dataset(Shards([Shard("/none", count * 100, None, count, table)]))
    whole = tfs.RecordReader.of(dataset).shuffle(1, window=1)
    old = states_of([whole.shard(i, 8, even="pad") for i in range(8)])
    for at, state in enumerate(old):
        state["records"] = 100 * at
    new = [whole.shard(j, 3, even="pad") for j in range(3)]
    for reader, state in zip(new, tfs.reshard_state(old, 3), strict=True):
        reader.restore(state)
    left = count - sum(100 * at for at in range(8))
    assert {reader.num_records for reader in new} == {-(-left // 3)}


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 60), st.integers(0, 60), st.booleans(), st.data())
def test_slices_are_shared_out_as_any_source(
    first: int, length: int, shuffled: bool, data: Any
) -> None:
    """Their blocks are cut already, and are cut again."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        records = [b"%d" % i + bytes(500) for i in range(100)]
        with tfs.ShardedWriter(path, num_shards=3, compression="GZIP", block_bytes=4096) as writer:
            writer.write_batch(records)
        part = tfs.slice(path, (first, first + length))
        whole = tfs.RecordReader(part)
        wanted = list(whole)
        assert len(wanted) == length if first + length <= 100 else len(wanted) == 100 - first
        whole = whole.shuffle(1, window=1) if shuffled else tfs.RecordReader(part)
        even = data.draw(st.sampled_from([None, "pad"]))
        old = [whole.shard(i, 3, even=even) for i in range(3)]
        found = [one for reader in old for one in taken(reader, data.draw(st.integers(0, 9)))]
        if {reader.state()["epoch"] for reader in old} == {0}:
            new = resharded(old, [whole.shard(i, 2) for i in range(2)])
            found += [one for reader in new for one in rest_of(reader, 0)]
            assert set(found) == set(wanted)
            assert len(found) - len(wanted) in (range(1) if even is None else range(3))

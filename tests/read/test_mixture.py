"""Mixtures: by weight, whole epochs, exact states. The oracle draws from lists."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import tfio_store as tfs
from tests.support.framed import framed
from tests.support.layouts import LAYOUTS, Layout, laid_out
from tests.support.long import first, long_on_pure
from tfio_store.dataset.model import Dataset
from tfio_store.read.choices import Choices
from tfio_store.read.mixed import MixedPosition
from tfio_store.read.traversal import ReaderOptions, Shared
from tfio_store.records.framing import backend

SOURCES = st.lists(st.tuples(LAYOUTS, st.sampled_from([1.0, 1.5, 4.0])), min_size=1, max_size=3)


@contextmanager
def mixed(
    sources: list[tuple[Layout, float]], *, seed: int = 0, stop: str = "all"
) -> Iterator[tuple[tfs.results.Mixture, list[Dataset]]]:
    with ExitStack() as stack:
        datasets = [stack.enter_context(laid_out(layout))[0] for layout, _ in sources]
        options = ReaderOptions(True, "raise", 64 << 20, 1 << 20)
        shared = [Shared(dataset) for dataset in datasets]
        choices = Choices(seed, tuple(weight for _, weight in sources))
        yield (
            tfs.results.Mixture._made(
                choices, stop, shared, options, MixedPosition.at_first(0, len(shared))
            ),
            datasets,
        )


def oracle(passes: list[Iterator[list[bytes]]], choices: Choices, epoch: int, stop: str) -> Any:
    """An epoch's records, of lists of the passes of each source."""
    lists = [iter(next(one)) for one in passes]
    begun, empty, ended = [False] * len(passes), [False] * len(passes), [False] * len(passes)
    for place in range(10**6):
        source = int(choices.between(epoch, place, place + 1)[0])
        if empty[source]:
            continue
        record = next(lists[source], None)
        if record is None:
            ended[source], empty[source] = True, not begun[source]
            first = any(ended[i] and not empty[i] for i in range(len(ended))) or all(empty)
            if all(ended) or (stop == "first" and first):
                return
            if empty[source]:
                continue
            lists[source] = iter(next(passes[source]))
            record = next(lists[source])
        begun[source] = True
        yield record


def passes_of(reader: tfs.RecordReader) -> Iterator[list[bytes]]:
    while True:
        yield list(reader)


@settings(deadline=None, max_examples=25)
@given(SOURCES, st.sampled_from(["all", "first"]), st.integers(0, 3))
def test_an_epoch_is_what_it_should_be(
    sources: list[tuple[Layout, float]], stop: str, seed: int
) -> None:
    with mixed(sources, seed=seed, stop=stop) as (mixture, datasets):
        choices = Choices(seed, tuple(weight for _, weight in sources))
        for epoch in range(2):
            passes = [passes_of(tfs.RecordReader.of(dataset)) for dataset in datasets]
            wanted = list(oracle(passes, choices, epoch, stop))
            if all(shard.blocks is not None for one in datasets for shard in one.shards):
                assert mixture.num_records == len(wanted)
            assert list(mixture) == wanted
        batched = [one for batch in mixture.batches() for one in batch]
        passes = [passes_of(tfs.RecordReader.of(dataset)) for dataset in datasets]
        assert batched == list(oracle(passes, choices, 2, stop))


@settings(deadline=None, max_examples=25)
@given(SOURCES, st.sampled_from(["all", "first"]), st.booleans(), st.booleans(), st.data())
def test_it_resumes_at_every_record(
    sources: list[tuple[Layout, float]], stop: str, shuffled: bool, in_batches: bool, data: Any
) -> None:
    with mixed(sources, stop=stop) as (mixture, _):
        mixture = mixture.shuffle(5, window=1) if shuffled else mixture
        other = pickle.loads(pickle.dumps(mixture))
        whole = list(mixture)
        at = data.draw(st.integers(0, len(whole)))
        if in_batches:
            given_out: list[bytes] = []
            batches = other.batches()
            while len(given_out) < at:
                given_out += next(batches)
            state = other.state(unread=len(given_out) - at)
        else:
            assert list(islice(other, at)) == whole[:at]
            state = other.state()
            if at < len(whole):
                assert list(pickle.loads(pickle.dumps(other))) == whole[at:]
        again = pickle.loads(pickle.dumps(mixture))
        again.restore(json.loads(json.dumps(state)))
        assert list(again) == whole[at:]
        assert list(again) == list(mixture)  # the next epoch


@settings(deadline=None, max_examples=25)
@given(SOURCES, st.integers(1, 4), st.sampled_from(["all", "first"]), st.booleans())
def test_even_shares_have_one_length(
    sources: list[tuple[Layout, float]], count: int, stop: str, shuffled: bool
) -> None:
    with mixed(sources, stop=stop) as (mixture, datasets):
        mixture = mixture.shuffle(5, window=1) if shuffled else mixture
        shares = [mixture.shard(index, count, even="pad") for index in range(count)]
        lengths = {share.num_records for share in shares}
        found = [list(share) for share in shares]
        assert lengths == {len(records) for records in found}
        assert len(lengths) == 1
        if stop == "all":
            every = {record for dataset in datasets for record in tfs.RecordReader.of(dataset)}
            assert {record for records in found for record in records} == every


@settings(deadline=None, max_examples=25)
@given(
    SOURCES,
    st.lists(st.integers(1, 4), min_size=2, max_size=3),
    st.booleans(),
    st.data(),
)
def test_resharded_epochs_lose_nothing(
    sources: list[tuple[Layout, float]], counts: list[int], shuffled: bool, data: Any
) -> None:
    """Of each source, all records come, and each once unless a share of the source began anew."""
    with mixed(sources) as (mixture, datasets):
        mixture = mixture.shuffle(5, window=1) if shuffled else mixture

        def shares(count: int) -> list[tfs.results.Mixture]:
            return [mixture.shard(index, count) for index in range(count)]

        total = sum(len(list(tfs.RecordReader.of(dataset))) for dataset in datasets)
        workers, found = shares(counts[0]), list[bytes]()
        for count in counts[1:]:
            for worker in workers:
                if worker.state()["epoch"] == 0:
                    found += islice(worker, data.draw(st.integers(0, total)))
            states = json.loads(json.dumps([worker.state() for worker in workers]))
            workers = shares(count)
            new = tfs.reshard_state(states[::-1], count)
            for worker, state in zip(workers, new, strict=True):
                worker.restore(state)
        for worker in workers:
            if worker.state()["epoch"] == 0:
                found += worker
        every = {record for dataset in datasets for record in tfs.RecordReader.of(dataset)}
        assert set(found) == every
        assert {worker.state()["epoch"] for worker in workers} == {1}


def test_one_source_is_resharded_exactly() -> None:
    with mixed([([("raw", [5, 6, 7]), ("gzip", [30, 2])], 1.0)]) as (mixture, (dataset,)):
        mixture = mixture.shuffle(1, window=1)
        old = [mixture.shard(i, 3) for i in range(3)]
        found = [record for worker in old for record in islice(worker, 3)]
        new = [mixture.shard(i, 2) for i in range(2)]
        states = tfs.reshard_state([worker.state() for worker in old], 2)
        for worker, state in zip(new, states, strict=True):
            worker.restore(state)
            assert worker.num_records is None
        found += [record for worker in new for record in worker]
        assert sorted(found) == sorted(tfs.RecordReader.of(dataset))


@pytest.fixture
def two(tmp_path: Path) -> dict[str, float]:
    for name, count in (("a", 900), ("b", 300)):
        (tmp_path / name).write_bytes(framed([b"%s%d" % (name.encode(), i) for i in range(count)]))
    return {str(tmp_path / "a"): 1.0, str(tmp_path / "b"): 1.0}


def test_weights_hold(two: dict[str, float]) -> None:
    records = list(tfs.mix(two, seed=3))
    assert Counter(record[:1] for record in records[:512])[b"a"] == 256
    held = Counter(record[:1] for record in records)
    assert held[b"a"] == 900
    assert abs(held[b"b"] - 900) <= 128  # it ends in the midst of 256, of which half are of b
    assert set(Counter(records[:512]).values()) == {1}
    first = list(tfs.mix(two, seed=3, stop="first"))
    assert records[: len(first)] == first
    assert Counter(record[:1] for record in first)[b"b"] == 300


def test_a_pair_may_name_a_list_and_a_source_twice(two: dict[str, float]) -> None:
    names = list(two)
    records = list(tfs.mix([(names, 3), (names[1], 1)], stop="first"))
    assert len(records) > 1000


def test_shuffled_sources_come_in_another_order_in_each_pass(two: dict[str, float]) -> None:
    mixture = tfs.mix(two).shuffle(1)
    records = [record for record in mixture if record[:1] == b"b"]
    assert sorted(records[:300]) == sorted(records[300:600])
    assert records[:300] != records[300:600]
    again = [record for record in mixture if record[:1] == b"b"]
    assert again[:300] not in (records[:300], records[300:600])
    later = tfs.mix(two).shuffle(1, epoch=1)
    assert [record for record in later if record[:1] == b"b"] == again


# Weights by the values of a feature

WEIGHTS = {"web": 1.0, "code": 2.5, "books": 4.0}


def measured(tmp_path: Path) -> dict[str, list[list[int]]]:
    """Datasets of documents of very different lengths, some of them empty."""
    drawn = random.Random(1)
    found: dict[str, list[list[int]]] = {}
    for number, name in enumerate(WEIGHTS):
        longest = (3, 40, 200)[number % 3]
        documents = [
            [1000 * i + number] * drawn.choice((0, 1, drawn.randint(0, longest)))
            for i in range(drawn.randint(50, 150))
        ]
        schema = {"tokens": tfs.Feature("int64", (None,)), "other": "bytes"}
        with tfs.ShardedWriter(
            tmp_path / name, num_shards=2, block_bytes=4096, schema=schema
        ) as writer:
            for one in documents:
                writer.write({"tokens": one, "other": bytes(100)})
        found[name] = tfs.read_table(tmp_path / name)["tokens"].tolist()
    return found


def due(
    documents: list[list[list[int]]], weights: list[float], stop: str
) -> list[tuple[int, list[int]]]:
    """Plain Python: the source that is behind most is next; of two as far, the first."""
    given, at = [0] * len(weights), [0] * len(weights)
    ended: set[int] = set()
    found: list[tuple[int, list[int]]] = []
    while True:
        i = min(range(len(weights)), key=lambda i: (given[i] / weights[i], i))
        if at[i] == len(documents[i]):
            ended.add(i)
            if stop == "first" or len(ended) == len(weights):
                return found
            at[i] = 0
        found.append((i, documents[i][at[i]]))
        given[i] += max(1, len(documents[i][at[i]]))
        at[i] += 1


def tokens_of(records: Iterable[bytes]) -> list[list[int]]:
    schema = {"tokens": tfs.Feature("int64", (None,))}
    return tfs.decode_examples(list(records), schema)["tokens"].tolist()


@pytest.mark.parametrize("stop", ["all", "first"])
def test_weights_by_tokens_are_kept_at_each_record(tmp_path: Path, stop: str) -> None:
    documents = measured(tmp_path)
    pairs = [(tmp_path / name, weight) for name, weight in WEIGHTS.items()]
    mixture = tfs.mix(pairs, by="tokens", stop=stop)
    assert mixture.num_records is None
    found = tokens_of(mixture)
    weights = list(WEIGHTS.values())
    wanted = due(list(documents.values()), weights, stop)
    assert found == [one for _, one in wanted]
    assert tokens_of(mixture) == found  # the next epoch
    given = np.zeros(3)
    longest = [max(map(len, each)) for each in documents.values()]
    for i, one in wanted:
        given[i] += max(1, len(one))
        times = given / weights
        assert (times - times.min() <= np.divide(longest, weights)).all()  # ahead by one at most


@long_on_pure
@pytest.mark.parametrize("every", first(1, [5, 1]))
def test_a_mixture_by_tokens_resumes_at_every_record(tmp_path: Path, every: int) -> None:
    measured(tmp_path)

    def mixture() -> tfs.results.Mixture:
        pairs = [(tmp_path / name, weight) for name, weight in WEIGHTS.items()]
        return tfs.mix(pairs, by="tokens").shuffle(3)

    whole = tokens_of(mixture())
    reading = mixture()
    for number, _ in enumerate(reading, 1):
        if number % every:
            continue
        other = mixture()
        other.restore(json.loads(json.dumps(reading.state())))
        assert other.state() == reading.state()
        if number % (7 * every) == 0:
            assert tokens_of(other) == whole[number:], number
            assert tokens_of(pickle.loads(pickle.dumps(reading))) == whole[number:]


def test_shares_of_a_mixture_by_tokens(tmp_path: Path) -> None:
    documents = measured(tmp_path)
    every = {token for each in documents.values() for one in each for token in one}
    pairs = [(tmp_path / name, weight) for name, weight in WEIGHTS.items()]
    mixture = tfs.mix(pairs, by="tokens").shuffle(3)
    for count in (1, 2, 3, 4):
        shares = [mixture.shard(i, count) for i in range(count)]
        before = [tokens_of(islice(share, 20)) for share in shares]
        for other in (1, 3):
            states = tfs.reshard_state([share.state() for share in shares], other)
            after = []
            for i, state in enumerate(states):
                share = mixture.shard(i, other)
                share.restore(state)
                after.append(tokens_of(share))
            found = {token for each in (*before, *after) for one in each for token in one}
            assert found == every
    with pytest.raises(ValueError, match="even='pad' is not for a mixture by='tokens'"):
        mixture.shard(0, 2, even="pad")


def test_what_weights_can_be_by(tmp_path: Path) -> None:
    raw = tfs.Feature("uint16", (None,), raw=True)
    floats = tfs.Feature("float32", (None,), nullable=True)
    for name, feature in (("raw", raw), ("floats", floats)):
        with tfs.ShardedWriter(tmp_path / name, num_shards=1, schema={"x": feature}) as writer:
            for size in (5, 1, 0, 4):
                writer.write({"x": np.ones(size, feature.item_dtype())})
    both = [(tmp_path / "raw", 1.0), (tmp_path / "floats", 1.0)]
    assert len(list(tfs.mix(both, by="x", stop="first"))) == 8
    for by, reason in (("y", "has no such feature"), ("X", "did you mean 'x'")):
        with pytest.raises(ValueError, match=reason):
            tfs.mix(both, by=by)
    tfs.write_table({"x": [1]}, tmp_path / "fixed")
    with pytest.raises(ValueError, match=r"by='x' takes .* it is Feature\(dtype='int64"):
        tfs.mix([(tmp_path / "fixed", 1.0)], by="x")
    with tfs.TFRecordWriter(tmp_path / "foreign.tfrecord") as writer:
        writer.write(tfs.encode_example({"x": [0.5]}))
    foreign = tfs.mix([(tmp_path / "foreign.tfrecord", 1.0)], by="x")
    for _ in range(2):  # it is not passed over
        with pytest.raises(tfs.SchemaError, match="feature 'x' holds float values"):
            next(iter(foreign))


def test_a_closed_mixture(two: dict[str, float]) -> None:
    whole = list(tfs.mix(two))
    with tfs.mix(two) as mixture:
        given_out = list(islice(mixture, 77))
    with pytest.raises(ValueError, match="closed"):
        next(iter(mixture))
    with pytest.raises(ValueError, match="closed"):
        mixture.restore(mixture.state())
    other = tfs.mix(two)
    other.restore(mixture.state())
    assert given_out + list(other) == whole
    mixture.close()


@pytest.mark.skipif(backend().core == "pure", reason="only the compiled core builds indexes")
class TestAnIndexThatCameLater:
    """A state that was taken before `build_index` of a source goes on behind it."""

    @pytest.fixture
    def packed(self, tmp_path: Path) -> dict[str, float]:
        for name, count in (("a", 300), ("b", 500)):
            records = [b"%s%03d " % (name.encode(), i) + os.urandom(9000) for i in range(count)]
            (tmp_path / name).write_bytes(gzip.compress(framed(records), 1))
        return {str(tmp_path / "a"): 1.0, str(tmp_path / "b"): 1.0}

    @pytest.mark.parametrize("stop", ["all", "first"])
    @pytest.mark.parametrize("count", [100, 450])
    def test_no_record_is_lost(self, packed: dict[str, float], stop: str, count: int) -> None:
        def names(records: Iterable[bytes]) -> list[bytes]:
            return [record[:5] for record in records]

        def made() -> tfs.results.Mixture:
            return tfs.mix(packed, stop=stop).shuffle(1, window=1)

        before = made()
        whole = names(before)
        first = made()
        assert names(islice(first, count)) == whole[:count]
        state = json.loads(json.dumps(first.state()))
        for path in packed:
            tfs.build_index(path)
        again = made()
        again.restore(state)
        copy = pickle.loads(pickle.dumps(again))
        for mixture in (again, copy):
            assert names(islice(mixture, 7)) == whole[count : count + 7]
        assert names(pickle.loads(pickle.dumps(copy))) == whole[count + 7 :]
        copy.restore(again.state())
        for mixture in (again, copy):
            assert names(mixture) == whole[count + 7 :]
        other = made()
        list(other)
        # in the next epoch all go by the index
        assert names(again) == names(copy) == names(other)
        assert again.state() == other.state()

    def test_a_refused_state_changes_no_source(self, packed: dict[str, float]) -> None:
        state = tfs.mix(packed).shuffle(1).state()
        for path in packed:
            tfs.build_index(path)
        mixture = tfs.mix(packed).shuffle(1)
        before = mixture.state()
        state["sources"][1]["source"] = "another"
        with pytest.raises(ValueError, match=r"source 1 of the mixture: .*another source"):
            mixture.restore(state)
        assert mixture.state() == before


class TestRefused:
    def test_states_of_others(self, two: dict[str, float]) -> None:
        mixture = tfs.mix(two).shuffle(1)
        next(iter(mixture))
        state = mixture.state()
        for other in (tfs.mix(two, seed=1), tfs.mix(two, stop="first")):
            with pytest.raises(ValueError, match="another mixture"):
                other.shuffle(1).restore(state)
        with pytest.raises(ValueError, match=r"source 0 of the mixture: state= .* another order"):
            tfs.mix(two).restore(state)
        with pytest.raises(ValueError, match=r"source 0 of the mixture: state= .* another source"):
            tfs.mix(dict(zip(reversed(two), two.values(), strict=True))).shuffle(1).restore(state)
        with pytest.raises(ValueError, match="no reader's state"):
            tfs.RecordReader(next(iter(two))).restore(state)
        with pytest.raises(ValueError, match="no mixture's state"):
            mixture.restore(state["sources"][0])

    @pytest.mark.parametrize(
        "change",
        [
            {"format": 2},
            {"place": -1},
            {"place": 10**30},
            {"begin": 5},
            {"epoch": True},
            {"epoch": 3},
            {"ended": [0]},
            {"ended": [0, 2]},
            {"ended": 0},
            {"sources": []},
            {"sources": [1, 2]},
        ],
    )
    def test_no_states(self, two: dict[str, float], change: dict[str, Any]) -> None:
        mixture = tfs.mix(two)
        with pytest.raises(ValueError, match="state="):
            mixture.restore(mixture.state() | change)

    def test_states_of_several_mixtures(self, two: dict[str, float]) -> None:
        mixtures = [tfs.mix(two).shard(0, 2), tfs.mix(two, seed=1).shard(1, 2)]
        states = [mixture.state() for mixture in mixtures]
        with pytest.raises(ValueError, match=r"states\[1\] was taken of another mixture"):
            tfs.reshard_state(states, 3)
        with pytest.raises(ValueError, match="no state of share 1 of 2"):
            tfs.reshard_state(states[:1], 3)
        with pytest.raises(ValueError, match=r"states\[1\] stands in epoch 2"):
            tfs.reshard_state([states[0], states[0] | {"epoch": 2}], 3)

    def test_arguments(self, two: dict[str, float], tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="stop="):
            tfs.mix(two, stop="last")
        with pytest.raises(ValueError, match="sources= holds nothing"):
            tfs.mix({})
        with pytest.raises(ValueError, match="positive"):
            tfs.mix(dict.fromkeys(two, 0))
        for weight in ("3", b"3", None, True, [1]):
            with pytest.raises(
                TypeError, match=r"sources= holds the weight .*, which is no number"
            ):
                tfs.mix(dict.fromkeys(two, weight))  # type: ignore[arg-type]
        for sources in ("a", ["a", "b"], [("a",)], [("a", 1, 2)], None, 5, tfs.slice("a", ":5")):
            with pytest.raises(TypeError, match="sources= takes pairs"):
                tfs.mix(sources)  # type: ignore[arg-type]
        for seed in (1.5, "1", True, None):
            with pytest.raises(TypeError, match="seed= takes a whole number"):
                tfs.mix(two, seed=seed)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="epoch= takes a number from 0 on, not -1"):
            tfs.mix(two).shuffle(1, epoch=-1)
        with pytest.raises(FileNotFoundError):
            tfs.mix({str(tmp_path / "none"): 1})
        with pytest.raises(TypeError, match=r"tfio_store\.mix"):
            tfs.results.Mixture()
        with pytest.raises(ValueError, match="window="):
            tfs.mix(two).shuffle(1, window=0)


def test_many_sources_share_the_memory(tmp_path: Path) -> None:
    sources = {}
    for number in range(20):
        path = tmp_path / f"s{number}"
        path.write_bytes(framed([b"%d.%d" % (number, i) for i in range(10)]))
        sources[str(path)] = 1 + number % 3
    mixture = tfs.mix(sources).shuffle(1)
    assert len(set(mixture)) == 200


def test_slices_are_sources(two: dict[str, float]) -> None:
    """Parts of one file, and a list of parts."""
    (name, _) = two
    mixture = tfs.mix({tfs.slice(name, "10%:"): 2, tfs.slice(name, ":10%"): 1}, stop="all")
    assert set(mixture) == set(tfs.RecordReader(name))
    parts = [tfs.slice(name, ":100"), tfs.slice(name, "-100:")]
    once = list(tfs.mix([(parts, 1)]))
    assert once == [*tfs.RecordReader(parts[0]), *tfs.RecordReader(parts[1])]

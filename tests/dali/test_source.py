"""`tfio_store.dali.source`, called as DALI's external source calls it."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.framed import framed
from tfio_store.dali import source

COUNT = 103
SCHEMA: dict[str, Any] = {"x": "int64", "pair": ("float32", (2,)), "photo": "bytes"}


class BatchInfo(NamedTuple):
    """As ``nvidia.dali.types.BatchInfo``."""

    iteration: int
    epoch_idx: int = 0


class SampleInfo(NamedTuple):
    """As ``nvidia.dali.types.SampleInfo``."""

    idx_in_epoch: int
    idx_in_batch: int
    iteration: int
    epoch_idx: int = 0


@pytest.fixture
def url(tmp_path: Path) -> str:
    found = f"{tmp_path}/train"
    with tfs.ShardedWriter(found, max_shard_records=40, schema=SCHEMA) as writer:
        for x in range(COUNT):
            writer.write({"x": x, "pair": [x, -x], "photo": bytes([x]) * (x % 5) + b"\0"})
    return found


def epoch(made: Any, number: int = 0) -> list[list[int]]:
    """The x of each batch, asked for as DALI asks."""
    found: list[list[int]] = []
    for iteration in itertools.count():
        try:
            batch = made(BatchInfo(iteration, number))
        except StopIteration:
            return found
        found.append((batch[0] if isinstance(batch, tuple) else batch).tolist())
    raise AssertionError


def shards(url: str, count: int, **options: Any) -> list[Any]:
    return [
        source(url, columns=["x"], shard_id=i, num_shards=count, **options) for i in range(count)
    ]


def all_x(batches: Any) -> list[int]:
    return [x for batch in batches for x in batch]


def test_outputs(url: str) -> None:
    made = source(url, batch_size=10, columns=["photo", "x", "pair"])
    photos, numbers, pairs = made(BatchInfo(1))
    assert made.outputs == ["photo", "x", "pair"]
    assert [photo.tobytes() for photo in photos] == [
        bytes([x]) * (x % 5) + b"\0" for x in range(10, 20)
    ]
    assert {photo.dtype for photo in photos} == {np.dtype(np.uint8)}
    assert numbers.tolist() == list(range(10, 20))
    assert (pairs.shape, pairs.dtype) == ((10, 2), np.float32)
    assert len(made(BatchInfo(10))[0]) == 3
    assert len(made) == 11


def test_records_texts_and_lists(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(framed([b"a\0", b"", b"bc"]))
    made = source(f"{tmp_path}/x", batch_size=3)
    assert made.outputs == ["record"]
    assert [record.tobytes() for record in made(0)] == [b"a\0", b"", b"bc"]
    tfs.write_table({"s": ["ü", ""], "ids": [[1], [2, 3]]}, f"{tmp_path}/t")
    texts, ids = source(f"{tmp_path}/t", batch_size=2)(0)
    assert [text.tobytes().decode() for text in texts] == ["ü", ""]
    assert [row.tolist() for row in ids] == [[1], [2, 3]]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("batch_size", [1, 10, 200])
def test_each_record_comes_once(url: str, shuffle: bool, count: int, batch_size: int) -> None:
    parts = shards(url, count, batch_size=batch_size, shuffle=shuffle)
    found = [epoch(part) for part in parts]
    assert sorted(itertools.chain(*map(all_x, found))) == list(range(COUNT))
    assert [len(batches) for batches in found] == [len(part) for part in parts]
    assert all(len(batch) == batch_size for batches in found for batch in batches[:-1])


@pytest.mark.parametrize("count", [2, 7])
def test_even_shards(url: str, count: int) -> None:
    padded = [epoch(part) for part in shards(url, count, batch_size=10, even="pad", shuffle=True)]
    dropped = [epoch(part) for part in shards(url, count, batch_size=10, even="drop", shuffle=True)]
    for found in (padded, dropped):
        assert len({len(batches) for batches in found}) == 1
        assert {len(batch) for batches in found for batch in batches} <= {10}
    assert set(itertools.chain(*map(all_x, padded))) == set(range(COUNT))
    assert set(Counter(itertools.chain(*map(all_x, dropped))).values()) == {1}


def test_epochs_have_other_orders(url: str) -> None:
    made = source(url, batch_size=10, columns=["x"], shuffle=True, seed=3)
    first, second = all_x(epoch(made)), all_x(epoch(made, 1))
    assert sorted(first) == sorted(second) == list(range(COUNT))
    assert first != second
    assert all_x(epoch(pickle.loads(pickle.dumps(made)))) == first
    assert len(pickle.dumps(made)) < 20_000
    assert all_x(epoch(source(url, batch_size=10, columns=["x"], shuffle=True, seed=4))) != first


def test_samples(url: str) -> None:
    made = source(url, batch_size=10, columns=["x", "photo"], shuffle=True)
    batch = made(BatchInfo(2, 1))
    samples = [made(SampleInfo(20 + i, i, 2, 1)) for i in range(10)]
    assert [int(x) for x, _ in samples] == batch[0].tolist()
    assert [p.tobytes() for _, p in samples] == [p.tobytes() for p in batch[1]]
    with pytest.raises(StopIteration):  # a batch that is not whole
        made(SampleInfo(100, 0, 10, 0))


def test_the_number_of_a_batch_alone(url: str) -> None:
    made = source(url, batch_size=10, columns=["x"])
    assert made(3).tolist() == list(range(30, 40))
    with pytest.raises(StopIteration):
        made(11)
    with pytest.raises(ValueError, match="pass batch_info=True"):
        source(url, batch_size=10, shuffle=True)(0)


@pytest.mark.parametrize("even", [None, "pad", "drop"])
@pytest.mark.parametrize(("old", "new"), [((2, 10), (3, 10)), ((2, 10), (1, 4)), ((1, 7), (2, 7))])
def test_other_shards_and_batches_go_on(url: str, old: Any, new: Any, even: Any) -> None:
    before = shards(url, old[0], batch_size=old[1], shuffle=True)
    given = [x for part in before for x in all_x(epoch(part)[:3])]
    states = [json.loads(json.dumps(part.state(3))) for part in before]
    assert states[0] == states[-1]
    after = shards(url, new[0], batch_size=new[1], shuffle=True, even=even, resume=states[0])
    rest = [x for part in after for x in all_x(epoch(part))]
    whole = Counter([*given, *rest])
    if even is None:
        assert whole == dict.fromkeys(range(COUNT), 1)
    elif even == "pad":
        assert set(whole) == set(range(COUNT))
    else:
        assert set(whole.values()) == {1}
    # the next epoch is whole, and the order that it would have been
    assert sorted({x for part in after for x in all_x(epoch(part, 1))} | {-1})[0] == -1
    plain = source(url, columns=["x"], batch_size=COUNT, shuffle=True)
    again = source(url, columns=["x"], batch_size=COUNT, shuffle=True, resume=states[0])
    assert epoch(again, 1) == epoch(plain, 1)


def test_a_state_at_the_end_is_the_next_epoch(url: str) -> None:
    made = source(url, batch_size=10, columns=["x"], shuffle=True)
    for state in (made.state(11), made.state(0, epoch=1)):
        again = source(url, batch_size=10, columns=["x"], shuffle=True, resume=state)
        assert epoch(again) == epoch(made, 1)
        assert again.state(2)["epoch"] == 1
    half = source(url, batch_size=10, columns=["x"], shuffle=True, resume=made.state(3))
    assert half.state(2) == made.state(5)


def test_states_of_others_are_refused(url: str, tmp_path: Path) -> None:
    state = source(url, batch_size=10, shuffle=True).state(1)
    tfs.write_table({"x": [1]}, f"{tmp_path}/other")
    for options in ({"seed": 2, "shuffle": True}, {"shuffle": False}):
        with pytest.raises(ValueError, match="resume= is of seed"):
            source(url, batch_size=10, resume=state, **options)
    with pytest.raises(ValueError, match="resume= is of source"):
        source(f"{tmp_path}/other", batch_size=10, shuffle=True, resume=state)
    states: list[Any] = [
        {},
        [],
        {**state, "record": -1},
        {**state, "epoch": None},
        {**state, "record": 1e9},
    ]
    for wrong in states:
        with pytest.raises(ValueError, match="resume= takes what"):
            source(url, batch_size=10, shuffle=True, resume=wrong)


def test_a_state_of_another_generation_of_equal_names_and_sizes_is_refused(tmp_path: Path) -> None:
    url, states = f"{tmp_path}/train", []
    for seed in (1, 2):
        (tmp_path / "_train.manifest.json").unlink(missing_ok=True)
        for file in tmp_path.glob("*train*"):
            file.unlink()
        tfs.write_table({"x": np.full(100, seed, np.float32)}, url, num_shards=2)
        states.append(source(url, batch_size=10).state(1))
    with pytest.raises(ValueError, match="resume= is of source"):
        source(url, batch_size=10, resume=states[0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size="),
        ({"num_shards": 0}, "num_shards="),
        ({"shard_id": 1}, "shard_id= takes 0 to num_shards - 1"),
        ({"shard_id": -1}, "shard_id="),
        ({"even": "cut"}, "even= takes"),
        ({"seed": -1}, "seed="),
    ],
)
def test_wrong_arguments(url: str, options: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        source(url, **{"batch_size": 2, **options})


def test_features_without_arrays(tmp_path: Path) -> None:
    for number, column in enumerate(
        ([1, None], [["a"], ["b"]], [["a"], []], [[[1]], [[2, 3], []]])
    ):
        tfs.write_table({"x": [1, 2], "odd": column}, f"{tmp_path}/{number}")
        with pytest.raises(ValueError, match="'odd': DALI takes arrays"):
            source(f"{tmp_path}/{number}", batch_size=2)
        made = source(f"{tmp_path}/{number}", batch_size=2, columns=["x"])
        assert made(0).tolist() == [1, 2]

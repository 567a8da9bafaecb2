"""Documents in rows of one length: beside plain Python, from any row on, and on other numbers of
shares."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.packed import (
    Row,
    documents_of,
    packed,
    rows_in,
    tokens_in,
    written,
)
from tfio_store.loader import packed_rows, pure_pack
from tfio_store.loader.content import LoaderContent
from tfio_store.loader.packed_rows import PackedRows, gathered
from tfio_store.loader.packed_states import reshard_states
from tfio_store.records.compiled import running

COMPILED = running["pack"] == "compiled"
HOW = ("first_fit", "concat")


@pytest.fixture(params=["compiled", "pure"])
def plan(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What plans the rows."""
    if request.param == "pure":
        monkeypatch.setattr(packed_rows, "_pack", pure_pack)
    elif not COMPILED:
        pytest.skip("the extensions are not built")
    return packed_rows._pack.Plan


def made(
    reader: Any,
    packing: tfs.Packing,
    size: int,
    share: tuple[int, int] = (0, 1),
    state: Any = None,
    **options: Any,
) -> PackedRows:
    content = LoaderContent.of("", reader, None, None, packing=packing)
    drop_last = options.pop("drop_last", False)
    return PackedRows(reader.shard, share, state, content, size, drop_last, 1)


def rest(rows: PackedRows) -> Iterator[list[Row]]:
    while (batch := rows.batch()) is not None:
        rows.done()
        yield rows_in(batch)


def given(rows: PackedRows) -> list[Row]:
    return [row for batch in rest(rows) for row in batch]


def kept(state: Any) -> Any:
    return json.loads(json.dumps(state))


def a_packing(how: str, length: int, window: int, **options: Any) -> tfs.Packing:
    only: Any = {"window": window} if how == "first_fit" else {}
    return tfs.Packing("tokens", length, how=how, **only, **options)  # type: ignore[arg-type]


# Plain Python


@pytest.mark.parametrize("seed", range(40))
def test_rows_are_those_of_plain_python(tmp_path: Path, plan: Any, seed: int) -> None:
    drawn = random.Random(seed)
    documents = documents_of(seed, drawn.randint(0, 300), drawn.choice((3, 20, 200)))
    length, window = drawn.randint(1, 64), drawn.randint(1, 9)
    reader = tfs.RecordReader(written(str(tmp_path / "train"), documents))
    for how in HOW:
        packing = a_packing(how, length, window, padding=-7)
        size = drawn.randint(1, 20)
        batches = list(rest(made(reader, packing, size)))
        wanted = packed(documents, packing, padding=-7)
        assert [row for batch in batches for row in batch] == wanted
        assert [len(batch) for batch in batches[:-1]] == [size] * len(batches[:-1])
        kept_rows = given(made(reader, packing, size, drop_last=True))
        assert kept_rows == wanted[: len(wanted) // size * size]


@pytest.mark.parametrize("seed", range(20))
def test_both_plans_are_the_same(seed: int) -> None:
    if not COMPILED:
        pytest.skip("the extensions are not built")
    drawn = np.random.default_rng(seed)
    sizes = drawn.integers(0, drawn.integers(1, 50), drawn.integers(0, 200))
    splits = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    length = int(drawn.integers(1, 60))
    values = drawn.integers(0, 1 << 15, splits[-1]).astype(np.uint16)
    padding = np.array(60000, np.uint16)
    for concat in (False, True):
        found = []
        for kind in (packed_rows._pack.Plan, pure_pack.Plan):
            plan = kind(splits, length, concat)
            first, last = plan.rows // 3, plan.rows
            tokens = np.full((last - first, length), 9, np.uint16)
            marks = np.full((2, last - first, length), 9, np.int32)
            cut = splits[len(sizes) // 2]
            parts = [part.view(np.uint8) for part in (values[:cut], values[cut:])]
            plan.copy(first, last, parts, padding.tobytes(), tokens.view(np.uint8))
            held = plan.mark(first, last, marks[0], marks[1])
            assert (tokens[marks[0] == 0] == padding).all()
            assert held == np.count_nonzero(marks[0])
            found.append([plan.rows, tokens.tolist(), marks.tolist()])
        assert found[0] == found[1]


def test_lengths_that_are_none_are_refused_before_there_is_memory_for_them(plan: Any) -> None:
    for splits in ([], [1, 2], [0, 5, 3], [0, 1 << 62, 5], [0, -1, 4]):
        with pytest.raises(ValueError, match="splits"):
            plan(np.array(splits, np.int64), 4, False)
    for length in (0, -1, 1 << 31):
        with pytest.raises(ValueError, match="length"):
            plan(np.array([0, 3], np.int64), length, False)
    far = plan(np.array([0, 3, 1 << 40], np.int64), (1 << 31) - 1, True)
    with pytest.raises(ValueError, match="1099511627776 values"):
        far.copy(0, 0, [np.zeros(8, np.uint8)], b"\0", np.zeros((0, (1 << 31) - 1), np.uint8))
    good = plan(np.array([0, 3, 5], np.int64), 4, False)
    values, out = np.zeros(5, np.uint8), np.zeros((2, 4), np.uint8)
    good.copy(0, 2, [values], b"\0", out)
    for first, last, room in ((0, 3, out), (-1, 1, out), (0, 2, out[:1]), (2, 1, out)):
        with pytest.raises(ValueError, match="no rows"):
            good.copy(first, last, [values], b"\0", room)
    for parts in ([values[:4]], [], [values, values]):
        with pytest.raises(ValueError, match="the plan's 5 values"):
            good.copy(0, 2, parts, b"\0", out)
    with pytest.raises(ValueError, match="same size"):
        good.copy(0, 2, [values], bytes(2), np.zeros((2, 8), np.uint8))
    with pytest.raises(ValueError, match="the plan's length"):
        good.copy(0, 2, [values], b"\0", out[:, :3].copy())
    with pytest.raises(ValueError, match="the plan's length"):
        good.copy(0, 2, [values], b"", out)
    with pytest.raises(ValueError, match="length"):
        good.mark(0, 2, np.zeros((2, 3), np.int32), np.zeros((2, 3), np.int32))


def test_rows_of_first_fit_are_full(tmp_path: Path) -> None:
    sizes = np.random.default_rng(1).lognormal(5.5, 1.1, 6000).astype(int) + 1
    splits = np.concatenate([[0], np.cumsum(sizes)])
    documents = tfs.Ragged(np.arange(splits[-1]), splits)
    tfs.write_table({"tokens": documents}, tmp_path / "train", num_shards=2)
    rows = made(tfs.RecordReader(str(tmp_path / "train")), tfs.Packing("tokens", 2048), 8)
    count = len(given(rows))
    metrics = rows.metrics()
    assert metrics["rows"] == count
    assert metrics["tokens"] == sizes.sum()
    assert metrics["tokens"] >= 0.97 * count * 2048


# Other dtypes, and more than one column


def test_labels_go_with_their_tokens(tmp_path: Path) -> None:
    documents = documents_of(3, 50, 30)
    reader = tfs.RecordReader(written(str(tmp_path / "train"), documents))
    packing = tfs.Packing(["tokens", "labels"], 16, padding={"labels": -100})
    rows = made(reader, packing, 1000)
    batch = rows.batch()
    assert list(batch) == ["tokens", "labels", "segment_ids", "positions"]
    assert rows_in(batch) == packed(documents, packing)
    padding = batch["segment_ids"] == 0
    assert (batch["labels"] == np.where(padding, -100, -batch["tokens"])).all()


def test_columns_of_other_lengths_are_refused(tmp_path: Path) -> None:
    schema = {"tokens": tfs.Feature("int64", (None,)), "labels": tfs.Feature("int64", (None,))}
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, schema=schema) as writer:
        writer.write({"tokens": [1, 2], "labels": [1, 2]})
        writer.write({"tokens": [1, 2], "labels": [1]})
    reader = tfs.RecordReader(str(tmp_path / "train"))
    rows = made(reader, tfs.Packing(["tokens", "labels"], 16), 1)
    with pytest.raises(tfs.SchemaError, match="record 1: feature 'labels' has 1 values, and 'tok"):
        rows.batch()


@pytest.mark.parametrize(
    ("feature", "dtype"),
    [
        (tfs.Feature("int32", (None,)), np.int32),
        (tfs.Feature("uint16", (None,), raw=True), np.uint16),
        (tfs.Feature("int64", (None,), nullable=True), np.int64),
        (tfs.Feature("float32", (None,)), np.float32),
    ],
)
def test_rows_have_the_dtype_of_the_feature(tmp_path: Path, feature: Any, dtype: Any) -> None:
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, schema={"x": feature}) as writer:
        for size in (3, 1, 0, 2):
            writer.write({"x": np.arange(size).astype(dtype)})
    batch = made(tfs.RecordReader(str(tmp_path / "train")), tfs.Packing("x", 4), 5).batch()
    assert batch["x"].dtype == dtype
    assert batch["x"].tolist() == [[0, 1, 2, 0], [0, 1, 0, 0]]
    assert batch["segment_ids"].dtype == batch["positions"].dtype == np.int32


def test_documents_without_tokens_are_counted(tmp_path: Path) -> None:
    reader = tfs.RecordReader(written(str(tmp_path / "train"), [[], [1, 2], [], [3], []]))
    for how in HOW:
        rows = made(reader, a_packing(how, 3, 9), 4)
        assert given(rows) == [([1, 2, 3], [1, 1, 2], [0, 1, 0])]
        assert rows.metrics()["empty"] == 3
    reader = tfs.RecordReader(written(str(tmp_path / "none"), [[]] * 1000))
    assert [given(made(reader, a_packing(how, 3, 1), 4)) for how in HOW] == [[], []]


def test_a_long_document_is_split_or_refused(tmp_path: Path) -> None:
    reader = tfs.RecordReader(written(str(tmp_path / "train"), [[1], list(range(2, 9))]))
    rows = given(made(reader, tfs.Packing("tokens", 3), 4))
    assert [row[0] for row in rows] == [[1, 8, 0], [2, 3, 4], [5, 6, 7]]
    refusing = made(reader, tfs.Packing("tokens", 3, long="error"), 4)
    for _ in range(2):
        with pytest.raises(tfs.SchemaError, match=r"record 1: .* has 7 tokens, and a row has 3"):
            refusing.batch()


# States


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shares", [1, 2, 3, 4])
def test_each_row_can_be_gone_on_from(tmp_path: Path, how: str, shares: int) -> None:
    documents = documents_of(shares, 70, 25)
    url = written(str(tmp_path / "train"), documents, num_shards=2)
    reader = tfs.RecordReader(url).shuffle(4)
    packing = a_packing(how, 16, 3)
    everything = []
    for index in range(shares):
        rows = made(reader, packing, 2, (index, shares))
        whole: list[Row] = []
        states = [(0, rows.state())]
        for batch in rest(rows):
            for unread in reversed(range(len(batch) + 1)):
                states.append((len(whole) + len(batch) - unread, rows.state(unread)))
            whole += batch
        states.append((len(whole), rows.state()))
        for count, state in states:
            again = made(reader, packing, 3, (index, shares), kept(state))
            assert again.state() == state
            assert given(again) == whole[count:], count
            assert len(json.dumps(state)) < 4000
        everything += whole
    assert sorted(tokens_in(everything)) == [t for one in documents for t in one]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shares", [1, 2, 3, 4])
def test_other_numbers_of_shares_go_on_from_each_step(
    tmp_path: Path, how: str, shares: int
) -> None:
    documents = documents_of(10 + shares, 60, 40)
    url = written(str(tmp_path / "train"), documents, num_shards=2)
    wanted = sorted(token for one in documents for token in one)
    reader = tfs.RecordReader(url).shuffle(4)
    packing = a_packing(how, 16, 2)
    old = [made(reader, packing, 1, (index, shares)) for index in range(shares)]
    before: list[Row] = []
    for step in range(100):
        for other in {1 + step % 4, 1 + step % 3}:
            states = [kept(rows.state()) for rows in old]
            after, _ = step_on(reader, packing, states, other)
            assert sorted(tokens_in([*before, *after])) == wanted, (step, other)
            # resharded in the midst of what was resharded
            some, later = step_on(reader, packing, states, other, most=2)
            others, _ = step_on(reader, packing, later, 3)
            assert sorted(tokens_in([*before, *some, *others])) == wanted, (step, other)
        gone = [batch for rows in old if (batch := next(rest(rows), None)) is not None]
        if not gone:
            break
        before += [row for batch in gone for row in batch]
    else:
        raise AssertionError("it does not end")


def test_more_documents_are_open_than_are_laid_together(tmp_path: Path) -> None:
    documents = [list(range(1 + 60 * i, 61 + 60 * i)) for i in range(40)]
    reader = tfs.RecordReader(written(str(tmp_path / "train"), documents, num_shards=2))
    packing = a_packing("concat", 1, 0)
    old = [made(reader, packing, 1, (index, 8)) for index in range(8)]
    before = [row for rows in old for _ in range(7) for row in next(rest(rows))]
    some, states = step_on(reader, packing, [kept(rows.state()) for rows in old], 1, most=3)
    assert len(states[0]["open"]) == 8
    after, _ = step_on(reader, packing, states, 2)
    assert sorted(tokens_in([*before, *some, *after])) == list(range(1, 2401))


def step_on(
    reader: Any, packing: tfs.Packing, states: Any, shares: int, most: int = 10000
) -> tuple[list[Row], list[Any]]:
    """What other shares give behind states, of so many batches each; and their states."""
    found: list[Row] = []
    new = []
    for index, state in enumerate(reshard_states(states, shares)):
        rows = made(reader, packing, 1, (index, shares), kept(state))
        for _, batch in zip(range(most), rest(rows), strict=False):
            found += batch
        new.append(kept(rows.state()))
    return found, new


@pytest.mark.parametrize("how", HOW)
def test_mixtures_are_gone_on_with(tmp_path: Path, how: str) -> None:
    documents = documents_of(5, 200, 20)
    parts = [documents[::2], documents[1::2]]
    sources = [written(str(tmp_path / f"part{i}"), part) for i, part in enumerate(parts)]
    mixture = tfs.mix([(source, 1.0) for source in sources]).shuffle(2)
    packing = a_packing(how, 16, 3)
    for share in ((0, 1), (1, 2)):
        rows = made(mixture, packing, 4, share)
        whole: list[Row] = []
        states = []
        for batch in rest(rows):
            whole += batch
            states.append((len(whole), kept(rows.state())))
        for count, state in states[::3]:
            assert given(made(mixture, packing, 4, share, state)) == whole[count:]
    old = [made(mixture, packing, 1, (index, 2)) for index in range(2)]
    before = [
        row for rows in old for _, batch in zip(range(3), rest(rows), strict=False) for row in batch
    ]
    after, _ = step_on(mixture, packing, [kept(rows.state()) for rows in old], 3)
    assert set(tokens_in(before + after)) == {token for one in documents for token in one}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("shares", [1, 2, 3, 4])
def test_mixtures_by_tokens_keep_their_weights_and_go_on(
    tmp_path: Path, how: str, shares: int
) -> None:
    documents = documents_of(5, 240, 30)
    long, short = documents[::3], [one[:7] for one in documents[1:]]
    sources = [
        written(str(tmp_path / name), part, num_shards=2)
        for name, part in (("long", long), ("short", short))
    ]
    mixture = tfs.mix({sources[0]: 3.0, sources[1]: 1.0}, by="tokens", stop="first").shuffle(2)
    packing = a_packing(how, 16, 3)
    of_long = {token for one in long for token in one}
    for index in range(shares):
        rows = made(mixture, packing, 1, (index, shares))
        whole: list[Row] = []
        states = [kept(rows.state())]
        for batch in rest(rows):
            whole += batch
            states.append(kept(rows.state()))
        for count, state in enumerate(states[:-1]):
            assert given(made(mixture, packing, 5, (index, shares), state)) == whole[count:]
        tokens = tokens_in(whole)
        first = sum(token in of_long for token in tokens)
        # each is ahead by one document at most, and one without tokens counts as one
        slack = 30 / 3 + 7 + sum(not one for one in documents)
        assert abs(first / 3 - (len(tokens) - first)) <= slack


def test_a_mixture_by_tokens_goes_on_with_other_shares(tmp_path: Path) -> None:
    documents = documents_of(5, 100, 30)
    parts = [documents[::3], [one for i, one in enumerate(documents) if i % 3]]
    sources = [written(str(tmp_path / f"part{i}"), part) for i, part in enumerate(parts)]
    mixture = tfs.mix({sources[0]: 3.0, sources[1]: 1.0}, by="tokens").shuffle(2)
    packing = a_packing("concat", 16, 0)
    every = {token for one in documents for token in one}
    for shares in (1, 2, 3, 4):
        old = [made(mixture, packing, 1, (index, shares)) for index in range(shares)]
        before: list[Row] = []
        for _ in range(6):
            before += [row for rows in old if (some := next(rest(rows), None)) for row in some]
            for other in (1, 2, 4):
                after, _ = step_on(mixture, packing, [kept(rows.state()) for rows in old], other)
                assert set(tokens_in(before + after)) == every


def test_a_damaged_record_keeps_its_place(tmp_path: Path) -> None:
    documents = [one for one in documents_of(6, 200, 20) if one]
    url = written(str(tmp_path / "train"), documents)
    (file,) = tmp_path.glob("train-*.tfrecord")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    for how in HOW:
        packing = a_packing(how, 16, 2)
        rows = made(tfs.RecordReader(url), packing, 4)
        with pytest.raises(tfs.CorruptRecordError, match="train-00000"):
            given(rows)
        behind = made(tfs.RecordReader(url), packing, 4, state=kept(rows.state()))
        with pytest.raises(tfs.CorruptRecordError, match="train-00000"):
            given(behind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tfs.errors.DataLossWarning)
            skipping = tfs.RecordReader(url, on_corrupt="skip")
            rows = made(skipping, packing, 4)
            whole: list[Row] = []
            states = []
            for batch in rest(rows):
                whole += batch
                states.append((len(whole), kept(rows.state())))
            for count, state in states:
                assert given(made(skipping, packing, 4, state=state)) == whole[count:]
        lost = {token for one in documents for token in one} - set(tokens_in(whole))
        assert 0 < len(lost) <= 20


def test_states_of_others_are_refused(tmp_path: Path) -> None:
    documents = documents_of(7, 100, 20)
    reader = tfs.RecordReader(written(str(tmp_path / "train"), documents))
    packing = a_packing("first_fit", 16, 3)
    rows = made(reader, packing, 1)
    next(rest(rows))
    state = kept(rows.state())
    for other in (
        a_packing("first_fit", 16, 4),
        a_packing("first_fit", 17, 3),
        a_packing("concat", 16, 0),
    ):
        with pytest.raises(
            ValueError, match="state= was taken of first_fit of tokens in 3 rows of 16"
        ):
            made(reader, other, 1, state=state)
    content = LoaderContent.of("", reader, None, None)
    with pytest.raises(ValueError, match="pass the same pack="):
        gathered(reader.shard, (0, 1), state, content, 4, False, 1)
    given(rows)
    ended = kept(rows.state())
    assert given(made(reader, packing, 1, state=ended)) == []
    ended["reader"]["source"] = "another"
    with pytest.raises(ValueError, match="state= was taken of another source"):
        made(reader, packing, 1, state=ended)
    (unit,) = state["open"]
    wrong: dict[str, Any]
    for wrong in (
        {"packed": 2},
        {"open": 5},
        {"open": [{}]},
        {"open": [{**unit, "given": -1}]},
        {"open": [{**unit, "share": [3, 2]}]},
        {"open": [{**unit, "share": [0, 1, 2]}]},
        {"reader": {}},
        {"reader": None},
    ):
        with pytest.raises(ValueError, match="state="):
            made(reader, packing, 1, state={**state, **wrong})
    for wrong in ({"given": 1000}, {"reader": {}}, {"share": [0, 2]}):
        far = made(reader, packing, 1, state={**state, "open": [{**unit, **wrong}]})
        with pytest.raises(ValueError, match="state="):
            far.batch()


def test_concat_goes_on_with_another_length(tmp_path: Path) -> None:
    documents = documents_of(8, 100, 20)
    reader = tfs.RecordReader(written(str(tmp_path / "train"), documents))
    rows = made(reader, a_packing("concat", 16, 0), 3)
    before = next(rest(rows))
    after = given(made(reader, a_packing("concat", 40, 0), 3, state=kept(rows.state())))
    assert tokens_in(before) + tokens_in(after) == [t for one in documents for t in one]


def test_a_window_that_is_no_part_of_the_budget_is_refused(tmp_path: Path) -> None:
    url = written(str(tmp_path / "train"), [[1]])
    reader = tfs.RecordReader(url, memory_budget=1 << 20)
    with pytest.raises(ValueError, match=r"fills 128 rows of 2048 tokens .* memory_budget= leaves"):
        made(reader, tfs.Packing("tokens", 2048), 1)


# Options


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"length": 0}, "length="),
        ({"length": 1 << 31}, "length= takes at most"),
        ({"columns": []}, "names no feature"),
        ({"columns": ["a", "positions"]}, "makes itself"),
        ({"how": "best"}, "how="),
        ({"long": "drop"}, "long="),
        ({"window": 0}, "window="),
        ({"how": "concat", "window": 3}, "are for how="),
        ({"how": "concat", "long": "error"}, "are for how="),
        ({"padding": {"other": 1}}, "padding= names 'other'"),
    ],
)
def test_options_that_are_none(options: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        tfs.Packing(**{"columns": "tokens", "length": 4, **options})


def test_features_that_are_no_documents(tmp_path: Path) -> None:
    reader = tfs.RecordReader(written(str(tmp_path / "train"), [[1]]))

    def of(schema: Any, **options: Any) -> LoaderContent:
        packing = tfs.Packing("x", 4, **options)
        return LoaderContent.of("", reader, schema, None, packing=packing)

    for feature in ("int64", tfs.Feature("int64", (3,)), tfs.Feature("str", (None,))):
        with pytest.raises(ValueError, match=r"of the shape \(None,\), and 'x' is"):
            of({"x": feature})
    with pytest.raises(KeyError, match="x"):
        of({"y": tfs.Feature("int64", (None,))})
    with pytest.raises(ValueError, match="schema"):
        of("bytes")
    for padding in (300, 0.5, "a"):
        with pytest.raises(ValueError, match="padding="):
            of({"x": tfs.Feature("uint8", (None,))}, padding=padding)
    packing = tfs.Packing("tokens", 4)
    for name, value in (("columns", ["x"]), ("images", {"x": (2, 2)})):
        how: dict[str, Any] = {"columns": None, "images": None, name: value}
        with pytest.raises(ValueError, match=f"{name}= does not go with pack="):
            LoaderContent.of("", reader, None, packing=packing, **how)

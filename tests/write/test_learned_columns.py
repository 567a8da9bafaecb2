"""What a writer of mappings learns of their columns, against a plain count in Python."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.examples import use_codec

FIXED: dict[str, Any] = {"x": 1, "s": b"a", "f": [0.5, 1.5], "im": np.zeros((2, 3), np.float32)}


@pytest.fixture(autouse=True, params=["compiled", "pure"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    use_codec(request.param, monkeypatch)


def written(url: Path, *parts: list[Any], **options: Any) -> tfs.DatasetManifest:
    with tfs.ShardedWriter(url, num_shards=1, **options) as writer:
        for part in parts:
            writer.write_batch(part)
    return writer.manifest


def test_every_way_to_write_learns(tmp_path: Path) -> None:
    wanted = tfs.Schema(
        {"f": ("float32", (2,)), "im": ("float32", (2, 3)), "s": "bytes", "x": "int64"}
    )
    with tfs.ShardedWriter(tmp_path / "one", num_shards=2, shard_for=lambda row: row["x"]) as one:
        one.write(FIXED)
        one.write_batch([FIXED])
    with tfs.ShardedWriter(tmp_path / "rolling", max_shard_records=1) as rolling:
        rolling.write(FIXED)
        rolling.write_batch([FIXED, FIXED])
    written(tmp_path / "shuffled", [FIXED] * 3, shuffle_seed=1)
    with tfs.WriteJob(tmp_path / "job") as job:
        results = [pickle.loads(pickle.dumps(job.write([FIXED], order))) for order in (0, 1)]
        job.commit(results)
    for name in ("one", "rolling", "shuffled", "job"):
        assert tfs.infer_schema(tmp_path / name) == wanted, name
        table = tfs.read_table(tmp_path / name)
        assert table["im"].shape[1:] == (2, 3)
        assert table["f"][0].tolist() == [0.5, 1.5]


def test_bytes_among_mappings_make_the_schema_unknown(tmp_path: Path) -> None:
    record = tfs.encode_example({"x": 1})
    assert written(tmp_path / "a", [{"x": 1}, record]).schema is None
    assert written(tmp_path / "b", [record]).schema is None
    batch = tfs.encode_examples({"x": [1]})
    with tfs.ShardedWriter(tmp_path / "c", num_shards=1) as writer:
        writer.write({"x": 1})
        writer.write_batch(batch)
    assert writer.manifest.schema is None
    written(tmp_path / "d", [{"x": 1}])
    assert written(tmp_path / "d", [{"x": 2}, record], if_exists="append").schema is None
    assert tfs.read_table(tmp_path / "d")["x"].tolist() == [1, 2, 1]


def test_features_without_values_are_of_no_kind(tmp_path: Path) -> None:
    written(tmp_path / "t", [{"e": [], "n": None, "x": 1}])
    schema = tfs.infer_schema(tmp_path / "t")
    assert schema["e"] == tfs.Feature("unknown", (None,))
    assert schema["n"] == tfs.Feature("unknown", nullable=True)
    table = tfs.read_table(tmp_path / "t")
    assert (table["e"].tolist(), table["n"].tolist()) == ([[]], [None])
    written(tmp_path / "t", [{"e": [1.5, 2], "n": "a", "x": 1}][:0], if_exists="append")
    written(tmp_path / "t", [{"e": [1.5, 2.5], "n": b"a", "x": 1}], if_exists="append")
    assert tfs.read_table(tmp_path / "t")["e"].tolist() == [[], [1.5, 2.5]]
    assert tfs.read_table(tmp_path / "t")["n"].tolist() == [None, b"a"]


@pytest.mark.parametrize("batch", [False, True])
def test_another_kind_is_refused_by_both_places(tmp_path: Path, batch: bool) -> None:
    writer = tfs.ShardedWriter(tmp_path / "t", num_shards=1)
    writer.write({"a": 1, "x": 1})
    writer.write({"a": 1})
    says = r"record 2: feature 'x' holds float32 values, and int64 in record 0; .*schema="
    with pytest.raises(tfs.SchemaError, match=says):
        writer.write_batch([{"x": 1.5}]) if batch else writer.write({"x": 1.5})
    if batch:
        assert not list(tmp_path.iterdir())
        return
    writer.write({"x": 2})
    writer.close()
    assert tfs.read_table(tmp_path / "t")["x"].tolist() == [1, None, 2]
    with (
        tfs.WriteJob(tmp_path / "job") as job,
        pytest.raises(tfs.SchemaError, match="task 1 wrote"),
    ):
        job.commit([job.write([{"x": 1}], 0), job.write([{"x": b"a"}], 1)])


@pytest.mark.parametrize("units", [["ms", "s"], ["s", "ms"]])
def test_two_units_of_time_are_each_said_of_the_task_that_wrote_it(
    tmp_path: Path, units: list[str]
) -> None:
    first, second = units
    says = (
        rf"holds datetime64\[{second}\] in what task 1 wrote, and datetime64\[{first}\] in what "
        "task 0 wrote"
    )
    times = [np.array([5], f"M8[{unit}]") for unit in units]
    with tfs.WriteJob(tmp_path / "job") as job, pytest.raises(tfs.SchemaError, match=says):
        job.commit([job.write([{"t": time}], order) for order, time in enumerate(times)])


def test_times_keep_their_unit(tmp_path: Path) -> None:
    written(tmp_path / "t", [{"t": np.datetime64(5, "s"), "d": np.ones(2, "m8[ms]")}])
    table = tfs.read_table(tmp_path / "t")
    assert (table["t"].dtype, table["d"].dtype) == ("M8[s]", "m8[ms]")
    with pytest.raises(tfs.SchemaError, match=r"'t'.*datetime64\[ms\].*earlier.*datetime64\[s\]"):
        written(tmp_path / "u", [{"t": np.datetime64(5, "s")}, {"t": np.datetime64(5, "ms")}])
    with pytest.raises(ValueError, match=r"'t' is datetime64\[s\] in the dataset"):
        written(tmp_path / "t", [{"t": np.datetime64(5, "ms")}], if_exists="append")


def test_an_append_widens_or_is_refused(tmp_path: Path) -> None:
    url = tmp_path / "t"
    written(url, [FIXED])
    written(url, [{"x": 2, "f": [0.25], "im": np.ones((2, 3)), "new": 7}], if_exists="append")
    schema = tfs.infer_schema(url)
    assert schema["f"] == tfs.Feature("float32", (None,))
    assert schema["im"] == tfs.Feature("float32", (2, 3))
    assert schema["s"] == tfs.Feature("bytes", nullable=True)
    assert schema["new"] == tfs.Feature("int64", nullable=True)
    table = tfs.read_table(url)
    assert table["f"].tolist() == [[0.5, 1.5], [0.25]]
    assert table["new"].tolist() == [None, 7]
    with pytest.raises(
        ValueError, match="'x' is int64 in the dataset, and bytes in what is appended"
    ):
        written(url, [{**FIXED, "x": b"a"}], if_exists="append")
    assert len(tfs.RecordSource(url)) == 2
    told: dict[str, Any] = {"x": "int32", "m": tfs.Feature("int64", default=3)}
    written(tmp_path / "told", [{"x": 1, "m": 2}], schema=told)
    written(tmp_path / "told", [{"x": 5, "m": 1}], if_exists="append")
    assert tfs.infer_schema(tmp_path / "told") == tfs.Schema(told)


def streams(seed: int) -> Iterator[dict[str, Any]]:
    """Random records of one random set of features."""
    chance = random.Random(seed)
    makers = [lambda: chance.randint(-9, 9), lambda: 0.5, lambda: b"b", lambda: "t"]
    features = {}
    for name in "abcde"[: chance.randint(1, 5)]:
        make = chance.choice(makers)
        form = chance.choice(["scalar", "fixed", "ragged", "array", "rows", "empty", "mixed"])
        features[name] = make, form, chance.randint(1, 3), chance.random() < 0.3
    for _ in range(chance.randint(1, 6)):
        record: dict[str, Any] = {}
        for name, (make, form, size, absent) in features.items():
            if absent and chance.random() < 0.5:
                if chance.random() < 0.5:
                    record[name] = None
                continue
            one = "scalar" if form == "mixed" and chance.random() < 0.5 else form
            count = chance.randint(0, 3) if one in ("ragged", "rows", "mixed") else size
            if one == "scalar":
                record[name] = make()
            elif one in ("array", "rows"):
                value = np.zeros((count, 2), np.float32 if make is makers[1] else np.int64)
                record[name] = value
            else:
                record[name] = [] if one == "empty" else [make() for _ in range(count)]
        yield record


def oracle(records: list[dict[str, Any]]) -> dict[str, tuple[str, Any, bool]]:
    """Name to (dtype, shape, nullable)."""
    found = {}
    for name in {name for record in records for name in record}:
        values = [record[name] for record in records if record.get(name) is not None]
        arrays = [np.asarray(value) for value in values]
        shapes = [array.shape for array in arrays]
        dtypes = {
            {"i": "int64", "f": "float32", "S": "bytes", "U": "bytes"}[array.dtype.kind]
            for value, array in zip(values, arrays, strict=True)
            if isinstance(value, np.ndarray) or array.size
        }
        shape: Any = ()
        if not dtypes:
            shape = (None,) if values else ()
        elif len({len(s) for s in shapes}) > 1:
            counts = {array.size for array in arrays}
            flat = all(len(s) < 2 for s in shapes)
            shape = tuple(counts) if flat and len(counts) == 1 else (None,)
        elif shapes[0] and any(a[1:] != b[1:] for a, b in pairwise(shapes)):
            shape = (None,)
        elif shapes[0]:
            first = {s[0] for s in shapes}
            head = first.pop() if len(first) == 1 else None
            shape = (None if head == 0 and len(shapes[0]) == 1 else head, *shapes[0][1:])
        found[name] = (dtypes.pop() if dtypes else "unknown", shape, len(values) < len(records))
    return found


def test_random_streams_are_what_an_oracle_says(tmp_path: Path) -> None:
    from tfio_store.example.codec import new_learner
    from tfio_store.example.learned import joined_states, learned_schema

    for seed in range(1000):
        records = list(streams(seed))
        learners = [new_learner(), new_learner()]
        for number, record in enumerate(records):
            assert learners[number % 2].encode(record) == tfs.encode_example(record)
        state = joined_states(("", learner.state()) for learner in learners)
        assert state is not None
        schema = learned_schema(state)
        assert schema is not None
        told = {name: (f.dtype, f.shape, f.nullable) for name, f in schema.items()}
        assert told == oracle(records), (seed, records)
        tfs.decode_examples([tfs.encode_example(record) for record in records], schema)


def test_single_shards_learn(tmp_path: Path) -> None:
    rows = [{"x": 1, "f": [0.5]}, {"x": 2, "f": [0.5, 1.5], "new": b"a"}]
    with tfs.WriteJob(tmp_path / "t", num_shards=3) as job:
        infos = [pickle.loads(pickle.dumps(job.write_shard(i, rows[i : i + 1]))) for i in range(3)]
        manifest = job.commit([*infos, infos[0]])
    assert all(shard.learned is None for shard in manifest.shards)
    assert tfs.infer_schema(tmp_path / "t") == tfs.Schema(
        {
            "f": ("float32", (None,)),
            "x": "int64",
            "new": tfs.Feature("bytes", nullable=True),
        }
    )
    assert tfs.read_table(tmp_path / "t")["new"].tolist() == [None, b"a"]
    with tfs.WriteJob(tmp_path / "u", num_shards=2) as job:
        infos = [job.write_shard(0, rows[:1]), job.write_shard(1, [tfs.encode_example(rows[1])])]
        assert job.commit(infos).schema is None
    with (
        tfs.WriteJob(tmp_path / "v", num_shards=2) as job,
        pytest.raises(tfs.SchemaError, match=r"'x' holds .* in what shard 1 wrote"),
    ):
        job.commit([job.write_shard(0, [{"x": 1}]), job.write_shard(1, [{"x": 1.5}])])
    told = {"x": "int64"}
    with tfs.WriteJob(tmp_path / "w", num_shards=1, schema=told) as job:
        assert job.commit([job.write_shard(0, [{"x": 1}])]).schema == tfs.Schema(told).to_json()


def test_a_misfit_is_refused_at_the_first_record(tmp_path: Path) -> None:
    url = tmp_path / "t"
    written(url, [{"x": 1, "t": np.datetime64(5, "s"), "im": np.ones((2, 3))}])
    before = sorted(path.name for path in tmp_path.iterdir())
    misfits: list[tuple[dict[str, Any], str]] = [
        ({"x": b"a"}, "'x' is int64 in the dataset, and bytes"),
        ({"t": np.datetime64(5, "ms")}, r"'t' is datetime64\[s\] in the dataset"),
    ]
    for row, says in misfits:
        writer = tfs.ShardedWriter(url, num_shards=1, if_exists="append")
        with pytest.raises(ValueError, match=says):
            writer.write(row)
        writer.write({"x": 2})  # the other record is not there, and nobody has learned of it
        writer.abort()
        writer = tfs.ShardedWriter(url, num_shards=1, if_exists="append")
        with pytest.raises(ValueError, match=says):
            writer.write_batch([row] * 3)
        with tfs.WriteJob(url, if_exists="append") as job:
            task = pickle.loads(pickle.dumps(job))
            with pytest.raises(ValueError, match=says):
                task.write([row], 0)
            with pytest.raises(ValueError, match=says):
                task.open(1).write(row)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    writer = tfs.ShardedWriter(url, num_shards=1, if_exists="append")
    for _ in range(5):
        writer.write({"y": 1})
    with pytest.raises(ValueError, match="'x' is int64"):
        for _ in range(5):
            writer.write({"x": b"a"})
    writer.abort()
    written(url, [{"x": 5, "late": 1.5}], if_exists="append")
    assert tfs.read_table(url)["late"].tolist() == [None, 1.5]


NARROW: list[tuple[Any, Any, Any, str]] = [
    ("uint8", 255, 256, "holds 256, which does not fit uint8"),
    (("int16", (2,)), [1], [1, 1 << 15], "holds 32768, which does not fit int16"),
    ("str", "a", b"\xff", "is not UTF-8"),
    (tfs.Feature("uint8", (2,), raw=True), b"ab", b"abc", "holds 3 bytes"),
]


@pytest.mark.parametrize(("feature", "good", "bad", "says"), NARROW)
def test_a_value_that_the_dataset_does_not_take_is_refused(
    tmp_path: Path, feature: Any, good: Any, bad: Any, says: str
) -> None:
    """Readers of the dataset could not decode it, nor what stands beside it."""
    url, schema = tmp_path / "t", tfs.Schema({"x": feature, "y": "int64"})
    written(
        url, [tfs.encode_example({"x": good if good != [1] else [1, 1], "y": 1})], schema=schema
    )
    written(url, [{"x": good}, {"y": 2}], if_exists="append")
    for records in ([{"y": 1}, {"x": bad}], [{"y": 3}] * 5000 + [{"x": bad}]):
        number = len(records) - 1
        with pytest.raises(tfs.SchemaError, match=f"record {number}: feature 'x' {says}.*append"):
            written(url, records, if_exists="append")
    with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
        writer.write({"y": 4})
        with pytest.raises(tfs.SchemaError, match=f"feature 'x' {says}"):
            writer.write({"x": bad})
    assert tfs.read_table(url)["y"].tolist() == [1, None, 2, 4]


def test_a_table_goes_behind_mappings(tmp_path: Path) -> None:
    from tfio_store.tables.write_table import TableJob

    url = tmp_path / "t"
    row = {"x": 1, "s": "a", "e": []}
    written(url, [{**row, "f": [0.5]}, {**row, "f": []}])
    floats = np.array([1.5, 2.5], np.float32)
    table: dict[str, Any] = {"x": [2], "s": [b"b"], "e": [[1]], "f": [floats]}
    tfs.write_table(table, url, if_exists="append")
    job = TableJob(tfs.WriteJob(url, if_exists="append"))
    job.commit([job.write([table])])
    found = tfs.read_table(url)
    assert {name: found[name].tolist() for name in found} == {
        "e": [[], [], [1], [1]],
        "f": [[0.5], [], [1.5, 2.5], [1.5, 2.5]],
        "s": [b"a", b"a", b"b", b"b"],
        "x": [1, 1, 2, 2],
    }
    written(url, [{"x": 3, "s": "c"}], if_exists="append")
    assert tfs.read_table(url)["x"].tolist() == [1, 1, 2, 2, 3]
    for odd in ({**table, "x": ["a"]}, {**table, "e": [["a"]]}):
        with pytest.raises(TypeError, match=r"feature '[xe]'"):
            tfs.write_table(odd, url, if_exists="append")


def test_whole_numbers_among_floats(tmp_path: Path) -> None:
    """A whole number goes into a feature that holds floats, where float32 has it exactly."""
    ones = [0, -3, 1 << 24, np.int64(7), np.uint8(9), 2.5]
    rows = [[1.5, 2.5], [1, 2], (3, 4), np.array([5, 6]), np.array([7, 8], np.uint16), [1, 0.5]]
    mappings = [{"x": 0.5, "pair": [0.5, 0.5], "n": 1}]
    mappings += [{"x": x, "pair": p, "n": 1} for x, p in zip(ones, rows, strict=True)]
    mappings.append({"n": 1, "pair": [9, 9], "x": 9})  # in another order
    mappings.append({"n": 1, "x": 10, "pair": [1.0, 1.0], "more": 1})  # and with another feature
    manifest = written(tmp_path / "train", mappings)
    schema = manifest.schema
    assert schema is not None
    read = tfs.read_table(tmp_path / "train")
    assert (read.schema["x"].dtype, read.schema["pair"].dtype) == ("float32", "float32")
    assert (read.schema["pair"].shape, read.schema["n"].dtype) == ((2,), "int64")
    assert read["x"].tolist() == [0.5, *map(float, ones), 9.0, 10.0]
    assert read["pair"].tolist() == [[0.5, 0.5], *([*row] for row in rows), [9, 9], [1, 1]]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ((1 << 24) + 1, r"record 1: feature 'x' holds the integer 16777217, which no float32 is"),
        ([1, (1 << 53) + 1], r"holds the integer 9007199254740993, .* schema=\{'x': 'float64'\}"),
        (True, r"holds int64 values, and float32 in record 0; write one kind"),
        ([True], "holds int64 values, and float32 in record 0"),
        (np.timedelta64(1, "s"), "holds int64 values, and float32 in record 0"),
        (tfs.Ragged.from_rows([[1, 2]]), "holds int64 values, and float32 in record 0"),
    ],
)
def test_what_no_float_is(tmp_path: Path, value: Any, says: str) -> None:
    """The record that is refused leaves nothing behind: the next one is written."""
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1) as writer:
        writer.write({"x": 0.5, "n": 1})
        with pytest.raises(tfs.SchemaError, match=says):
            writer.write({"x": value, "n": 1})
        writer.write({"x": 2, "n": 1})
    assert tfs.read_table(tmp_path / "train")["x"].tolist() == [0.5, 2.0]


def test_floats_among_whole_numbers_name_the_remedy(tmp_path: Path) -> None:
    says = r"holds float32 values, and int64 in record 0; .*schema=\{'x': 'float32'\}, which takes"
    with pytest.raises(tfs.SchemaError, match=says):
        written(tmp_path / "train", [{"x": 1}, {"x": 0.5}])
    with tfs.ShardedWriter(tmp_path / "train", num_shards=1, schema={"x": "float32"}) as writer:
        writer.write_batch([{"x": 1}, {"x": 0.5}])
    assert tfs.read_table(tmp_path / "train")["x"].tolist() == [1.0, 0.5]

"""Appends that bring features, or lack some: what is joined, what is refused, and by whom."""

from __future__ import annotations

import errno
import json
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tfio_store.dataset.manifest import Growth

MANIFEST = "_train.manifest.json"


def write(url: Any, rows: list[dict[str, Any]], schema: Any = None, **options: Any) -> Any:
    how = {"num_shards": 1, "if_exists": "append", "schema": schema, **options}
    with tfs.ShardedWriter(url, **how) as writer:
        writer.write_batch(rows)
    return writer.manifest


def table(url: Any) -> dict[str, list[Any]]:
    found = tfs.read_table(url)
    return {name: found[name].tolist() for name in found}


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# What is refused


REFUSED: dict[str, tuple[Any, Any, list[str]]] = {
    "another dtype": ("int64", "float32", ["int64", "float32"]),
    "a wider integer": ("int32", "int64", ["int32", "int64"]),
    "text behind bytes": ("bytes", "str", ["bytes", "str"]),
    "another unit of time": ("datetime64[s]", "datetime64[ms]", ["[s]", "[ms]"]),
    "another fixed shape": (("int64", (2,)), ("int64", (3,)), ["(2,)", "(3,)"]),
    "a vector behind scalars": ("int64", ("int64", (3,)), ["shape=()", "(3,)"]),
    "any length behind a fixed one": (("int64", (2,)), ("int64", (None,)), ["(2,)", "(None,)"]),
    "rows of rows behind rows": (
        ("int64", (None,)), ("int64", (None, None)), ["(None,)", "(None, None)"],
    ),
    "rows behind rows of rows": (
        ("int64", (None, None)), ("int64", (None, 2)), ["(None, None)", "(None, 2)"],
    ),
    "raw memory": ("uint8", tfs.Feature("uint8", raw=True), ["raw=False", "raw=True"]),
    "other classes": (
        tfs.Feature.class_label(["cat", "dog"]),
        tfs.Feature.class_label(["cat", "dog", "bird"]),
        ["'cat', 'dog')", "'dog', 'bird')"],
    ),
    "a feature list": (
        ("int64", (None,)),
        tfs.Feature("int64", (None,), sequence=True),
        ["sequence=False", "sequence=True"],
    ),
    "other defaults": (
        tfs.Feature("int64", default=1),
        tfs.Feature("int64", default=2),
        ["default=1", "default=2"],
    ),
    "a length that has a default": (
        ("int64", (None,)), tfs.Feature("int64", (2,), default=0), ["(None,)", "default=0"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_no_schema_describes_is_refused(tmp_path: Path, name: str) -> None:
    old, new, kinds = REFUSED[name]
    url = tmp_path / "train"
    with tfs.WriteJob(url, schema={"x": old, "y": "int64"}) as job:
        encoded = tfs.encode_example({"x": [1, 2], "y": 1})
        job.commit([job.write([encoded])])
    before = files(tmp_path)
    for begin in (tfs.ShardedWriter, tfs.WriteJob):
        with pytest.raises(ValueError, match=r"feature 'x' is .* in the dataset, and") as refused:
            begin(url, num_shards=1, if_exists="append", schema={"x": new})
        assert all(kind in str(refused.value) for kind in kinds)
        assert "under another name, or overwrite" in str(refused.value)
    assert files(tmp_path) == before


def test_a_name_that_nested_rows_need(tmp_path: Path) -> None:
    write(tmp_path / "train", [{"n/row_lengths": 1}], {"n/row_lengths": "int64"})
    with pytest.raises(ValueError, match="'n/row_lengths': the nested 'n' needs that name"):
        tfs.ShardedWriter(
            tmp_path / "train", num_shards=1, if_exists="append",
            schema={"n": ("int64", (None, None))},
        )  # fmt: skip


def test_a_mapping_is_no_feature_list(tmp_path: Path) -> None:
    """Its values would be a feature of the context, which readers of the list do not see."""
    steps = tfs.Feature("int64", (None,), sequence=True)
    write(tmp_path / "train", [{"x": 1, "steps": [1, 2]}], {"x": "int64", "steps": steps})
    with pytest.raises(ValueError, match=r"feature 'steps' is .*sequence=True.*sequence=False"):
        write(tmp_path / "train", [{"x": 2, "steps": [3]}])
    write(tmp_path / "train", [{"x": 2}])
    assert table(tmp_path / "train") == {"x": [1, 2], "steps": [[1, 2], None]}


# What is joined


@pytest.mark.parametrize(
    ("new", "value", "wanted"),
    [(("int64", (2,)), [8, 9], [8, 9]), ("int64", 7, [7]), (("int64", (None,)), [], [])],
)
def test_any_length_takes_one_length(tmp_path: Path, new: Any, value: Any, wanted: Any) -> None:
    write(tmp_path / "train", [{"x": [1, 2, 3]}], {"x": ("int64", (None,))})
    write(tmp_path / "train", [{"x": value}], {"x": new})
    assert tfs.infer_schema(tmp_path / "train") == tfs.Schema({"x": ("int64", (None,))})
    assert table(tmp_path / "train") == {"x": [[1, 2, 3], wanted]}


def test_a_default_is_read_where_the_feature_is_not(tmp_path: Path) -> None:
    dense = tfs.Feature("int64", default=5)
    write(tmp_path / "train", [{"x": 1}], {"x": "int64"})
    write(tmp_path / "train", [{"x": 2, "y": 6}], {"x": "int64", "y": dense})
    write(tmp_path / "train", [{"x": 3}], {"x": "int64"})
    assert tfs.infer_schema(tmp_path / "train")["y"] == dense
    assert table(tmp_path / "train") == {"x": [1, 2, 3], "y": [5, 6, 5]}


def test_steps_come_to_examples(tmp_path: Path) -> None:
    steps = tfs.Feature("str", (None,), sequence=True)
    write(tmp_path / "train", [{"x": 1}], {"x": "int64"})
    write(tmp_path / "train", [{"steps": ["a", "b"]}], {"steps": steps})
    assert table(tmp_path / "train") == {"x": [1, None], "steps": [None, ["a", "b"]]}


def test_columns_of_all_kinds_come_to_a_table(tmp_path: Path) -> None:
    codes = pa.dictionary(pa.int8(), pa.string())
    first = pa.table({"id": pa.array([1], pa.int16())})
    more = pa.table(
        {
            "zone": pa.array([5, None], pa.timestamp("s", "Asia/Tokyo")),
            "code": pa.array(["a", "b"]).cast(codes),
            "deep": pa.array([[[1], []], []], pa.list_(pa.list_(pa.int32()))),
            "price": pa.array([0.1, 0.2]),
        }
    )
    tfs.write_table(first, tmp_path / "train")
    tfs.write_table(more, tmp_path / "train", if_exists="append", schema={"price": "float64"})
    tfs.write_table(first, tmp_path / "train", if_exists="append")
    found = tfs.read_table(tmp_path / "train").to_arrow()
    assert found.schema.names == ["id", *more.schema.names]
    for name in ("zone", "code", "deep"):
        assert found.schema.field(name).type == more.schema.field(name).type
    wanted = [{"id": 1}, *more.to_pylist(), {"id": 1}]
    names = found.schema.names
    assert found.to_pylist() == [{name: row.get(name) for name in names} for row in wanted]


def test_mappings_of_other_lengths_come_to_a_table(tmp_path: Path) -> None:
    """Its Arrow type is of lists of two."""
    pairs = pa.table({"v": pa.array([[1, 2]], pa.list_(pa.int64(), 2))})
    tfs.write_table(pairs, tmp_path / "train")
    write(tmp_path / "train", [{"v": [3]}])
    assert tfs.read_table(tmp_path / "train").to_arrow()["v"].to_pylist() == [[1, 2], [3]]


def test_an_append_of_no_records_changes_nothing(tmp_path: Path) -> None:
    """A job that found no rows today must not make every feature optional."""
    url = tmp_path / "train"
    write(url, [{"x": 1}], {"x": "int64"})
    write(url, [], {"y": "int64"})
    tfs.write_table({}, url, if_exists="append")
    tfs.write_table({"y": np.zeros(0, np.int64)}, url, if_exists="append")
    with tfs.WriteJob(url, schema={"y": "int64"}, if_exists="append") as job:
        manifest = job.commit([])
    assert (manifest.schema, manifest.growth) == (tfs.Schema({"x": "int64"}).to_json(), ())


def test_an_overwrite_starts_anew(tmp_path: Path) -> None:
    url = tmp_path / "train"
    write(url, [{"x": 1}], {"x": "int64"})
    assert write(url, [{"y": 1}], {"y": "int64"}).growth
    manifest = write(url, [{"x": 0.5}], {"x": "float32"}, if_exists="overwrite")
    assert (manifest.schema, manifest.growth) == (tfs.Schema({"x": "float32"}).to_json(), ())


# Several writers at once


def stored(place: Place) -> tuple[str, tfs.Storage]:
    return place.url("ds/train"), tfs.Storage(place.storage_options, backend="fsspec")


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
@pytest.mark.parametrize("told", [True, False], ids=["schema", "learned"])
def test_who_commits_later_joins_what_is_there(place: Place, told: bool) -> None:
    url, storage = stored(place)
    how: dict[str, Any] = {"storage": storage, "memory_budget": 16 << 20}
    write(url, [{"x": 1}], {"x": "int64"} if told else None, **how)
    writers = {
        name: tfs.ShardedWriter(
            url, num_shards=1, if_exists="append",
            schema={"x": "int64", name: "int64"} if told else None, **how,
        )
        for name in ("a", "b")
    }  # fmt: skip
    for name, writer in writers.items():
        writer.write({"x": 2, name: 3})
    for writer in writers.values():
        writer.close()
    manifest = writers["b"].manifest
    optional = tfs.Feature("int64", nullable=True)
    assert tfs.Schema.from_json(manifest.schema or {}) == tfs.Schema(
        {"x": "int64", "a": optional, "b": optional}
    )
    assert [(each.record, each.added) for each in manifest.growth] == [(1, ("a",)), (2, ("b",))]
    found = tfs.read_table(url, storage=storage)
    assert [found[name].tolist() for name in "xab"] == [
        [1, 2, 2], [None, 3, None], [None, None, 3]
    ]  # fmt: skip


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(str(tmp_path)) if request.param == "local" else request.getfixturevalue("s3")


@pytest.mark.parametrize("place", ["local", "s3"], indirect=True)
def test_many_widen_it_at_once(place: Place) -> None:
    url, storage = stored(place)
    how: dict[str, Any] = {"storage": storage, "memory_budget": 16 << 20}
    write(url, [{"x": 0}], {"x": "int64"}, **how)
    started = threading.Barrier(6)
    failures: list[BaseException] = []

    def append(number: int) -> None:
        try:
            with tfs.ShardedWriter(
                url, num_shards=1, if_exists="append", schema={f"c{number}": "int64"}, **how
            ) as writer:
                writer.write({f"c{number}": number})
                started.wait()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    found = tfs.read_table(url, storage=storage)
    rows = [
        {name: found[name].tolist()[i] for name in found if found[name].tolist()[i] is not None}
        for i in range(7)
    ]
    assert sorted(rows, key=str) == sorted([{"x": 0}, *({f"c{n}": n} for n in range(6))], key=str)
    growth = tfs.info(url, storage=storage).growth
    assert sorted(name for each in growth for name in each.added) == [f"c{n}" for n in range(6)]
    assert [name for each in growth for name in each.optional] == ["x"]
    assert [each.record for each in growth] == [1, 2, 3, 4, 5, 6]


def test_a_misfit_of_two_writers_is_refused_at_the_commit(tmp_path: Path) -> None:
    url = tmp_path / "train"
    write(url, [{"x": 1}], {"x": "int64"})
    late = tfs.ShardedWriter(url, num_shards=1, if_exists="append", schema={"y": "float32"})
    late.write({"y": 0.5})
    write(url, [{"y": 1}], {"y": "int64"})
    with pytest.raises(ValueError, match=r"feature 'y' is .*int64.* in the dataset, .*float32"):
        late.close()
    assert table(url) == {"x": [1, None], "y": [None, 1]}


def test_a_commit_that_is_called_again_grows_nothing(tmp_path: Path) -> None:
    url = tmp_path / "train"
    write(url, [{"x": 1}], {"x": "int64"})
    job = tfs.WriteJob(url, schema={"y": "int64"}, if_exists="append")
    copy = pickle.loads(pickle.dumps(job))
    results = [job.write([{"y": 2}])]
    first = job.commit(results)
    write(url, [{"z": 3}], {"z": "int64"})
    again = copy.commit(results)
    assert first.growth == again.growth[:1]
    assert [each.added for each in again.growth] == [("y",), ("z",)]
    assert table(url) == {"x": [1, None, None], "y": [None, 2, None], "z": [None, None, 3]}


def test_a_lost_answer_grows_it_once(
    tmp_path: Path, on_put: Callable[[str, Callable[..., Any]], None]
) -> None:
    """The manifest landed, its answer was lost, and another writer was next."""
    url = tmp_path / "train"
    write(url, [{"x": 1}], {"x": "int64"})
    answers = [True]

    def answer(put: Callable[[], Any]) -> Any:
        found = put()
        if answers and answers.pop():
            write(url, [{"z": 3}], {"z": "int64"})
            raise ConnectionResetError(errno.ECONNRESET, "the answer was lost")
        return found

    on_put(MANIFEST, answer)
    manifest = write(url, [{"y": 2}], {"y": "int64"})
    assert [each.added for each in manifest.growth] == [("y",), ("z",)]
    assert table(url) == {"x": [1, None, None], "y": [None, 2, None], "z": [None, None, 3]}


# What is said of it


@pytest.fixture
def grown(tmp_path: Path) -> str:
    url = str(tmp_path / "train")
    write(url, [{"x": 1, "s": "a"}] * 3, {"x": "int64", "s": "str"})
    write(url, [{"x": 1, "y": 0.5}], {"x": "int64", "y": "float32"})
    write(url, [{"x": None}], {"x": tfs.Feature("int64", nullable=True)})
    write(url, [{"x": 5}], {"x": "int64"})
    return url


def test_the_manifest_says_since_when(grown: str) -> None:
    found = tfs.info(grown)
    second, third = found.growth
    assert (second.record, second.added, second.optional) == (3, ("y",), ("s",))
    assert (third.record, third.added, third.optional) == (4, (), ("x",))
    generations = [second.generation, third.generation]
    assert all(any(tag in each.url for each in found.shards) for tag in generations)
    assert str(second) == "y (new), s (may be missing) since record 3"
    document = json.loads((Path(grown).parent / MANIFEST).read_text())
    assert document["growth"][0] == second.to_json()


def test_a_difference_says_since_when(grown: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other")
    write(other, [{"x": 1, "s": "a"}] * 3, {"x": "int64", "s": "str"})
    assert tfs.diff(other, grown).features == {
        "x": ("int64 ()", "int64 () nullable, may be missing since record 4"),
        "s": ("str ()", "str () nullable, may be missing since record 3"),
        "y": ("", "float32 () nullable, since record 3"),
    }


def test_many_names_are_cut_short() -> None:
    growth = Growth("tag", 1234, tuple("abcdefg"), ())
    assert str(growth) == "a, b, c, d, e, … (new) since record 1,234"

"""What `copy` and `salvage` append fits the dataset's schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed

Copying = Callable[..., Any]


def write(url: Any, rows: list[dict[str, Any]], schema: Any) -> None:
    with tfs.ShardedWriter(url, num_shards=1, schema=schema) as writer:
        writer.write_batch(rows)


def table(url: Any) -> dict[str, list[Any]]:
    found = tfs.read_table(url)
    return {name: found[name].tolist() for name in found}


both = pytest.mark.parametrize("copying", [tfs.copy, tfs.salvage])


@pytest.fixture
def target(tmp_path: Path) -> str:
    url = str(tmp_path / "train")
    tfs.write_table({"x": [1, 2]}, url, num_shards=1)
    return url


def foreign(tmp_path: Path, *rows: dict[str, Any]) -> str:
    path = tmp_path / "f.tfrecord"
    path.write_bytes(framed([tfs.encode_example(row) for row in rows]))
    return str(path)


@both
@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"x": [5, 6]}, "'x' holds 2 values"),
        ({"x": b"5"}, "'x' holds bytes"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, target: str, copying: Copying, row: dict[str, Any], says: str
) -> None:
    source = foreign(tmp_path, {"x": 3}, row)
    with pytest.raises(tfs.SchemaError, match=f"f.tfrecord: record 1: .*{says}.*append"):
        copying(source, target, if_exists="append")
    assert tfs.read_table(target)["x"].tolist() == [1, 2]


@both
def test_what_fits_is_appended(tmp_path: Path, target: str, copying: Copying) -> None:
    copying(foreign(tmp_path, {"x": 3}, {"x": 4}), target, if_exists="append")
    assert tfs.read_table(target)["x"].tolist() == [1, 2, 3, 4]


def test_sources_of_several_schemas(tmp_path: Path, target: str) -> None:
    for name, value in (("a", 7), ("b", "7")):
        tfs.write_table({"x": [value]}, str(tmp_path / name), num_shards=1)
    sources = [str(tmp_path / name) for name in "ab"]
    with (
        pytest.warns(RuntimeWarning, match="differ in their schema, so it is not copied"),
        pytest.raises(tfs.SchemaError, match="record 1: "),
    ):
        tfs.copy(sources, target, if_exists="append")
    assert tfs.read_table(target)["x"].tolist() == [1, 2]


def test_a_dataset_without_a_schema_takes_all(tmp_path: Path) -> None:
    url = str(tmp_path / "plain")
    with tfs.ShardedWriter(url, num_shards=1) as writer:
        writer.write(b"one")
    tfs.copy(foreign(tmp_path, {"x": 3}), url, if_exists="append")
    assert tfs.count(url) == 2


def test_a_record_that_is_no_example_is_named(tmp_path: Path) -> None:
    good = tfs.encode_example({"x": 5})
    tfs.write_table({"x": [1]}, str(tmp_path / "t"), num_shards=1)
    with tfs.TFRecordWriter(tmp_path / "f") as writer:
        writer.write_batch([good] * 150_000 + [b"\xff\xff"])
    with pytest.raises(tfs.CorruptRecordError, match=r"f: record 150000 is not") as found:
        tfs.copy(str(tmp_path / "f"), str(tmp_path / "t"), if_exists="append")
    assert found.value.offset == -1
    assert "offset" not in str(found.value)


# Features that come and go


@both
def test_files_without_a_schema_bring_and_lack_features(tmp_path: Path, copying: Any) -> None:
    url = str(tmp_path / "train")
    write(url, [{"x": 1, "v": [1, 2]}], {"x": "int32", "v": ("int64", (2,))})
    rows: list[dict[str, Any]] = [{"x": 3, "name": "a"}, {"v": [3, 4], "tags": [1, 2]}, {"tags": 5}]
    (tmp_path / "f.tfrecord").write_bytes(framed(list(map(tfs.encode_example, rows))))
    copying(str(tmp_path / "f.tfrecord"), url, if_exists="append")
    nullable = {"x": "int32", "v": ("int64", (2,)), "name": "bytes", "tags": ("int64", (None,))}
    made = {n: f if isinstance(f, tuple) else (f, ()) for n, f in nullable.items()}
    assert tfs.infer_schema(url) == tfs.Schema(
        {name: tfs.Feature(*of, nullable=True) for name, of in made.items()}
    )
    assert table(url) == {
        "x": [1, 3, None, None],
        "v": [[1, 2], [None, None], [3, 4], [None, None]],
        "name": [None, b"a", None, None],
        "tags": [None, None, [1, 2], [5]],
    }


def test_files_of_steps_bring_them(tmp_path: Path) -> None:
    url, file = str(tmp_path / "train"), tmp_path / "f.tfrecord"
    write(url, [{"x": 1}], {"x": "int64"})
    file.write_bytes(framed([tfs.encode_sequence_example({"x": 2}, {"steps": [3, 4]})]))
    tfs.copy(str(file), url, if_exists="append")
    assert table(url) == {"x": [1, 2], "steps": [None, [3, 4]]}
    file.write_bytes(framed([tfs.encode_example({"x": 5, "steps": [6]})]))
    with pytest.raises(ValueError, match=r"feature 'steps' is .*sequence=True.*sequence=False"):
        tfs.copy(str(file), url, if_exists="append")
    assert tfs.count(url) == 2


def test_files_with_all_features_leave_the_schema(tmp_path: Path) -> None:
    url = str(tmp_path / "train")
    write(url, [{"x": 1}], {"x": "int32"})
    (tmp_path / "f.tfrecord").write_bytes(framed([tfs.encode_example({"x": 2})]))
    manifest = tfs.copy(str(tmp_path / "f.tfrecord"), url, if_exists="append")
    assert (manifest.schema, manifest.growth) == (tfs.Schema({"x": "int32"}).to_json(), ())


def test_several_datasets_become_one(tmp_path: Path) -> None:
    write(tmp_path / "a", [{"x": 1}], {"x": "int32"})
    write(tmp_path / "b", [{"x": 2, "y": 3}], {"x": "int32", "y": "int64"})
    manifest = tfs.copy([str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "all")
    assert table(tmp_path / "all") == {"x": [1, 2], "y": [None, 3]}
    assert manifest.growth == ()

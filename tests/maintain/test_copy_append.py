"""What `copy` and `salvage` append fits the dataset's schema."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed

Copying = Callable[..., Any]

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

"""`convert` into files that are open."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

READERS: dict[str, Any] = {
    "csv": lambda data: data.decode().splitlines(),
    "jsonl": lambda data: data.decode().splitlines(),
    "parquet": lambda data: parquet.read_table(io.BytesIO(data)).to_pydict(),
    "arrow": lambda data: pa.ipc.open_file(data).read_all().to_pydict(),
    "webdataset": len,
}
ROWS = {"id": [1, 2], "name": ["ada", "bob"]}


@pytest.mark.parametrize("form", READERS)
def test_an_open_file_is_written_and_left_open(tmp_path: Path, form: str) -> None:
    tfs.write_table(ROWS, tmp_path / "train")
    tfs.convert(tmp_path / "train", tmp_path / "x", target_format=form)
    file = io.BytesIO()
    made = tfs.convert(tmp_path / "train", file, target_format=form)
    assert (made.target, made.records) == ("<file object>", 2)
    read = READERS[form]
    assert read(file.getvalue()) == read((tmp_path / "x").read_bytes())
    with open(tmp_path / "named", "wb") as named:
        assert tfs.convert(tmp_path / "train", named, target_format=form).target == named.name
        assert not named.closed


def test_open_files_that_are_refused(tmp_path: Path) -> None:
    tfs.write_table(ROWS, tmp_path / "train")
    tfs.convert(tmp_path / "train", tmp_path / "x.csv")
    with pytest.raises(ValueError, match="has no name; pass target_format="):
        tfs.convert(tmp_path / "train", io.BytesIO())
    with pytest.raises(ValueError, match="a TFRecord dataset takes a name"):
        tfs.convert(tmp_path / "x.csv", io.BytesIO(), target_format="tfrecord")
    text: Any = io.StringIO()
    with pytest.raises(TypeError, match="opened as text"):
        tfs.convert(tmp_path / "train", text, target_format="csv")
    number: Any = 5
    with pytest.raises(TypeError, match="takes a name or an open file, not int"):
        tfs.convert(tmp_path / "train", number)

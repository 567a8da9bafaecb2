"""Folders that may not be read or written: the error names the folder, and says what to check."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import tfio_store as tfs

NOBODY = 65534


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user reaches, with a dataset in it."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    tfs.write_table({"x": [1, 2]}, made / "train", num_shards=1)
    tfs.count(made / "train")
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@contextmanager
def only(folder: Path, mode: int) -> Iterator[None]:
    """The folder has this mode, and root is nobody."""
    folder.chmod(mode)
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_a_folder_that_cannot_be_written(folder: Path) -> None:
    says = rf"the folder {folder} can't be written to; check its permissions or your credentials"
    with only(folder, 0o555):
        for name in ("other", "train"):
            with pytest.raises(PermissionError, match=says) as caught:
                tfs.ShardedWriter(folder / name, num_shards=1, if_exists="overwrite")
            assert "claim" not in str(caught.value)
        with pytest.raises(PermissionError, match=says):
            tfs.WriteJob(folder / "other", num_shards=1)
        below = rf"the folder {folder}/below can't be written to"
        with pytest.raises(PermissionError, match=below):
            tfs.write_table({"x": [1]}, folder / "below/train")
    assert [each.name[0] for each in folder.iterdir() if "other" in each.name] == []


def test_a_folder_that_cannot_be_made(folder: Path) -> None:
    with pytest.raises(NotADirectoryError, match=r"is a file, or lies below one; give the dataset"):
        tfs.write_table({"x": [1]}, next(folder.glob("*.tfrecord")) / "below")


def test_a_folder_that_cannot_be_read(folder: Path) -> None:
    with only(folder, 0o000):
        for source in (folder, f"{folder}/*"):
            with pytest.raises(PermissionError) as caught:
                tfs.RecordReader(source)
            assert str(caught.value).endswith(f"'{folder}'")
            assert "Permission denied" in str(caught.value)

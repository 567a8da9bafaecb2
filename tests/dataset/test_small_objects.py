"""Small objects beside the shards: one that is too large for what its name says is not read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.errors import ManifestError

HUGE = 1 << 40
"""More than any machine's memory. The file has a hole of it."""


def swollen(path: Path) -> None:
    """Put zeros behind a file, or make one of zeros."""
    with open(path, "ab") as file:
        file.truncate(HUGE)


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("_t.manifest.json", lambda folder: tfs.open(folder / "t")),
        ("_t.manifest.json", lambda folder: tfs.open(folder)),
        ("dataset_info.json", tfs.open),
        ("features.json", tfs.Episodes),
    ],
)
def test_a_description_that_is_too_large_is_not_read(
    name: str, read: Callable[[Path], Any], tmp_path: Path
) -> None:
    swollen(tmp_path / name)
    with pytest.raises(ManifestError, match=rf"{name}: it has {HUGE} bytes, and at most .* delete"):
        read(tmp_path)


def test_an_index_that_is_too_large_for_its_manifest_is_not_read(tmp_path: Path) -> None:
    with tfs.ShardedWriter(tmp_path / "t", num_shards=2) as writer:
        writer.write_batch([b"x"] * 100)
    (index,) = tmp_path.glob("_t.index*")
    swollen(index)
    with pytest.raises(ManifestError, match=rf"_t\.index.*: it has {HUGE} bytes"):
        list(tfs.RecordReader(tmp_path / "t"))


def test_a_file_of_starts_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with tfs.TFRecordWriter(tmp_path / "x.tfrecord") as writer:
        writer.write(b"x")
    swollen(tmp_path / "x.idx")
    with pytest.raises(OSError, match=f"it has {HUGE} bytes"):
        tfs.RecordSource(tmp_path / "x.tfrecord", idx=[str(tmp_path / "x.idx")])

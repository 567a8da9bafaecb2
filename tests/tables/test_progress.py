"""Long calls tell how far they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.support.framed import framed


@pytest.mark.parametrize("call", [tfs.build_index, tfs.count])
def test_several_files(tmp_path: Path, call: Callable[..., object]) -> None:
    for n in range(3):
        (tmp_path / f"f{n}").write_bytes(framed([b"x"] * (n + 1)))
    told: list[tfs.results.Progress] = []
    call(str(tmp_path / "f*"), on_progress=told.append)
    assert [(one.records, one.nbytes, one.shards) for one in told] == [
        (1, 17, 1), (3, 51, 2), (6, 102, 3),
    ]  # fmt: skip
    assert call is tfs.build_index or {one.whole_shards for one in told} == {3}


def test_a_table(tmp_path: Path) -> None:
    told: list[tfs.results.Progress] = []
    table = {"x": [1, 2, 3]}
    tfs.write_table(table, str(tmp_path / "t"), num_shards=1, on_progress=told.append)
    assert (told[-1].records, told[-1].shards) == (3, 1)


@pytest.mark.tensorflow
def test_a_dataset_of_tensors(tmp_path: Path) -> None:
    import tensorflow as tf

    told: list[tfs.results.Progress] = []
    tfs.save(tf.data.Dataset.range(5), str(tmp_path / "t"), on_progress=told.append)
    assert (told[-1].records, told[-1].shards) == (5, 1)


@pytest.mark.parametrize("ordered", [True, False])
def test_a_comparison(tmp_path: Path, ordered: bool) -> None:
    url = str(tmp_path / "t")
    tfs.write_table({"x": [1, 2, 3]}, url, num_shards=2)
    told: list[tfs.results.Progress] = []
    assert tfs.diff(url, url, ordered=ordered, on_progress=told.append).same
    assert (told[-1].records, told[-1].whole) == (3, 3)

"""The golden files of gzip, pigz, bgzip, Java and Hadoop in PyTorch and Grain."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.foreign import short_blocks
from tests.vectors.make_foreign import COUNT, FILES, FOLDER

SCHEMA: dict[str, Any] = {"i": "int64", "text": "bytes"}
ALL = list(range(COUNT))


def by_torch(path: str) -> list[int]:
    pytest.importorskip("torch")
    from tfio_store.torch import TFRecordIterable, TFRecordMap

    assert list(TFRecordMap(path, schema=SCHEMA)[:]["i"]) == ALL
    dataset = TFRecordIterable(path, schema=SCHEMA, batch_size=32, shuffle=True)
    return [int(i) for batch in dataset for i in batch["i"]]


def by_grain(path: str) -> list[int]:
    pytest.importorskip("grain")
    from tfio_store.grain import source, stream

    rows = source(path, schema=SCHEMA).shuffle(seed=1)
    assert sorted(int(row["i"]) for row in rows) == ALL
    return [int(row["i"]) for row in stream(path, schema=SCHEMA, shuffle=True)]


@pytest.mark.parametrize("door", [by_torch, by_grain])
@pytest.mark.parametrize("name", FILES)
def test_shuffled(tmp_path: Path, name: str, door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    short_blocks(monkeypatch)
    path = str(shutil.copy(FOLDER / name, tmp_path))
    tfs.build_index(path)
    found = door(path)
    assert found != ALL
    assert sorted(found) == ALL

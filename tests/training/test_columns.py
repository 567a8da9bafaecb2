"""Loaders give the columns that a writer of mappings learned, or records where they are wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support import learned

COUNT = 2_000
WITHOUT_NULLS = [name for name in learned.NAMES if name != "maybe"]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("learned") / "train")
    learned.write(found, COUNT)
    return found


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = str(tmp_path_factory.mktemp("foreign") / "a.tfrecord")
    with tfs.TFRecordWriter(found) as writer:
        for i in range(30):
            writer.write(tfs.encode_example({"number": i, "w": [0.5, float(i)]}))
    return found


def records(url: str) -> list[bytes]:
    with tfs.RecordReader(url) as reader:
        return list(reader)


def plain(value: Any) -> Any:
    if hasattr(value, "to_list"):
        return value.to_list()
    return value.tolist() if hasattr(value, "tolist") else value


def test_torch(url: str, foreign: str) -> None:
    pytest.importorskip("torch")
    from tfio_store.torch import TFRecordIterable, TFRecordMap

    for made in (
        TFRecordMap(url, columns=WITHOUT_NULLS),
        TFRecordIterable(url, columns=WITHOUT_NULLS),
    ):
        assert made.schema == learned.SCHEMA.select(WITHOUT_NULLS)
        found = {int(row["number"]): row for row in made}
        assert len(found) == COUNT
        for i in (0, 1, 2, 3, COUNT - 1):
            wanted = learned.row(i)
            assert {n: plain(found[i][n]) for n in WITHOUT_NULLS} == {
                n: wanted[n] for n in WITHOUT_NULLS
            }
    for kind in (TFRecordMap, TFRecordIterable):
        assert list(kind(url, schema="bytes")) == records(url)
        assert list(kind(foreign)) == records(foreign)
        rows = list(kind(foreign, schema="auto"))
        assert [(int(row["number"]), row["w"].tolist()) for row in rows] == [
            (i, [0.5, i]) for i in range(30)
        ]
        with pytest.raises(ValueError, match='"auto" or "bytes"'):
            kind(url, schema="columns")  # type: ignore[arg-type]


def test_hugging_face(url: str, foreign: str) -> None:
    pytest.importorskip("datasets")
    from tfio_store.hf import iterable_dataset

    dataset = iterable_dataset(url)
    assert tuple(dataset.features) == learned.NAMES
    found = {row["number"]: row for row in dataset}
    assert [found[i] for i in range(COUNT)] == [learned.row(i) for i in range(COUNT)]
    assert [row["record"] for row in iterable_dataset(url, "bytes")] == records(url)
    assert [row["record"] for row in iterable_dataset(foreign)] == records(foreign)
    rows = list(iterable_dataset(foreign, "auto"))
    assert rows == [{"number": i, "w": [0.5, i]} for i in range(30)]


def test_grain(url: str) -> None:
    grain = pytest.importorskip("grain")
    source = tfs.RecordSource(url)
    schema = tfs.infer_schema(url)
    dataset = (
        grain.MapDataset.source(source)
        .batch(64, batch_fn=list)
        .map(lambda batch: tfs.decode_examples(batch, schema))
    )
    numbers = np.concatenate([batch["number"] for batch in dataset])
    assert sorted(numbers.tolist()) == list(range(COUNT))


def test_what_tensorflow_datasets_wrote(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    import json

    from tests.support.framed import framed
    from tfio_store.torch import TFRecordMap

    scalar = {"tensor": {"shape": {}, "dtype": "bool", "encoding": "none"}}
    (tmp_path / "features.json").write_text(
        json.dumps({"featuresDict": {"features": {"x": scalar}}})
    )
    info = {"name": "made", "splits": [{"name": "train", "shardLengths": ["2"]}]}
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    (tmp_path / "made-train.tfrecord-00000-of-00001").write_bytes(
        framed([tfs.encode_example({"x": i}) for i in (0, 1)])
    )
    assert [bool(row["x"]) for row in TFRecordMap(f"{tmp_path}/train")] == [False, True]

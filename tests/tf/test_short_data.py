"""Shards that end before their manifest says: never a silent end."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tests.support.indexes import put_dataset
from tfio_store.dataset.manifest import DatasetManifest, ShardInfo

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import Outcome, outcome  # noqa: E402

pytestmark = pytest.mark.tensorflow

RECORDS = [b"%06d" % i * 50 for i in range(5_000)]
FRAME = 300 + 16


def cut(place: Place) -> str:
    """A dataset whose one shard is cut between two records."""
    with tfs.ShardedWriter(
        place.url("train"), num_shards=1, storage_options=place.storage_options
    ) as writer:
        writer.write_batch(RECORDS)
    name = writer.manifest.shards[0].name
    place.put(name, place.get(name)[: 2_500 * FRAME])
    return place.url("train")


@pytest.mark.parametrize(
    "options", [{}, {"batch_size": 3}, {"batch_size": 100}, {"shuffle": True}, {"shard": (1, 0)}]
)
def test_with_an_index(place: Place, options: dict[str, Any]) -> None:
    url = cut(place)
    found = outcome(
        lambda: tfs.TFRecordDataset(url, storage_options=place.storage_options, **options)
    )
    assert found.error is tf.errors.DataLossError


@pytest.mark.parametrize("options", [{}, {"batch_size": 3}, {"batch_size": 100}])
def test_without_its_index(tmp_path: Path, options: dict[str, Any]) -> None:
    url = cut(Place(str(tmp_path)))
    (shard,) = tfs.open(url).shards
    bare = ShardInfo("train-00000-of-00001.tfrecord", shard.nbytes, 5_000, shard.crc32c or 0)
    put_dataset(url, DatasetManifest((bare,), None))
    with pytest.raises(tfs.TruncatedRecordError, match=f"its manifest.*{2_500 * FRAME}"):
        tfs.TFRecordDataset(url, **options)
    with pytest.warns(tfs.errors.DataLossWarning, match="its manifest"):
        assert outcome(lambda: tfs.TFRecordDataset(url, on_corrupt="skip")) == Outcome(
            RECORDS[:2_500]
        )


def test_beside_a_stream(tmp_path: Path) -> None:
    """One file whose blocks nobody knows makes streams of all."""
    url = cut(Place(str(tmp_path)))
    with tfs.TFRecordWriter(str(tmp_path / "foreign"), "GZIP") as writer:
        writer.write(b"x")
    with pytest.raises(tfs.TruncatedRecordError, match="its manifest"):
        tfs.TFRecordDataset([url, str(tmp_path / "foreign")])


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 100}, {"shuffle": True}])
def test_blocks_that_are_missing_are_skipped_with_a_word(
    tmp_path: Path, compression: str | None, options: dict[str, Any]
) -> None:
    """Cut where a block ends, or the first of its records."""
    records = [b"%06d" % i * 500 for i in range(1_500)]  # three blocks
    with tfs.ShardedWriter(
        str(tmp_path / "train"), num_shards=1, compression=compression
    ) as writer:
        writer.write_batch(records)
    manifest = tfs.RecordReader(str(tmp_path / "train")).dataset.shards[0]
    assert manifest.blocks is not None
    path = tmp_path / writer.manifest.shards[0].name
    cuts = [int(offset) for offset in manifest.blocks.offsets[:-1]]
    for at in [*cuts[::-1], 3_016] if compression is None else cuts[:0:-1]:
        os.truncate(path, at)
        dataset = tfs.TFRecordDataset(str(tmp_path / "train"), on_corrupt="skip", **options)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = outcome(lambda dataset=dataset: dataset)
        assert found.error or any(issubclass(w.category, tfs.errors.DataLossWarning) for w in told)

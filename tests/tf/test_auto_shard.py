"""What tf.distribute makes of a dataset where nobody says how it is shared out."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.support.framed import framed

tf = pytest.importorskip("tensorflow")

from tensorflow.python.data.experimental.ops import distribute  # noqa: E402

import tfio_store as tfs  # noqa: E402
from tfio_store.tf.dataset import streams  # noqa: E402

pytestmark = pytest.mark.tensorflow

FILES, EACH = 5, 20


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for i in range(FILES):
        data = framed([b"%d %04d" % (i, k) for k in range(EACH)])
        (tmp_path / f"{i}").write_bytes(data if i % 2 else gzip.compress(data))
    return [str(tmp_path / f"{i}") for i in range(FILES)]


def share(dataset: Any, policy: str, workers: int, index: int) -> list[bytes]:
    options = tf.data.Options()
    policies = tf.data.experimental.AutoShardPolicy
    options.experimental_distribute.auto_shard_policy = policies[policy]
    shared = distribute._AutoShardDataset(dataset.with_options(options), workers, index)
    return [value for batch in shared.as_numpy_iterator() for value in batch.tolist()]


@pytest.mark.parametrize("policy", ["FILE", "AUTO"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 7},
        {"batch_size": 17},
        {"shuffle": 2, "seed": 1},
        {"shuffle": True, "batch_size": 7},
        {"num_parallel_reads": 2},
        {"num_parallel_reads": 2, "batch_size": 7},
    ],
    ids=str,
)
def test_files_are_shared_out(
    files: list[str], monkeypatch: pytest.MonkeyPatch, policy: str, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(streams, "SMALL", 0)
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    dataset = tfs.TFRecordDataset(files, **options)
    if "batch_size" not in options:
        dataset = dataset.map(tf.identity).batch(7)
    dataset = dataset.prefetch(1)
    for worker in range(2):
        mine = range(worker, FILES, 2)
        found = share(dataset, policy, 2, worker)
        assert sorted(found) == [b"%d %04d" % (i, k) for i in mine for k in range(EACH)]


def test_names_that_come_at_run_time_are_shared_out(files: list[str]) -> None:
    names = tf.data.Dataset.from_tensor_slices(files)
    dataset = tfs.TFRecordDataset(names).batch(7)
    found = [record for worker in range(2) for record in share(dataset, "FILE", 2, worker)]
    assert sorted(found) == [b"%d %04d" % (i, k) for i in range(FILES) for k in range(EACH)]


@pytest.mark.parametrize("options", [{}, {"batch_size": 20}, {"shuffle": True}], ids=str)
def test_that_every_worker_reads_everything_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    with tfs.ShardedWriter(str(tmp_path / "set"), num_shards=2) as writer:
        writer.write_batch([b"x"] * 100)
    cluster = {"chief": ["localhost:1"], "worker": ["localhost:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster}))
    with pytest.warns(RuntimeWarning, match=r"2 workers.*shard=\(2, index\)") as caught:
        dataset = tfs.TFRecordDataset(str(tmp_path / "set"), **options)
    assert caught[0].filename == __file__
    with pytest.raises(tf.errors.NotFoundError):
        share(dataset, "FILE", 2, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tfs.TFRecordDataset(str(tmp_path / "set"), shard=(2, 0), **options)

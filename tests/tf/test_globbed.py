"""TensorFlow lists ``train-*`` after an overwrite, a copy or a salvage in place, and reads the new
records; datasets of ours that were made before go on with the old ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.servers.place import Place  # noqa: E402

pytestmark = pytest.mark.tensorflow

OLD, NEW = [b"old%03d" % i for i in range(300)], [b"new%03d" % i for i in range(200)]


def written(url: str, records: list[bytes], if_exists: Any = "overwrite", **how: Any) -> None:
    with tfs.ShardedWriter(url, num_shards=3, if_exists=if_exists, **how) as writer:
        writer.write_batch(records)


def job(url: str) -> None:
    with tfs.WriteJob(url, if_exists="overwrite") as job:
        job.commit([job.write(NEW[i::2], order=i) for i in range(2)])


def copy_in_place(url: str) -> None:
    tfs.copy(url, url, num_shards=2, if_exists="overwrite")


def salvage_in_place(url: str) -> None:
    tfs.salvage(url, url, if_exists="overwrite")


def converted(url: str) -> None:
    table = Path(url).with_name("more.jsonl")
    table.write_text('{"x": 1}\n{"x": 2}\n')
    tfs.convert(table, url, if_exists="overwrite")


CHANGES: dict[str, tuple[Callable[[str], object], list[bytes] | None]] = {
    "overwrite": (lambda url: written(url, NEW), NEW),
    "job": (job, NEW),
    "copy": (copy_in_place, OLD),
    "salvage": (salvage_in_place, OLD),
    "convert": (converted, None),
    "append": (lambda url: written(url, NEW, "append"), sorted([*OLD, *NEW])),
}


@pytest.mark.parametrize("change", CHANGES)
def test_tensorflow_finds_the_new_records(tmp_path: Path, change: str) -> None:
    url = str(tmp_path / "train")
    written(url, OLD, "error")
    changed, expected = CHANGES[change]
    changed(url)
    files = tf.data.Dataset.list_files(f"{url}-*")
    found = sorted(tf.data.TFRecordDataset(files).as_numpy_iterator())
    assert found == sorted(tfs.RecordReader(url))
    assert expected is None or found == expected
    assert sorted(tfs.TFRecordDataset(f"{url}-*").as_numpy_iterator()) == found
    listed = tfs.list_files(f"{url}-*")
    assert sorted(tfs.TFRecordDataset(listed).as_numpy_iterator()) == found


@pytest.mark.parametrize("compression", [None, "GZIP"])
@pytest.mark.parametrize("how", [{}, {"batch_size": 7}, {"shuffle": True, "seed": 1}])
def test_a_dataset_that_was_made_before_goes_on(
    tmp_path: Path, compression: str | None, how: dict[str, Any]
) -> None:
    url = str(tmp_path / "train")
    written(url, OLD, "error", compression=compression)
    dataset = tfs.TFRecordDataset(url, **how)
    flat = dataset.unbatch() if "batch_size" in how else dataset
    iterator = flat.as_numpy_iterator()
    first = next(iterator)
    written(url, NEW, compression=compression)
    assert sorted([first, *iterator]) == OLD
    assert sorted(flat.as_numpy_iterator()) == OLD
    assert sorted(tfs.TFRecordDataset(url).as_numpy_iterator()) == NEW
    written(url, [b"newer"], keep_replaced=0)
    tfs.clean(url, keep_replaced=False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="was replaced"):
        list(flat.as_numpy_iterator())


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_dataset_of_a_bucket_goes_on(s3: Place, compression: str | None) -> None:
    url = s3.url("ds/train")
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    written(url, OLD, "error", compression=compression, **options)
    dataset = tfs.TFRecordDataset(url, **options)
    iterator = dataset.as_numpy_iterator()
    first = next(iterator)
    written(url, NEW, compression=compression, **options)
    assert sorted([first, *iterator]) == OLD
    assert sorted(dataset.as_numpy_iterator()) == OLD
    pattern = tfs.TFRecordDataset(s3.url("ds/train-*"), **options)
    assert sorted(pattern.as_numpy_iterator()) == NEW

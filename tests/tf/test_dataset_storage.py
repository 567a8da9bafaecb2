"""`TFRecordDataset` and `list_files` on every kind of storage, and of what was opened there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.long import first

tf = pytest.importorskip("tensorflow")

import tfio_store as tfs  # noqa: E402
from tests.tf.oracle import Outcome, outcome  # noqa: E402

pytestmark = pytest.mark.tensorflow
VECTORS = Path(__file__).parent.parent / "vectors"
ENDINGS = {"": "", "GZIP": ".gz", "ZLIB": ".zz"}


@pytest.mark.parametrize("compression", first(1, ENDINGS))
def test_on_any_storage(place: Place, compression: str) -> None:
    name = f"many.tfrecord{ENDINGS[compression]}"
    url = place.put(f"some/{name}", (VECTORS / name).read_bytes())
    native = outcome(lambda: tf.data.TFRecordDataset(str(VECTORS / name), compression))
    options: dict[str, Any] = {"storage_options": place.storage_options}
    assert outcome(lambda: tfs.TFRecordDataset(url, **options)) == native
    assert outcome(lambda: tfs.TFRecordDataset(url, compression, **options)) == native
    pattern = place.url("some/*")
    assert outcome(lambda: tfs.TFRecordDataset(pattern, compression, **options)) == native
    missing = outcome(lambda: tfs.TFRecordDataset(place.url("some/none"), **options))
    assert missing == Outcome([], tf.errors.NotFoundError)


def test_remote_files_without_an_index_are_read_once(place: Place) -> None:
    records = [b"%d" % i * 1000 for i in range(300)]
    url = place.put("foreign", framed(records))
    options: dict[str, Any] = {
        "storage_options": place.storage_options,
        "batch_size": 7,
        "shuffle": True,
    }

    def found(budget: int) -> list[bytes]:
        dataset = tfs.TFRecordDataset(url, memory_budget=budget, **options)
        return sorted(record for batch in dataset for record in batch.numpy())

    assert found(1 << 20) == sorted(records)
    if not url.startswith("s3://"):
        return  # where walking costs little
    with pytest.warns(RuntimeWarning, match="no index.*build_index"):
        assert found(1 << 17) == sorted(records)


def test_what_is_overwritten_is_read_anew(place: Place) -> None:
    """Though a part of a block, and blocks ahead of it, were left by an iterator over the old."""
    options: dict[str, Any] = {"storage_options": place.storage_options, "batch_size": 10}
    for version in (b"a", b"b", b"c"):
        url = place.put("same", framed([version * 5_000] * 3_000))
        dataset = tfs.TFRecordDataset(url, **options)
        assert set(next(iter(dataset)).numpy()) == {version * 5_000}


def test_list_files(place: Place) -> None:
    urls = [place.put(f"d/{name}", b"") for name in ("b.x", "a.x", "c.y", "_m.x")]
    options: dict[str, Any] = {"storage_options": place.storage_options}
    found = [
        name.numpy().decode()
        for name in tfs.list_files(place.url("d/*.x"), shuffle=False, **options)
    ]
    assert found == sorted(urls[:2])
    shuffled = tfs.list_files(place.url("d/*"), seed=1, **options)
    assert sorted(name.numpy().decode() for name in shuffled) == sorted(urls[:3])
    assert shuffled.cardinality() == 3
    with pytest.raises(FileNotFoundError, match=r"\*\.z"):
        tfs.list_files(place.url("d/*.z"), **options)


# --- what was opened before is reached as it was opened, by the ops too ---------------------------


RECORDS = [b"%d" % number for number in range(3_000)]


@pytest.fixture
def url(s3: Place) -> str:
    url = s3.url("train")
    with tfs.ShardedWriter(url, num_shards=2, storage_options=s3.storage_options) as writer:
        writer.write_batch(RECORDS)
    return url


def whole(url: str, storage: tfs.Storage) -> Any:
    return tfs.open(url, storage=storage)


def part(url: str, storage: tfs.Storage) -> Any:
    (found,) = tfs.partitions(url, num_partitions=1, storage=storage)
    return found


def parts(url: str, storage: tfs.Storage) -> Any:
    return tfs.partitions(url, num_partitions=2, storage=storage)


def cut(url: str, storage: tfs.Storage) -> Any:
    return tfs.slice(tfs.open(url, storage=storage), "0%:100%")


@pytest.mark.parametrize("opened", [whole, part, parts, cut])
@pytest.mark.parametrize("how", [{}, {"batch_size": 100}, {"shuffle": True, "batch_size": 100}])
def test_the_ops_reach_it(s3: Place, url: str, opened: Any, how: dict[str, Any]) -> None:
    dataset = tfs.TFRecordDataset(opened(url, s3.storage()), **how)
    found = (
        [record for each in dataset for record in each.numpy().reshape(-1).tolist()]
        if how
        else [record.numpy() for record in dataset]
    )
    assert sorted(found) == sorted(RECORDS)

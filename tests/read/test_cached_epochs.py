"""Epochs after the first one, read from a local cache: no data is asked for at the server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.conftest import s3_options
from tests.servers.moto import SECRET
from tests.servers.place import Place
from tests.servers.shaping_proxy import Shaped

RECORDS = [b"%06d" % i * 20 for i in range(20_000)]


class Bucket:
    """The dataset ``train``, and a proxy that knows who asks for data."""

    def __init__(self, place: Place, proxy: Shaped) -> None:
        self.place, self._proxy, self._seen = place, proxy, 0
        self.url = place.url("train")
        self.options = s3_options(proxy.endpoint)

    def write(self, records: list[bytes], codec: str | None, **how: Any) -> None:
        with tfs.ShardedWriter(
            self.url,
            num_shards=2,
            compression=codec,
            storage_options=self.place.storage_options,
            **how,
        ) as writer:
            writer.write_batch(records)

    def data_requests(self) -> int:
        """Ranges asked for since the last question."""
        ranges = sum("bytes=" in each.line for each in self._proxy.timeline())
        found, self._seen = ranges - self._seen, ranges
        return found


@pytest.fixture
def bucket(s3: Place, shaped: Callable[..., Shaped]) -> Bucket:
    return Bucket(s3, shaped(s3.endpoint))


def by_reader(bucket: Bucket, **options: Any) -> list[bytes]:
    return list(tfs.RecordReader(bucket.url, storage=tfs.Storage(bucket.options, **options)))


def shuffled(bucket: Bucket, **options: Any) -> list[bytes]:
    return list(
        tfs.RecordReader(bucket.url, storage=tfs.Storage(bucket.options, **options)).shuffle(seed=1)
    )


def by_source(bucket: Bucket, **options: Any) -> list[bytes]:
    return tfs.RecordSource(bucket.url, storage=tfs.Storage(bucket.options, **options))[:]


def by_tensorflow(bucket: Bucket, **options: Any) -> list[bytes]:
    dataset = tfs.TFRecordDataset(
        bucket.url, batch_size=256, storage=tfs.Storage(bucket.options, **options)
    )
    return [record for batch in dataset for record in batch.numpy()]


IN_TENSORFLOW = pytest.param(by_tensorflow, marks=pytest.mark.tensorflow)


@pytest.mark.parametrize("codec", [None, "GZIP"])
@pytest.mark.parametrize("read", [by_reader, shuffled, by_source, IN_TENSORFLOW])
def test_the_second_epoch_asks_for_no_data(
    bucket: Bucket,
    tmp_path: Path,
    read: Callable[..., list[bytes]],
    codec: str | None,
    backend: str,
) -> None:
    bucket.write(RECORDS, codec)
    how: dict[str, Any] = {"cache": tmp_path / "cache", "backend": backend}
    assert sorted(read(bucket, **how)) == RECORDS
    assert bucket.data_requests() > 0
    assert sorted(read(bucket, **how)) == RECORDS
    assert bucket.data_requests() == 0


def test_a_dataset_that_was_replaced_is_read_anew(bucket: Bucket, tmp_path: Path) -> None:
    bucket.write(RECORDS, "GZIP")
    assert sorted(by_reader(bucket, cache=tmp_path)) == RECORDS
    bucket.write(RECORDS[::2], "GZIP", if_exists="overwrite")
    assert sorted(by_reader(bucket, cache=tmp_path)) == RECORDS[::2]


def test_a_reader_in_the_midst_of_an_epoch_goes_on(bucket: Bucket, tmp_path: Path) -> None:
    bucket.write(RECORDS, None)
    reader = tfs.RecordReader(bucket.url, storage=tfs.Storage(bucket.options, cache=tmp_path))
    records = iter(reader)
    first = [next(records) for _ in range(7_000)]
    other = tfs.RecordReader(bucket.url, storage=tfs.Storage(bucket.options, cache=tmp_path))
    other.restore(reader.state())
    assert sorted([*first, *other]) == RECORDS


def test_no_credential_gets_into_the_cache(bucket: Bucket, tmp_path: Path) -> None:
    bucket.write(RECORDS, None)
    by_reader(bucket, cache=tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 1
    for path in files:
        for word in (SECRET, bucket.place.root.rpartition("/")[2], "train"):
            assert word not in str(path.relative_to(tmp_path))
            assert word.encode() not in path.read_bytes()


def test_a_cache_that_is_none_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    wrong: Any = 5
    with pytest.raises(TypeError, match="cache= takes"):
        tfs.Storage(cache=wrong)
    with pytest.raises(ValueError, match="path of a local folder"):
        tfs.Storage(cache="s3://b/c")
    with pytest.raises(OSError, match=r"cache='.*cannot be written to"):
        tfs.Storage(cache=tmp_path / "file")

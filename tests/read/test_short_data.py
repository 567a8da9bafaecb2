"""Files that end before they should: never a silent end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.lying_proxy import lying_proxy
from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.indexes import put_dataset
from tfio_store.dataset.folder import Folder, Root
from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.errors import ReplacedError

RECORDS = [b"%06d" % i * 50 for i in range(5_000)]
FRAME = 300 + 16


def committed(place: Place, compression: str | None = None) -> str:
    """The URL of a shard of a dataset "train" with a manifest."""
    with tfs.ShardedWriter(
        place.url("train"),
        num_shards=1,
        compression=compression,
        storage_options=place.storage_options,
    ) as writer:
        writer.write_batch(RECORDS)
    return writer.manifest.shards[0].name


def cut(place: Place, name: str, size: int) -> None:
    place.put(name, place.get(name)[:size])


def read(place: Place, name: str, **options: Any) -> list[bytes]:
    with tfs.RecordReader(
        place.url(name), storage_options=place.storage_options, **options
    ) as reader:
        return list(reader)


@pytest.mark.parametrize("at", [0, 2_500 * FRAME, 2_500 * FRAME + 7])
def test_a_committed_shard_that_was_cut_is_an_error(place: Place, at: int) -> None:
    cut(place, committed(place), at)
    with pytest.raises(tfs.TruncatedRecordError) as error:
        read(place, "train")
    assert "train-00000" in error.value.path
    assert error.value.offset == at // FRAME * FRAME


@pytest.mark.parametrize("at", [0, 2_500 * FRAME, 2_500 * FRAME + 7])
def test_a_committed_shard_that_was_cut_is_a_skipped_region(place: Place, at: int) -> None:
    cut(place, committed(place), at)
    regions: list[Any] = []
    assert read(place, "train", on_corrupt=regions.append) == RECORDS[: at // FRAME]
    assert sum(region.length for region in regions) == len(RECORDS) * FRAME - at // FRAME * FRAME
    report = tfs.verify(place.url("train"), storage_options=place.storage_options)
    assert not report.ok


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB", "ZSTD"])
def test_a_compressed_shard_cut_behind_a_block(place: Place, compression: str) -> None:
    name = committed(place, compression)
    cut(place, name, len(place.get(name)) // 2)
    with pytest.raises(tfs.TruncatedRecordError, match="train-00000"):
        read(place, "train")
    regions: list[Any] = []
    found = read(place, "train", on_corrupt=regions.append)
    assert found == RECORDS[: len(found)]
    assert regions


def test_a_cut_shard_read_in_blocks(place: Place) -> None:
    cut(place, committed(place), 2_500 * FRAME)
    source = tfs.RecordSource(place.url("train"), storage_options=place.storage_options)
    with pytest.raises(tfs.TruncatedRecordError):
        source[[4_999]]
    reader = tfs.RecordReader(place.url("train"), storage_options=place.storage_options)
    with pytest.raises(tfs.TruncatedRecordError):
        list(reader.shuffle(1))


def test_fewer_records_than_the_manifest_counts(place: Place) -> None:
    """The bytes are all there, and hold other records."""
    name = committed(place)
    nbytes = len(place.get(name))
    place.put(name, framed([bytes(nbytes - 32 - 1_000 * FRAME), *RECORDS[:1_000], b""]))
    assert len(place.get(name)) == nbytes
    with pytest.raises(ReplacedError, match="holds other records than its manifest"):
        read(place, "train")
    with pytest.raises(ReplacedError):
        read(place, "train", on_corrupt=lambda region: None)


def manifest_says(place: Place, nbytes: int) -> None:
    """It claims so many bytes of its shard, and has no block table, which would contradict it."""
    manifest = DatasetManifest.from_bytes(
        place.get("_train.manifest.json"), folder=Root(Folder(*place.open()), "")
    )
    (shard,) = manifest.shards
    lying = replace(shard, nbytes=nbytes, blocks=None)
    put_dataset(place.url("train"), replace(manifest, shards=(lying,)), place.storage_options)


@pytest.mark.parametrize("nbytes", [5_000 * FRAME + 1, 1 << 40, 1 << 62])
def test_a_manifest_that_claims_more_bytes_ends(place: Place, nbytes: int) -> None:
    committed(place)
    manifest_says(place, nbytes)
    with pytest.raises(tfs.TruncatedRecordError):
        read(place, "train")
    regions: list[Any] = []
    assert read(place, "train", on_corrupt=regions.append) == RECORDS
    assert sum(region.length for region in regions) == nbytes - 5_000 * FRAME
    with pytest.raises(tfs.TruncatedRecordError):
        tfs.RecordSource(place.url("train"), storage_options=place.storage_options)


@pytest.mark.parametrize("nbytes", [0, 1_000, 5_000 * FRAME // 2])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_manifest_that_claims_fewer_bytes(tmp_path: Path, nbytes: int, policy: str) -> None:
    place = Place(str(tmp_path))
    committed(place)
    manifest_says(place, nbytes)
    with pytest.raises((tfs.ManifestError, tfs.TruncatedRecordError)):
        tfs.RecordSource(place.url("train"))
    for arrange in (list, lambda reader: sorted(reader.shuffle(1))):
        if policy == "skip" and nbytes > 100_000:
            with pytest.warns(tfs.errors.DataLossWarning):
                found = arrange(tfs.RecordReader(place.url("train"), on_corrupt=policy))
            assert found == RECORDS[:2_500]
        else:
            with pytest.raises((tfs.ManifestError, tfs.TruncatedRecordError, ReplacedError)):
                arrange(tfs.RecordReader(place.url("train"), on_corrupt=policy))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB", "ZSTD"])
def test_shuffling_by_a_manifest_that_claims_most_bytes(tmp_path: Path, compression: str) -> None:
    place = Place(str(tmp_path))
    committed(place, compression)
    manifest_says(place, 1 << 62)
    with pytest.raises(tfs.TruncatedRecordError):
        list(tfs.RecordReader(place.url("train")).shuffle(1))


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB", "ZSTD"])
def test_a_manifest_that_claims_no_bytes(tmp_path: Path, compression: str) -> None:
    place = Place(str(tmp_path))
    committed(place, compression)
    manifest_says(place, 0)
    with pytest.raises(tfs.ManifestError, match="0 bytes have no room for 5000 records"):
        read(place, "train", on_corrupt="skip")


@pytest.mark.parametrize("lie", ["capped", "lone-416", "unlabelled", "short", "empty", "shifted"])
@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_reader_on_a_lying_store(s3: Place, lie: str, policy: str) -> None:
    """All records, or an error: under "skip" too, since nothing is damaged."""
    s3.put("x", framed(RECORDS))
    retry = tfs.Retry(attempts=2, base_delay=0.001, max_delay=0.01, timeout=5)
    with lying_proxy(s3.endpoint) as liar:
        for lasting in (False, True):
            liar.lie = lambda lasting=lasting: lie if lasting or liar.ranged % 3 == 0 else None
            options = {**s3.storage_options, "endpoint_url": liar.endpoint}
            reader = tfs.RecordReader(
                s3.url("x"), storage=tfs.Storage(options, retry=retry), on_corrupt=policy
            )
            try:
                assert list(reader) == RECORDS
            except OSError as fault:
                assert fault.filename == s3.url("x")  # noqa: PT017


def test_a_file_cut_while_it_is_indexed(tmp_path: Path) -> None:
    """The header walk ends too."""
    place = Place(str(tmp_path))
    cut(place, committed(place), 100 * FRAME)
    manifest_says(place, 5_000 * FRAME)
    with pytest.raises(tfs.TruncatedRecordError):
        tfs.RecordSource(place.url("train"))

"""A server whose certificate is of an authority that this machine does not know."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.servers.tls import tls
from tfio_store.storage.cloud.bucket_store import BucketStore

RECORDS = [b"%d" % number for number in range(100)]


def read(place: Place, **options: object) -> list[bytes]:
    known = replace(place, storage_options={**place.storage_options, **options})
    with tfs.ShardedWriter(known.url("train"), num_shards=2, storage=known.storage()) as writer:
        writer.write_batch(RECORDS)
    store, path = known.open("train")
    assert isinstance(store, BucketStore)
    assert store.client_of(path).startswith(place.backend)
    return sorted(tfs.RecordReader(known.url("train"), storage=known.storage()))


@pytest.mark.parametrize("way", ["option", "environment"])
def test_the_authority_can_be_named(
    s3: Place, backend: str, tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tls(s3.endpoint, tmp_path) as (endpoint, authority):
        place = s3.through(endpoint, backend)
        if way == "option":
            assert read(place, client_kwargs={"verify": authority}) == sorted(RECORDS)
        else:
            monkeypatch.setenv("AWS_CA_BUNDLE", authority)
            assert read(place) == sorted(RECORDS)


def test_who_does_not_know_it_is_told_so(s3: Place, backend: str, tmp_path: Path) -> None:
    s3.put("train", b"")
    with tls(s3.endpoint, tmp_path) as (endpoint, _):
        place = s3.through(endpoint, backend)
        with pytest.raises(OSError, match=r"VERIFY_FAILED.*AWS_CA_BUNDLE") as error:
            list(tfs.RecordReader(place.url("train"), storage=place.storage()))
    assert error.value.filename == place.url("train")

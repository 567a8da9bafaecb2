"""Objects replaced while they are read: records of one version, or an error; never a mixture."""

from __future__ import annotations

import os
import pickle
import random
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tfio_store.errors import ReplacedError


def records_of(kind: bytes) -> list[bytes]:
    return [b"%s %06d" % (kind, i) * 100 for i in range(12_000)]


@pytest.fixture(params=["local", "memory", "plain", "s3", "gcs", "azure", "s3+obstore"])
def kept(request: pytest.FixtureRequest, tmp_path: Any) -> Place:
    """A place with an object "x" of 12 MB."""
    server, _, backend = request.param.partition("+")
    if backend:
        pytest.importorskip(backend)
    if server in ("local", "plain"):
        place = Place(f"plain://{tmp_path}" if server == "plain" else str(tmp_path))
    else:
        place = request.getfixturevalue(server)
    place.put("x", framed(records_of(b"old")))
    place.backend = backend or "fsspec"
    return place


def replace(place: Place, name: str = "x") -> None:
    """By a new object, as writers do; not into the old one's bytes."""
    store, path = place.open(name)
    output = store.open_output(path)
    output.write(framed(records_of(b"new")))
    output.commit()


def options(place: Place, **more: Any) -> dict[str, Any]:
    return {"storage": place.storage(), **more}


def kinds(records: list[bytes]) -> set[bytes]:
    return {record[:3] for record in records}


@pytest.mark.parametrize("policy", ["raise", "skip"])
def test_a_reader_sees_one_version(kept: Place, policy: str) -> None:
    reader = tfs.RecordReader(
        kept.url("x"), **options(kept, on_corrupt=policy, memory_budget=4 << 20)
    )
    records = iter(reader)
    found = [next(records)]
    replace(kept)
    with pytest.raises(ReplacedError, match="was replaced") as error:
        found.extend(records)
    assert error.value.filename in kept.url("x")
    assert kinds(found) == {b"old"}
    assert kinds(list(tfs.RecordReader(kept.url("x"), **options(kept)))) == {b"new"}


def test_a_source_sees_one_version(kept: Place) -> None:
    source = tfs.RecordSource(kept.url("x"), **options(kept, cache_bytes=0))
    assert source[11_999] == records_of(b"old")[11_999]
    replace(kept)
    with pytest.raises(ReplacedError):
        source[[0, 11_999]]


def test_a_shuffled_reader_sees_one_version(kept: Place) -> None:
    reader = tfs.RecordReader(kept.url("x"), **options(kept)).shuffle(1)
    replace(kept)
    with pytest.raises(ReplacedError):
        list(reader)


@pytest.mark.parametrize("compression", [None, "GZIP"])
def test_a_shard_that_a_manifest_names_is_one_version(
    place: Place, compression: str | None
) -> None:
    records = [random.Random(i).randbytes(1_000) for i in range(12_000)]
    with tfs.ShardedWriter(
        place.url("ds"),
        num_shards=1,
        compression=compression,
        storage_options=place.storage_options,
    ) as writer:
        writer.write_batch(records)
    (shard,) = writer.manifest.shards
    reader = tfs.RecordReader(
        place.url("ds"), storage_options=place.storage_options, memory_budget=2 << 20
    )
    batches = reader.batches()
    first = next(batches)
    place.put(shard.name, place.get(shard.name)[::-1])
    with pytest.raises(ReplacedError):
        list(batches)
    assert bytes(first[0]) == records[0]


def test_a_pickled_reader_holds_the_version(place: Place) -> None:
    place.put("x", framed(records_of(b"old")))
    reader = tfs.RecordReader(place.url("x"), storage_options=place.storage_options)
    next(iter(reader))
    copy = pickle.loads(pickle.dumps(reader))
    replace(place)
    with pytest.raises(ReplacedError):
        list(copy)


def test_a_local_file_written_in_place(tmp_path: Any) -> None:
    path = tmp_path / "x"
    path.write_bytes(framed(records_of(b"old")))
    reader = tfs.RecordReader(path, memory_budget=2 << 20)
    records = iter(reader)
    next(records)
    with open(path, "r+b") as file:
        file.write(framed(records_of(b"new")))
    os.utime(path, ns=(1, 1))  # the clock of files ticks slowly
    with pytest.raises(ReplacedError):
        list(records)

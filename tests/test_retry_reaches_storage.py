"""Each public function that touches storage takes storage_options, backend and retry, and opens
every store with the retry that it was given."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.storage import Retry, resolve

RETRY = Retry(attempts=2, base_delay=0.01)

NO_STORAGE = {
    "CorruptRecordError", "DataLossError", "DataLossWarning", "DatasetManifest", "Examples",
    "Feature", "Leftovers", "ManifestError", "Progress", "Ragged", "RecordBatch",
    "RecordTooLargeError", "Retry", "Schema", "SchemaError", "ShardInfo", "SkippedRegion",
    "TFIOStoreError", "TruncatedRecordError", "UncertainCommitError", "VerifyReport", "backend",
    "crc32c", "decode_examples", "decode_sequence_examples", "encode_example", "encode_examples",
    "encode_sequence_example", "masked_crc32c",
}  # fmt: skip


def write(url: str, **options: Any) -> None:
    with tfs.ShardedWriter(url, num_shards=2, **options) as writer:
        writer.write({"x": 1})
        writer.write({"x": 2})


def write_one(url: str, **options: Any) -> None:
    with tfs.TFRecordWriter(url, **options) as writer:
        writer.write(tfs.encode_example({"x": 1}))


def write_by_job(url: str, **options: Any) -> None:
    job = tfs.WriteJob(url, num_shards=1, **options)
    job.commit([job.write_shard(0, [b"x"])])


def scheme_of(url: str) -> str:
    """One that only this test mounts, served by fsspec's memory."""
    import fsspec
    from fsspec.implementations.memory import MemoryFileSystem

    scheme = f"mem{uuid.uuid4().hex[:8]}"
    fsspec.register_implementation(scheme, MemoryFileSystem)
    return scheme


def mount(url: str, **options: Any) -> None:
    tfs.register_filesystem(scheme_of(url), **options)


def save(url: str, **options: Any) -> None:
    import tensorflow as tf

    tfs.save(tf.data.Dataset.range(3), f"{url}-saved", num_shards=1, **options)


def load(url: str, **options: Any) -> None:
    save(url)
    assert len(list(tfs.load(f"{url}-saved", **options))) == 3


def index(url: str, **options: Any) -> None:
    write_one(f"{url}/raw")
    tfs.build_index(f"{url}/raw", f"{url}/name", **options)


def write_idx(url: str, **options: Any) -> None:
    write_one(f"{url}/raw")
    tfs.write_idx(f"{url}/raw", f"{url}/raw.idx", **options)


CALLS: dict[str, Callable[..., object]] = {
    "RecordReader": lambda url, **o: list(tfs.RecordReader(url, **o)),
    "RecordSource": lambda url, **o: tfs.RecordSource(url, **o)[1],
    "ShardedWriter": lambda url, **o: write(f"{url}-new", **o),
    "TFRecordDataset": lambda url, **o: list(tfs.TFRecordDataset(url, **o)),
    "TFRecordWriter": lambda url, **o: write_one(f"{url}-new", **o),
    "WriteJob": lambda url, **o: write_by_job(f"{url}-new", **o),
    "build_index": index,
    "clean": lambda url, **o: tfs.clean(url, **o),
    "infer_schema": lambda url, **o: tfs.infer_schema(url, **o),
    "list_files": lambda url, **o: list(tfs.list_files(f"{url}-*", **o)),
    "load": load,
    "read_table": lambda url, **o: tfs.read_table(url, **o),
    "register_filesystem": mount,
    "salvage": lambda url, **o: tfs.salvage(url, f"{url}-new", **o),
    "save": save,
    "verify": lambda url, **o: tfs.verify(url, **o),
    "write_idx": write_idx,
    "write_table": lambda url, **o: tfs.write_table({"x": [1, 2]}, f"{url}-new", **o),
}


def test_every_public_name_is_of_one_kind() -> None:
    assert set(tfs.__all__) == set(CALLS) | NO_STORAGE & set(tfs.__all__)


@pytest.fixture
def retries(monkeypatch: pytest.MonkeyPatch) -> list[Retry]:
    """The retry of each store that was asked for since."""
    found: list[Retry] = []
    made = resolve.shared_store

    def counting(factory: Any, scheme: str, options: Any, retry: Retry) -> Any:
        found.append(retry)
        return made(factory, scheme, options, retry)

    monkeypatch.setattr(resolve, "shared_store", counting)
    return found


@pytest.mark.parametrize("name", sorted(CALLS))
def test_the_given_retry_reaches_the_store(
    name: str, retries: list[Retry], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in tfs._TENSORFLOW:
        pytest.importorskip("tensorflow")
    taken = inspect.signature(getattr(tfs, name)).parameters
    assert {"storage_options", "backend", "retry"} <= set(taken)
    url = f"memory://test-{uuid.uuid4().hex[:16]}/train"
    write(url)
    CALLS[name](url)
    default = {*retries}
    assert default == {Retry()}
    del retries[:]
    url = f"memory://test-{uuid.uuid4().hex[:16]}/train"
    write(url)
    before = len(retries)
    CALLS[name](url, retry=RETRY)
    used = retries[before:]
    assert RETRY in used
    if name not in ("load", "build_index", "write_idx"):  # which are given what was written before
        assert {*used} == {RETRY}

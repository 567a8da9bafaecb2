"""Each public function that touches storage takes storage_options, backend and retry, refuses wrong
ones, and opens every store with all three."""

from __future__ import annotations

import inspect
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.storage import Access, Retry, access, open_store

NO_STORAGE = {
    "Conversion", "CorruptRecordError", "DataLossError", "DataLossWarning", "DatasetDiff",
    "DatasetInfo", "DatasetManifest", "DatasetStats", "Diagnosis", "Examples", "Feature",
    "FeatureStats", "Finding", "Leftovers", "LocalCache", "ManifestError", "Mixture",
    "NoRecordsError", "Nullable",
    "Partition", "Progress", "ProgressBar", "Ragged",
    "ReadingSpeed", "RecordBatch", "RecordTooLargeError", "Report",
    "Retry", "Schema", "SchemaError", "ShardCount", "ShardFacts", "ShardInfo", "SkippedRegion",
    "Slice", "TFIOStoreError", "TaskResult", "TaskWriter", "TruncatedRecordError",
    "UncertainCommitError", "VerifyReport", "backend", "crc32c",
    "decode_examples", "decode_sequence_examples", "encode_example", "encode_examples",
    "encode_image", "encode_sequence_example", "masked_crc32c", "mix_datasets", "reshard_state",
    "slice",
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
    "mix": lambda url, **o: list(tfs.mix({url: 1}, **o)),
    "RecordSource": lambda url, **o: tfs.RecordSource(url, **o)[1],
    "ShardedWriter": lambda url, **o: write(f"{url}-new", **o),
    "TFRecordDataset": lambda url, **o: list(tfs.TFRecordDataset(url, **o)),
    "TFRecordWriter": lambda url, **o: write_one(f"{url}-new", **o),
    "WriteJob": lambda url, **o: write_by_job(f"{url}-new", **o),
    "arrow_dataset": lambda url, **o: tfs.arrow_dataset(url, **o).to_table(),
    "build_index": index,
    "clean": lambda url, **o: tfs.clean(url, **o),
    "count": lambda url, **o: tfs.count(url, **o),
    "count_shards": lambda url, **o: tfs.count_shards(url, **o),
    "convert": lambda url, **o: tfs.convert(url, f"{url}.jsonl", **o),
    "copy": lambda url, **o: tfs.copy(url, f"{url}-new", num_shards=1, **o),
    "diff": lambda url, **o: tfs.diff(url, url, **o),
    "diagnose": lambda url, **o: tfs.diagnose(url, **o),
    "info": lambda url, **o: tfs.info(url, **o),
    "infer_schema": lambda url, **o: tfs.infer_schema(url, **o),
    "iter_tables": lambda url, **o: tfs.iter_tables(url, **o).read_all(),
    "list_files": lambda url, **o: list(tfs.list_files(f"{url}-*", **o)),
    "load": load,
    "read_table": lambda url, **o: tfs.read_table(url, **o),
    "register_filesystem": mount,
    "partitions": lambda url, **o: [list(p.reader()) for p in tfs.partitions(url, **o)],
    "measure": lambda url, **o: tfs.measure(url, seconds=0.01, **o),
    "report": lambda url, **o: tfs.report(url, **o).save(f"{url}.html", **o),
    "salvage": lambda url, **o: tfs.salvage(url, f"{url}-new", **o),
    "save": save,
    "stats": lambda url, **o: tfs.stats(url, **o),
    "verify": lambda url, **o: tfs.verify(url, **o),
    "write_idx": write_idx,
    "write_table": lambda url, **o: tfs.write_table({"x": [1, 2]}, f"{url}-new", **o),
}


def test_every_public_name_is_of_one_kind() -> None:
    assert set(tfs.__all__) == set(CALLS) | NO_STORAGE & set(tfs.__all__)


GIVEN = Access({"mark": 1}, Retry(attempts=2, base_delay=0.01), "obstore")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Access]:
    """With what each store was asked for since."""
    found: list[Access] = []

    def counting(url: Any, options: Any, *, retry: Any, backend: str) -> Any:
        found.append(Access(options, retry, backend))
        return open_store(url, options, retry=retry, backend=backend)

    monkeypatch.setattr(access, "open_store", counting)
    return found


def new_url() -> str:
    return f"memory://test-{uuid.uuid4().hex[:16]}/train"


@pytest.fixture(params=sorted(CALLS))
def name(request: pytest.FixtureRequest) -> str:
    if request.param in tfs._TENSORFLOW:
        pytest.importorskip("tensorflow")
    return str(request.param)


def test_all_three_reach_every_store(name: str, opened: list[Access]) -> None:
    url = new_url()
    write(url)
    CALLS[name](url)
    assert all(each == Access() for each in opened)
    url = new_url()
    write(url)
    del opened[:]
    CALLS[name](url, **GIVEN.arguments)
    assert GIVEN in opened
    if name in ("load", "build_index", "write_idx"):  # which are given what was written before
        opened = [each for each in opened if each != Access()]
    if name == "register_filesystem":  # folders are fsspec's, whoever carries the bytes
        opened = [each for each in opened if each.backend == "obstore"]
    assert all(each == GIVEN for each in opened)


@pytest.mark.parametrize(
    ("argument", "wrong", "kind", "text"),
    [
        ("storage_options", 5, TypeError, "storage_options= takes a dict"),
        ("storage_options", "key=1", TypeError, "storage_options= takes a dict"),
        ("retry", 3, TypeError, "retry= takes a tfio_store.Retry"),
        (
            "backend",
            "boto3",
            ValueError,
            "backend='boto3': pass one of 'fsspec', 'obstore', ",
        ),
        ("backend", None, ValueError, "backend=None: pass one of"),
    ],
)
def test_wrong_ones_are_refused_by_name(
    name: str, argument: str, wrong: object, kind: type[Exception], text: str
) -> None:
    assert {"storage_options", "backend", "retry"} <= set(
        inspect.signature(getattr(tfs, name)).parameters
    )
    url = new_url()
    write(url)
    with pytest.raises(kind, match=re.escape(text)):
        CALLS[name](url, **{argument: wrong})


def test_salvage_writes_its_target_as_it_was_told(opened: list[Access]) -> None:
    url = new_url()
    write(url)
    del opened[:]
    tfs.salvage(url, f"{url}-new", target_options={"other": 2}, **GIVEN.arguments)
    target = Access({"other": 2}, GIVEN.retry, GIVEN.backend)
    assert opened[0] == GIVEN
    assert target in opened
    assert all(each in (GIVEN, target) for each in opened)


def test_credentials_are_not_shown() -> None:
    assert "S3CR3T" not in repr(Access({"secret": "S3CR3T"}))

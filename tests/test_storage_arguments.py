"""Each public function that touches storage takes `storage_options=`, or in its place `storage=`,
refuses wrong ones, and opens every store as it was told."""

from __future__ import annotations

import inspect
import pickle
import re
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tfio_store.dataset.resolver import Resolver
from tfio_store.storage import Retry, Storage, open_store, storage as opening

NO_STORAGE = {
     "CorruptRecordError", "DataLossError",
     "DatasetManifest",    "Feature",
       "LocalCache", "ManifestError",
     "Nullable",
    "Packing",
    "Partition",  "ProgressBar", "Ragged",
    "RecordBatch",  "ReplacedError",
    "Retry", "Schema", "SchemaError",    "SkippedRegion",
     "Storage", "TFIOStoreError",   "TruncatedRecordError",
    "accelerate",
      "backend", "crc32c",
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


FEATURES = {"steps": {"x": "int64"}}


def write_episodes(url: str, **options: Any) -> str:
    with tfs.EpisodeWriter(f"{url}-arm/1.0.0", FEATURES, num_shards=2, **options) as writer:
        writer.write({"steps": [{"x": 1}, {"x": 2}]})
    return f"{url}-arm/1.0.0/train"


def read_episodes(url: str, **options: Any) -> None:
    written = write_episodes(url, **options)
    assert len(tfs.Episodes(written, **options)[0]["steps"]["x"]) == 2


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


CALLS: dict[str, Callable[..., object]] = {
    "EpisodeWriter": write_episodes,
    "Episodes": read_episodes,
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
    "convert": lambda url, **o: tfs.convert(url, f"{url}.jsonl", **o),
    "copy": lambda url, **o: tfs.copy(url, f"{url}-new", num_shards=1, **o),
    "diff": lambda url, **o: tfs.diff(url, url, **o),
    "info": lambda url, **o: tfs.info(url, **o),
    "infer_schema": lambda url, **o: tfs.infer_schema(url, **o),
    "iter_tables": lambda url, **o: tfs.iter_tables(url, **o).read_all(),
    "list_files": lambda url, **o: list(tfs.list_files(f"{url}-*", **o)),
    "load": load,
    "read_table": lambda url, **o: tfs.read_table(url, **o),
    "register_filesystem": mount,
    "open": lambda url, **o: list(tfs.RecordReader(tfs.open(url, **o))),
    "partitions": lambda url, **o: [list(p.reader()) for p in tfs.partitions(url, **o)],
    "report": lambda url, **o: tfs.report(url, **o).save(f"{url}.html", **o),
    "salvage": lambda url, **o: tfs.salvage(url, f"{url}-new", **o),
    "save": save,
    "stats": lambda url, **o: tfs.stats(url, **o),
    "verify": lambda url, **o: tfs.verify(url, **o),
    "write_table": lambda url, **o: tfs.write_table({"x": [1, 2]}, f"{url}-new", **o),
    "write_tfds": lambda url, **o: tfs.write_tfds(f"{url}-new", [{"x": 1}], {"x": "int64"}, **o),
}


def test_every_public_name_is_of_one_kind() -> None:
    assert set(tfs.__all__) == set(CALLS) | NO_STORAGE & set(tfs.__all__)


GIVEN = Storage({"mark": 1}, retry=Retry(attempts=2, base_delay=0.01), backend="obstore")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[Storage]:
    """With what each store was asked for since."""
    found: list[Storage] = []

    def counting(url: Any, options: Any, *, retry: Any, backend: str) -> Any:
        found.append(Storage(options, retry=retry, backend=backend))
        return open_store(url, options, retry=retry, backend=backend)

    monkeypatch.setattr(opening, "open_store", counting)
    return found


def new_url() -> str:
    return f"memory://test-{uuid.uuid4().hex[:16]}/train"


@pytest.fixture(params=sorted(CALLS))
def name(request: pytest.FixtureRequest) -> str:
    if request.param in tfs._TENSORFLOW:
        pytest.importorskip("tensorflow")
    return str(request.param)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"storage": GIVEN}, GIVEN),
        ({"storage_options": {"mark": 1}}, Storage({"mark": 1})),
    ],
)
def test_it_reaches_every_store(
    name: str, given: dict[str, Any], expected: Storage, opened: list[Storage]
) -> None:
    url = new_url()
    write(url)
    del opened[:]
    CALLS[name](url, **given)
    assert expected in opened
    if name in ("load", "build_index", "write_idx"):  # which are given what was written before
        opened = [each for each in opened if each != Storage()]
    if name == "register_filesystem":  # folders are fsspec's, whoever carries the bytes
        opened = [each for each in opened if each.backend == expected.backend]
    assert all(each == expected for each in opened)


NAMES_ONLY = {
    "EpisodeWriter", "Episodes", "ShardedWriter", "TFRecordWriter", "WriteJob", "build_index",
    "clean", "diagnose", "list_files", "load", "register_filesystem", "save", "write_idx",
    "write_table", "write_tfds",
}  # fmt: skip
"""These write, or take no source."""


@pytest.mark.parametrize("many", [False, True])
def test_what_was_opened_is_opened_once(
    name: str, many: bool, opened: list[Storage], monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NAMES_ONLY or (many and name in ("diff", "mix")):
        pytest.skip("takes no list of sources" if many else "takes no source")
    url = new_url()
    write(url)
    source: Any = tfs.open(url, storage=GIVEN)
    assert source.num_records == 2
    monkeypatch.setattr(Resolver, "resolve", lambda self, names: [*map(self._of_part, names)])
    del opened[:]
    CALLS[name](Many([source]) if many else source)
    page = [Storage()] * (name == "report")  # which is saved elsewhere
    assert [each for each in opened if each != GIVEN] == page


class Many(list[Any]):
    """A list of sources; as text it is the first, of which the calls make other names."""

    def __str__(self) -> str:
        return str(self[0])


def test_nothing_else_of_the_bundle_is_an_argument(name: str) -> None:
    taken = set(inspect.signature(getattr(tfs, name)).parameters)
    assert {"storage_options", "storage"} <= taken
    assert not {"retry", "backend", "cache", "target_options", "other_options"} & taken


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"storage_options": 5}, TypeError, "storage_options= takes a dict"),
        ({"storage_options": "key=1"}, TypeError, "storage_options= takes a dict"),
        ({"storage": {"key": 1}}, TypeError, "storage= takes a tfio_store.Storage, not dict"),
        (
            {"storage": Storage(), "storage_options": {"secret": "S3CR3T"}},
            ValueError,
            "pass either storage_options= or storage=, not both",
        ),
    ],
)
def test_wrong_ones_are_refused_by_name(
    name: str, given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    url = new_url()
    write(url)
    with pytest.raises(kind, match=re.escape(text)) as error:
        CALLS[name](url, **given)
    assert "S3CR3T" not in str(error.value)


TARGET = Storage({"other": 2}, retry=Retry(attempts=3))
TARGETS: dict[str, Callable[..., object]] = {
    "convert": lambda url, **o: tfs.convert(url, f"{url}.jsonl", target_storage=TARGET, **o),
    "copy": lambda url, **o: tfs.copy(url, f"{url}-new", target_storage=TARGET, **o),
    "diff": lambda url, **o: tfs.diff(url, url, other_storage=TARGET, **o),
    "salvage": lambda url, **o: tfs.salvage(url, f"{url}-new", target_storage=TARGET, **o),
}


@pytest.mark.parametrize("call", sorted(TARGETS))
def test_the_other_side_is_reached_as_it_was_told(call: str, opened: list[Storage]) -> None:
    url = new_url()
    write(url)
    del opened[:]
    TARGETS[call](url, storage=GIVEN)
    assert GIVEN in opened
    assert TARGET in opened
    assert all(each in (GIVEN, TARGET) for each in opened)


@pytest.mark.parametrize("call", sorted(TARGETS))
def test_the_other_side_takes_a_storage(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_url()
    write(url)
    monkeypatch.setitem(globals(), "TARGET", {"other": 2})
    with pytest.raises(TypeError, match=r"(target|other)_storage= takes a tfio_store.Storage"):
        TARGETS[call](url)


class TestStorage:
    def test_credentials_are_not_shown(self, tmp_path: Path) -> None:
        shown = repr(Storage({"secret": "S3CR3T"}, retry=Retry(attempts=3), cache=tmp_path))
        assert "S3CR3T" not in shown
        assert shown.startswith("Storage({'secret': ...}, retry=Retry(attempts=3,")
        assert repr(Storage()) == "Storage()"

    def test_it_is_a_value(self) -> None:
        options = {"mark": 1}
        made = Storage(options, backend="obstore")
        options["mark"] = 2
        assert made.options == {"mark": 1}
        assert made == pickle.loads(pickle.dumps(made)) == Storage({"mark": 1}, backend="obstore")
        assert hash(made) == hash(Storage({"mark": 1}, backend="obstore"))
        assert made != Storage({"mark": 1})
        with pytest.raises(AttributeError):
            setattr(made, "backend", "fsspec")  # noqa: B010

    @pytest.mark.parametrize(
        ("wrong", "kind", "text"),
        [
            ({"options": 5}, TypeError, "options= takes a dict of options, not int"),
            ({"retry": 3}, TypeError, "retry= takes a tfio_store.Retry, not int"),
            (
                {"backend": "boto3"},
                ValueError,
                "backend='boto3': pass one of 'auto', 'obstore', 'fsspec'",
            ),
            ({"backend": None}, ValueError, "backend=None: pass one of"),
            ({"cache": 5}, TypeError, "cache= takes"),
        ],
    )
    def test_wrong_arguments(self, wrong: Any, kind: type[Exception], text: str) -> None:
        with pytest.raises(kind, match=re.escape(text)):
            Storage(**wrong)

"""An HTTP client repeats a request by itself, and the answer to the second copy counts for nothing:
the first one is still under way, over a real wire."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.chaos.sites import bad_line
from tests.servers.place import Place
from tfio_store.errors import UncertainCommitError

OLD, NEW = [b"old0", b"old1"], [b"new0", b"new1", b"new2"]


@contextmanager
def overtaken(place: Place, pattern: str) -> Iterator[tuple[Place, Callable[..., None]]]:
    """The place over a line that resets the connection of requests of that name, and refuses their
    repetition. The first copy arrives when the second thing is called, which waits for what it
    brings about: a writer is through by then, however slow the machine."""

    def arrive(what: Callable[[], bool]) -> None:
        release.touch()
        until = time.monotonic() + 60
        while not what() and time.monotonic() < until:
            time.sleep(0.02)

    with tempfile.TemporaryDirectory() as folder:
        release = Path(folder, "release")
        line = bad_line(place, p_overtaken=1.0, late_until=str(release), only=pattern)
        with line as faulty:
            yield faulty, arrive


def write(place: Place, records: list[bytes], **options: Any) -> None:
    url, num_shards = place.url("ds/train"), options.pop("num_shards", 1)
    storage = tfs.Storage(place.storage_options, backend=options.pop("backend", "fsspec"))
    options |= {"storage": storage, "memory_budget": 16 << 20}
    with tfs.ShardedWriter(url, num_shards=num_shards, **options) as writer:
        writer.write_batch(records)


def read(place: Place) -> list[bytes]:
    url = place.url("ds/train")
    return list(tfs.RecordReader(url, storage_options=place.storage_options))


def clean(place: Place) -> None:
    url = place.url("ds/train")
    tfs.clean(url, older_than=0, keep_replaced=False, storage_options=place.storage_options)


@pytest.mark.parametrize(
    ("site", "if_exists", "backend"),
    [
        ("s3", "error", "fsspec"),
        ("s3", "overwrite", "obstore"),
        ("ceph", "append", "fsspec"),
        ("azure", "overwrite", "fsspec"),
    ],
)  # on Google Cloud Storage objects are POSTed, and clients don't repeat that
def test_a_refused_manifest_may_arrive_yet(
    site: str, if_exists: str, backend: str, request: pytest.FixtureRequest
) -> None:
    if backend == "obstore":
        pytest.importorskip("obstore")
    place: Place = request.getfixturevalue(site)
    if if_exists != "error":
        write(place, OLD)
    with overtaken(place, r"^PUT .*/_train\.manifest\.json") as (faulty, arrive):
        with pytest.raises(UncertainCommitError, match="clean"):
            write(faulty, NEW, if_exists=if_exists, backend=backend, keep_replaced=0)
        whole = [*OLD, *NEW] if if_exists == "append" else NEW
        arrive(lambda: "ds/_train.manifest.json" in place.names("ds") and read(place) == whole)
    assert read(place) == whole
    clean(place)
    assert read(place) == whole
    assert len(place.names("ds")) == (4 if if_exists == "append" else 3)


@pytest.mark.parametrize("kind", ["ShardedWriter", "WriteJob"])
def test_a_refused_shard_may_appear_yet(s3: Place, kind: str) -> None:
    """The writer's claim stays, and tells `clean` of it."""
    with overtaken(s3, r"^PUT .*train-00000-of-00001") as (faulty, arrive):
        with pytest.raises(PermissionError):
            if kind == "ShardedWriter":
                write(faulty, NEW)
            else:
                url, options = faulty.url("ds/train"), faulty.storage_options
                with tfs.WriteJob(url, num_shards=1, storage_options=options) as job:
                    job.write_shard(0, NEW)
        arrive(lambda: any("-of-" in name for name in s3.names("ds")))
    late = [name for name in s3.names("ds") if "-of-" in name]
    assert len(late) == 1
    write(s3, OLD)
    assert read(s3) == OLD
    clean(s3)
    assert read(s3) == OLD
    assert not {*late} & {*s3.names("ds")}


def test_a_refused_claim_may_appear_yet(s3: Place) -> None:
    with overtaken(s3, r"^PUT .*_train\.claim") as (faulty, arrive):
        with pytest.raises(PermissionError):
            write(faulty, NEW)
        arrive(lambda: any("claim" in name for name in s3.names("ds")))
    write(s3, OLD)
    assert read(s3) == OLD
    clean(s3)
    assert read(s3) == OLD
    assert len(s3.names("ds")) == 3


def test_refused_copies_may_appear_yet(s3: Place) -> None:
    with overtaken(s3, r"^PUT .*/train-\d") as (faulty, arrive):
        url, options = faulty.url("ds/train"), faulty.storage_options
        job = tfs.WriteJob(url, names="plain", storage_options=options)
        result = job.write(NEW, order=0)
        with pytest.warns(RuntimeWarning, match="patterns do not find all of it yet"):
            job.commit([result])
        arrive(lambda: any("/train-" in name for name in s3.names("ds")))
    assert read(s3) == NEW
    clean(s3)
    assert read(s3) == NEW
    assert len(s3.names("ds")) == 3

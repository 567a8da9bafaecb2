"""What a distant store is asked before the first record comes, and what waits for what."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

import tfio_store as tfs
from tests.conftest import s3_options
from tests.servers.place import Place
from tests.servers.shaping_proxy import Request, Shaped
from tests.support.indexes import all_long
from tfio_store.dataset.folder import Folder
from tfio_store.errors import ManifestError
from tfio_store.storage.store import early

LATENCY_MS = 300
"""Long beside the time in which a busy machine begins requests that do not wait for each other."""


@pytest.fixture
def distant(s3: Place, shaped: Callable[..., Shaped]) -> tuple[Place, Shaped]:
    """A bucket with the dataset ``ds/train``, and the proxy before it."""
    with tfs.ShardedWriter(
        f"{s3.root}/ds/train", num_shards=3, compression="GZIP", storage_options=s3.storage_options
    ) as writer:
        writer.write_batch([b"%d" % i for i in range(100)])
    proxy = shaped(s3.endpoint, ttfb_ms=LATENCY_MS, jitter=0)
    return Place(s3.root, s3_options(proxy.endpoint), proxy.endpoint), proxy


def opened(timeline: Iterable[Request]) -> list[Request]:
    """What was asked before the first data."""
    requests = list(timeline)
    first = next(i for i, each in enumerate(requests) if "bytes=" in each.line)
    return requests[:first]


def round_trips(requests: Iterable[Request]) -> int:
    """The length of the longest chain of requests, each of which began when the one before it was
    answered."""
    chains: list[tuple[float, int]] = []
    for request in sorted(requests, key=lambda each: each.begin):
        before = [length for answered, length in chains if answered <= request.begin]
        assert request.answered is not None
        chains.append((request.answered, 1 + max(before, default=0)))
    return max((length for _, length in chains), default=0)


def first_by_reader(url: str, options: dict[str, Any]) -> bytes:
    return next(iter(tfs.RecordReader(url, storage_options=options)))


def first_by_source(url: str, options: dict[str, Any]) -> bytes:
    return tfs.RecordSource(url, storage_options=options)[0]


def first_by_tensorflow(url: str, options: dict[str, Any]) -> bytes:
    dataset = tfs.TFRecordDataset(url, storage_options=options, batch_size=10)
    found: bytes = next(iter(dataset)).numpy()[0]
    return found


WAYS = [
    (first_by_reader, 1),
    (first_by_source, 1),
    pytest.param(first_by_tensorflow, 2, marks=pytest.mark.tensorflow),
]


@pytest.mark.parametrize(("first", "most"), WAYS)
def test_a_dataset_is_opened_in_two_round_trips(
    distant: tuple[Place, Shaped], first: Callable[..., bytes], most: int
) -> None:
    place, proxy = distant
    assert first(f"{place.root}/ds/train", place.storage_options) == b"0"
    before = opened(proxy.timeline())
    assert round_trips(before) <= most, before
    assert sum(each.line.endswith("_train.index") for each in before) == 1


@pytest.mark.parametrize(("first", "most"), WAYS)
def test_a_folder_is_opened_in_three(
    distant: tuple[Place, Shaped], first: Callable[..., bytes], most: int
) -> None:
    place, proxy = distant
    assert first(f"{place.root}/ds", place.storage_options) == b"0"
    assert round_trips(opened(proxy.timeline())) <= most + 2


def test_a_shard_that_is_named_as_a_file_finds_its_blocks_in_two(
    distant: tuple[Place, Shaped],
) -> None:
    place, proxy = distant
    assert (
        first_by_source(f"{place.root}/ds/train-00000-of-00003.tfrecord", place.storage_options)
        == b"0"
    )
    before = opened(proxy.timeline())
    assert round_trips(before) <= 2
    assert len(before) == 3


def test_files_are_not_looked_for_as_datasets(distant: tuple[Place, Shaped]) -> None:
    place, proxy = distant
    for name in ("a.tfrecord", "b.tfrecord"):
        place.put(name, b"")
    tfs.RecordReader(
        [f"{place.root}/{n}.tfrecord" for n in "ab"], storage_options=place.storage_options
    )
    assert {each.line.split()[0] for each in proxy.timeline() if "a.tf" in each.line} <= {
        "HEAD",
        "PUT",
    }
    assert not [each for each in proxy.timeline() if "manifest" in each.line]


@pytest.mark.parametrize("stays", [False, True])
def test_an_index_of_another_generation_is_read_again(
    memory: Place, monkeypatch: pytest.MonkeyPatch, stays: bool
) -> None:
    """As it comes if the question for it was faster than a commit, and that for the manifest was
    not."""
    for name, count in (("train", 50), ("other", 60)):
        tfs.write_table({"x": list(range(count))}, memory.url(name))
    other, asked, read = memory.get("_other.index"), 0, Folder.read

    def mixed(folder: Folder, name: str, **limits: int) -> tuple[bytes, str | None] | None:
        nonlocal asked
        asked += name == "_train.index"
        if name == "_train.index" and (asked == 1 or stays):
            return other, None
        return read(folder, name, **limits)

    monkeypatch.setattr(Folder, "read", mixed)
    if stays:
        with pytest.raises(ManifestError, match="not a page of this dataset"):
            tfs.RecordSource(memory.url("train"))
    else:
        assert len(tfs.RecordSource(memory.url("train"))) == 50
    assert asked == 2


def test_a_question_that_nobody_waits_for_does_not_keep_the_process() -> None:
    program = """
import time
from tfio_store.storage.store import early
class Far:
    in_flight, lists_cheaply = 16, True
early(Far(), time.sleep, 600)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_only_a_store_of_buckets_is_asked_early() -> None:
    class Page:
        in_flight, lists_cheaply = 16, False

    asked: list[int] = []
    answer = early(cast(Any, Page()), asked.append, 1)
    assert not asked
    answer()
    assert asked == [1]


def test_a_long_dataset_takes_two_round_trips_more(
    s3: Place, shaped: Callable[..., Shaped], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page of its list, and a block table."""
    all_long(monkeypatch)
    with tfs.ShardedWriter(
        f"{s3.root}/ds/train", num_shards=3, compression="GZIP", storage_options=s3.storage_options
    ) as writer:
        writer.write_batch([b"%d" % i for i in range(100)])
    proxy = shaped(s3.endpoint, ttfb_ms=LATENCY_MS, jitter=0)
    assert first_by_source(f"{s3.root}/ds/train", s3_options(proxy.endpoint)) == b"0"
    # Nobody waits for the index of a short dataset, which is asked for early and is not there.
    waited = [each for each in proxy.timeline() if "_train.index%2F" not in each.line]
    assert round_trips(opened(waited)) <= 1, waited
    assert round_trips(waited) <= 4, waited

"""What a dataset in a bucket is asked for, request by request, as its server writes them down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.requests import Bucket, Request, steps, told, write
from tfio_store.dataset.listed_shards import ListedShards

NO_FILE = "a file of this name (missing)"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Bucket:
    return Bucket(tmp_path_factory.mktemp("requests"))


@pytest.fixture(scope="module")
def served(bucket: Bucket) -> Iterator[dict[str, Any]]:
    with bucket.served() as how:
        yield how


@pytest.fixture(scope="module", params=[None, "GZIP"], ids=["raw", "compressed"])
def long(bucket: Bucket, request: pytest.FixtureRequest) -> tuple[str, bool]:
    """A dataset of 3,000 shards of one block, and whether it is compressed. It takes seconds to
    write: of fewer shards the index is read whole."""
    packed = request.param is not None
    return write(bucket, f"long-{packed}", 3000, compression=request.param), packed


def nbytes(requests: list[Request]) -> int:
    return sum(request.nbytes for request in requests)


def test_the_steps_of_a_long_dataset(
    bucket: Bucket, served: dict[str, Any], long: tuple[str, bool]
) -> None:
    url, packed = long
    opened, record, again, share = steps(bucket, url, served).values()
    # the index of a small dataset is asked for beside the manifest: that saves those a round trip
    assert told(opened) == told(again) == f"{NO_FILE}, index (missing), manifest"
    # the page and the table; of a raw shard of one block the page tells where it lies
    assert told(record) == told(share) == ("block, 2 x index" if packed else "block, index")
    assert nbytes(opened) + nbytes(record) < 20_000
    assert nbytes(again) + nbytes(share) < 20_000


def test_the_steps_of_a_short_dataset(bucket: Bucket, served: dict[str, Any]) -> None:
    found = steps(bucket, write(bucket, "short", 40), served)
    opened, record, again, share = map(told, found.values())
    assert opened == again == f"{NO_FILE}, index, manifest"
    assert (record, share) == ("block", "block")


def test_a_folder_is_listed_once_it_is_known_to_be_no_name(
    bucket: Bucket, served: dict[str, Any]
) -> None:
    folder = write(bucket, "alone", 2).removesuffix("/train")
    for url in (folder, f"{folder}/"):
        open_it = partial(tfs.RecordSource, url, storage_options=served)
        assert sorted(one.what for one in bucket.asked(open_it)) == sorted(
            [NO_FILE, "a listing", "index", "index (missing)", "manifest", "manifest (missing)"]
        )


def test_a_file_of_the_datasets_name_is_the_file(bucket: Bucket, served: dict[str, Any]) -> None:
    url = write(bucket, "both", 2)
    with tfs.TFRecordWriter(str(bucket.folder / "both" / "train")) as writer:
        writer.write(b"the file")
    assert list(tfs.RecordReader(url, storage_options=served)) == [b"the file"]


def test_who_reads_on_has_the_next_blocks_ahead(
    bucket: Bucket, served: dict[str, Any], long: tuple[str, bool]
) -> None:
    url, packed = long
    reader = tfs.RecordReader(url, storage_options=served).shard(1, 100)
    asked = bucket.asked(lambda: list(reader))
    counts = Counter(one.what for one in asked)
    counts.pop("index (missing)", None)  # asked for beside the manifest, when it was opened
    # two for pages, of the first block, and together of all others
    assert counts == {"block": 30, "index": 32 if packed else 2}


def test_all_pages_come_by_few_requests(
    bucket: Bucket, served: dict[str, Any], long: tuple[str, bool]
) -> None:
    dataset = tfs.open(long[0], storage_options=served)
    listed = dataset.shards
    assert isinstance(listed, ListedShards)
    asked = bucket.asked(lambda: len(list(listed.pages.rows())))
    # the index that such a dataset has not was asked for beside its manifest, by `open`
    assert told([one for one in asked if one.what != "index (missing)"]) == "index"

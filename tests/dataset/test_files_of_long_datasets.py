"""Files of a long dataset that are named as files: what is read to know their blocks."""

from __future__ import annotations

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.sharded import numbered, read, sharded
from tfio_store.dataset.source import open_dataset
from tfio_store.storage import Storage

SHARDS = 9


pytestmark = pytest.mark.usefixtures("pages_of_three")


@pytest.fixture
def written(memory: Place) -> Place:
    with sharded(memory, num_shards=SHARDS, compression="GZIP") as writer:
        writer.write_batch(numbered(90))
    return memory


def lists(place: Place) -> list[str]:
    return [name for name in place.names() if "_train.index" in name]


@pytest.mark.parametrize(
    ("name", "shards", "pages"),
    [("ds/train-00004-of-00009.tfrecord", 1, 1), ("ds/train-0000[2-4]-*", 3, 2)],
)
def test_files_take_the_tables_of_what_is_named(
    written: Place, monkeypatch: pytest.MonkeyPatch, name: str, shards: int, pages: int
) -> None:
    counted = Counted(written.open()[0], monkeypatch)
    dataset = open_dataset(written.url(name), Storage())
    found = len(dataset.shards), dataset.num_records, dataset.has_blocks
    assert found == (shards, 10 * shards, True)
    assert len(counted.ranges) == pages + shards


def test_a_number_that_is_no_place_in_the_list(memory: Place) -> None:
    names = [memory.url(f"ds/train-{i:05d}.tfrecord") for i in (7, 5, 0, 1, 99)]
    for name in names:
        with tfs.TFRecordWriter(name) as writer:
            writer.write_batch(numbered(3))
    tfs.build_index(names, save_as=memory.url("ds/train"))
    dataset = open_dataset(memory.url("ds/train-*"), Storage())
    assert (len(dataset.shards), dataset.num_records, dataset.has_blocks) == (5, 15, True)
    with tfs.TFRecordWriter(memory.url("ds/train-00002.tfrecord")) as writer:
        writer.write(b"of nobody")
    assert open_dataset(memory.url("ds/train-*"), Storage()).num_records is None


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_raw_files_are_read_without_their_list(memory: Place, damage: str) -> None:
    with sharded(memory, num_shards=SHARDS) as writer:
        writer.write_batch(numbered(90))
    before = read(memory, "ds/train")
    for name in lists(memory):
        if damage == "cut":
            memory.put(name, memory.get(name)[:60])
        else:
            memory.fs.rm(memory.url(name))
    with pytest.warns(RuntimeWarning, match="without its manifest.*_train.index"):
        assert read(memory, "ds/train-*") == before

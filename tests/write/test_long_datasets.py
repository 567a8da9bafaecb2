"""Datasets whose index is not read whole, here with pages of three shards."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
import tfio_store.dataset.pages as pages_of_lists
import tfio_store.write.parts as parts
from tests.maintain.test_clean import cleaned, die, landed
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.rounds import Rounds
from tests.support.sharded import numbered, read, root, sharded
from tfio_store.dataset.folder import Folder
from tfio_store.errors import ManifestError

PAGE = 3


pytestmark = pytest.mark.usefixtures("pages_of_three")


def append(place: Place, records: list[bytes], **options: Any) -> None:
    options = {"num_shards": 1, "keep_replaced": 0, "if_exists": "append", **options}
    with sharded(place, **options) as writer:
        writer.write_batch(records)


def lists(place: Place) -> list[str]:
    return [name for name in place.names() if "_train.index" in name]


BLOCKS = 4096
"""Bytes of a block, of about two of these records."""


def large(count: int) -> list[bytes]:
    return [b"%d " % i + bytes(2000) for i in range(count)]


CODECS = pytest.mark.parametrize("codec", [None, "GZIP", "ZLIB", "ZSTD"])


@CODECS
def test_there_and_back(place: Place, codec: str | None) -> None:
    records = large(70)
    with sharded(place, num_shards=7, compression=codec, block_bytes=BLOCKS) as writer:
        writer.write_batch(records)
    manifest = writer.manifest
    assert len(root(place)["pages"]) == 3
    assert (len(manifest.shards), manifest.records) == (7, 70)
    assert sum(shard.records for shard in manifest.shards) == 70
    assert manifest.names() == {
        name.removeprefix("ds/") for name in place.names() if "manifest" not in name
    }
    assert sorted(read(place, "ds/train")) == sorted(records)
    source = tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)
    assert [source[i] for i in range(70)] == source[:] == read(place, "ds/train")
    assert pickle.loads(pickle.dumps(source))[[69, 0, 33]] == [source[i] for i in (69, 0, 33)]
    assert tfs.verify(place.url("ds/train"), storage_options=place.storage_options).ok


@CODECS
def test_shares_shuffles_and_states(place: Place, codec: str | None) -> None:
    with sharded(place, num_shards=7, compression=codec, block_bytes=BLOCKS) as writer:
        writer.write_batch(large(70))
    reader = tfs.RecordReader(place.url("ds/train"), storage_options=place.storage_options)
    shares = [record for i in range(3) for record in reader.shard(i, 3)]
    assert sorted(shares) == sorted(reader.shuffle(1).shard(0, 1)) == sorted(large(70))
    whole = list(reader.shuffle(2))
    first = reader.shuffle(2)
    begun = [next(first.__iter__()) for _ in range(25)]
    other = pickle.loads(pickle.dumps(reader.shuffle(2)))
    other.restore(json.loads(json.dumps(first.state())))
    assert begun + list(other) == whole


def test_appends_write_the_last_page_again_and_no_other(place: Place) -> None:
    expected: list[bytes] = []
    for i in range(11):
        records = [b"%d" % i]
        append(place, records)
        expected += records
        assert read(place, "ds/train") == expected
        if i >= PAGE - 1:
            full, rest = divmod(i + 1, PAGE)
            pages = root(place)["pages"]
            assert [page[6] for page in pages] == [PAGE] * full + [rest] * (rest > 0)
    assert len(lists(place)) <= 5  # one for each page, and one that the next append removes
    cleaned(place)
    assert len(lists(place)) == 4
    assert read(place, "ds/train") == expected


def test_what_an_append_reads_and_writes_does_not_grow(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(place.open()[0], monkeypatch)
    written: list[int] = []
    for i in range(12):
        before = set(place.names())
        counted.clear()
        append(place, [b"x"])
        new = set(place.names()) - before
        written.append(sum(len(place.get(name)) for name in new if ".tfrecord" not in name))
        # the last page and its tables, twice, to publish its shards, and to see that they were,
        # where a copy is a read
        assert len(counted.ranges) <= 6 + (i == 2), i
    assert max(written[6:]) <= max(written[3:6])


def test_a_small_dataset_grows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages_of_lists, "WHOLE_BYTES", 600)
    expected: list[bytes] = []
    for i, small in enumerate([True] * 3 + [False] * 4):
        append(place, [b"%d" % i])
        expected.append(b"%d" % i)
        document = root(place)
        assert (len(document["objects"]) == 1) == small, i
        assert (sum(nbytes for _, nbytes in document["objects"]) <= 600) == small
        assert read(place, "ds/train") == expected
    cleaned(place)
    assert {name.removeprefix("ds/") for name in lists(place)} == {
        name for name, _ in root(place)["objects"]
    }


def test_a_page_of_many_tables_is_full(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_TABLES_OF_A_SHARD", 50)
    for i in range(4):
        append(place, [b"%d" % i])
    assert [page[6] for page in root(place)["pages"]] == [2, 2]
    assert read(place, "ds/train") == [b"0", b"1", b"2", b"3"]


def test_tables_and_pages_go_into_several_objects(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_OBJECT_BYTES", 800)
    with sharded(place, num_shards=10) as writer:
        writer.write_batch(numbered(50))
    assert len(lists(place)) == len(root(place)["objects"]) == 2
    assert sorted(read(place, "ds/train")) == sorted(numbered(50))
    assert not cleaned(place).objects


def test_published_pages_leave_many_tables_where_they_are(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_OBJECT_BYTES", 500)
    for letter in (b"a", b"b"):
        with sharded(place, num_shards=7, if_exists="overwrite") as writer:
            writer.write_batch([letter] * 7)
    document = root(place)
    pages, tables = ({page[column] for page in document["pages"]} for column in (0, 4))
    assert pages.isdisjoint(tables)
    append(place, [b"c"])
    assert read(place, "ds/train") == [b"b"] * 7 + [b"c"]


@pytest.mark.parametrize("later", [1, 5])
def test_an_overwrite_removes_all_of_the_old(place: Place, later: int) -> None:
    with sharded(place, num_shards=7) as writer:
        writer.write_batch([b"old"] * 7)
    with sharded(place, num_shards=later, if_exists="overwrite", keep_replaced=0) as writer:
        writer.write_batch([b"new"] * 5)
    cleaned(place)
    assert read(place, "ds/train") == [b"new"] * 5
    assert {name.removeprefix("ds/") for name in place.names()} == {
        *writer.manifest.names(), "_train.manifest.json",
    }  # fmt: skip


def test_readers_of_a_replaced_generation_go_on(place: Place) -> None:
    with sharded(place, num_shards=7) as writer:
        writer.write_batch(numbered(70))
    source = tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)
    with sharded(place, num_shards=5, if_exists="overwrite") as writer:
        writer.write_batch([b"new"] * 5)
    assert sorted(source[:]) == sorted(numbered(70))
    assert read(place, "ds/train") == [b"new"] * 5


def test_of_two_appends_none_is_lost(place: Place) -> None:
    with sharded(place, num_shards=4) as writer:
        writer.write_batch([b"a"] * 4)
    with sharded(place, num_shards=4, if_exists="append", keep_replaced=0) as late:
        late.write_batch([b"c"] * 4)
        append(place, [b"b"])
    assert read(place, "ds/train") == [b"a"] * 4 + [b"b"] + [b"c"] * 4
    cleaned(place)
    assert {name.removeprefix("ds/") for name in place.names()} == {
        *late.manifest.names(), "_train.manifest.json",
    }  # fmt: skip


@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_a_writer_that_died_after_its_commit_is_cleaned_up_behind(
    place: Place, if_exists: str
) -> None:
    with sharded(place) as old:
        old.write_batch([b"old"] * 8)
    writer = sharded(place, if_exists=if_exists, keep_replaced=0)
    writer.write_batch([b"new"] * 8)
    described = landed(writer)
    writer._attempt.commit(described)
    die(writer)
    cleaned(place)
    assert read(place, "ds/train") == ([b"old"] * 8 if if_exists == "append" else []) + [b"new"] * 8
    found = Folder(*place.open("ds")).manifest("_train.manifest.json")
    assert found is not None
    assert found.manifest is not None
    names = {name.removeprefix("ds/") for name in place.names()}
    assert names == {*found.manifest.names(), "_train.manifest.json"}
    assert all(shard.name.startswith("train-") for shard in found.manifest.shards)


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


def _die_before_the_manifest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A first writer puts its shards and their lists, and no manifest."""
    writer = sharded(place)
    writer.write_batch([b"new"] * 8)
    described = landed(writer)
    attempt = writer._attempt
    assert attempt is not None
    monkeypatch.setattr(attempt, "_decide", _die)
    with pytest.raises(KeyboardInterrupt):
        attempt.commit(described)
    die(writer)


def test_a_writer_that_died_while_it_put_its_manifest_is_finished(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _die_before_the_manifest(place, monkeypatch)
    seen = tfs.clean(
        place.url("ds/train"), older_than=0, dry_run=True, storage_options=place.storage_options
    )
    assert not [name for name in seen.objects if "claim" not in name]
    cleaned(place)
    assert read(place, "ds/train") == [b"new"] * 8


def test_a_commit_without_its_index_is_not_finished(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    _die_before_the_manifest(place, monkeypatch)
    place.fs.rm(place.url(next(n for n in place.names() if "_train.index" in n)))
    cleaned(place)
    assert place.names() == []


def test_what_a_copied_manifest_names_is_spared(place: Place) -> None:
    with sharded(place) as writer:
        writer.write_batch(numbered(8))
    before = read(place, "ds/train")
    place.put("ds/_alias.manifest.json", place.get("ds/_train.manifest.json"))
    append(place, [b"more"])
    with sharded(place, if_exists="overwrite", keep_replaced=0) as writer:
        writer.write(b"x")
    cleaned(place)
    assert read(place, "ds/alias") == before


def test_clean_names_a_list_that_is_missing(memory: Place) -> None:
    with sharded(memory) as writer:
        writer.write_batch(numbered(8))
    for name in lists(memory):
        memory.fs.rm(memory.url(name))
    before = memory.names()
    with pytest.raises(ManifestError, match=r"_train\.manifest\.json: an object of its list"):
        cleaned(memory)
    assert memory.names() == before


def test_a_job_commits_its_shards(place: Place) -> None:
    job = tfs.WriteJob(place.url("ds/train"), num_shards=8, storage_options=place.storage_options)
    infos = [job.write_shard(i, [b"%d" % i]) for i in reversed(range(8))]
    again = [job.write_shard(3, [b"3"])]
    manifest = job.commit(infos + again)
    assert manifest == pickle.loads(pickle.dumps(job)).commit(infos)
    assert read(place, "ds/train") == [b"%d" % i for i in range(8)]
    assert {name.removeprefix("ds/") for name in place.names()} == {
        *manifest.names(), "_train.manifest.json",
    }  # fmt: skip


# Tables


def test_a_table_that_is_larger_than_all_that_is_kept_is_read_once(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages_of_lists, "_TABLES_KEPT", 1)
    with sharded(memory, record_positions=True, block_bytes=BLOCKS) as writer:
        writer.write_batch(large(40))
    url = memory.url("ds/train")
    counted = Counted(memory.open()[0], monkeypatch)
    source = tfs.RecordSource(url)
    assert [source[i] for i in range(9, -1, -1)] == read(memory, "ds/train")[9::-1]
    counted.clear()
    reader = tfs.RecordSource(url)
    assert len([reader[i] for i in (9, 5, 2)]) == 3
    assert len(counted.ranges) == 1 + 1 + 3  # the page, the table, and the records
    assert len(reader[[1, 11, 21]]) == 3
    assert len(counted.ranges) <= 5 + 2 * 3 + 1  # a table and a record each, and a page


def test_a_state_of_shuffled_records_is_checked_in_a_few_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path))
    monkeypatch.setattr(pages_of_lists, "_TABLES_KEPT", 1)
    with sharded(place, num_shards=20, compression="GZIP") as writer:
        writer.write_batch(numbered(60))
    url = place.url("ds/train")
    begun = tfs.RecordReader(url).shuffle(1)
    records = iter(begun)
    first = [next(records) for _ in range(25)]
    rounds = Rounds(place.open()[0], monkeypatch)
    other = tfs.RecordReader(url).shuffle(1)
    other.restore(begun.state())
    assert rounds.now <= 12  # the root, seven pages, the tables twice, and where it stands
    assert sorted(first + list(other)) == sorted(numbered(60))


def test_indexed_files_of_others_have_a_long_list(place: Place) -> None:
    names = [f"ds/part-{i}.tfrecord" for i in range(7)]
    for i, name in enumerate(names):
        with tfs.TFRecordWriter(place.url(name), storage_options=place.storage_options) as writer:
            writer.write_batch([b"%d" % i] * 10)
    urls = [place.url(name) for name in names]
    options = place.storage_options
    manifest = tfs.build_index(urls, save_as=place.url("ds/train"), storage_options=options)
    assert (len(manifest.shards), manifest.records) == (7, 70)
    assert read(place, "ds/train") == [b"%d" % i for i in range(7) for _ in range(10)]
    before = place.names()
    with pytest.raises(FileExistsError):
        tfs.build_index(urls, save_as=place.url("ds/train"), storage_options=options)
    assert place.names() == before

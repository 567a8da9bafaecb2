"""`clean`: all that dead writers left, and nothing else."""

from __future__ import annotations

import gc
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_file_writer import pending
from tfio_store.dataset.folder import Folder
from tfio_store.storage import open_store
from tfio_store.storage.aside import aside


def cleaned(place: Place, **options: Any) -> tfs.results.Leftovers:
    options.setdefault("older_than", 0)
    return tfs.clean(place.url("ds/train"), storage_options=place.storage_options, **options)


def die(writer: tfs.ShardedWriter) -> None:
    """What kill -9 does, as far as a store sees it: whatever is under way just stays there."""
    writer._drop = None
    for stream in writer._uploads._streams.values():
        stream._output = None


def dead_writer(place: Place, **options: Any) -> None:
    writer = sharded(place, **options)
    writer.write_batch([bytes(1 << 20)] * 24)
    writer._uploads.drain()
    die(writer)


def landed(writer: tfs.ShardedWriter) -> tfs.DatasetManifest:
    """Its shards are there, and its commit has not begun."""
    return writer._finish()


def begin_upload(place: Place, name: str) -> Any:
    """An upload that has sent something; kept alive by the caller."""
    store, path = open_store(place.url(name), place.storage_options)
    output = store.open_output(path)
    output.write(bytes(9 << 20))
    output.write(bytes(9 << 20))
    return output


def test_claims_are_read_in_the_order_of_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, asked = Place(str(tmp_path)), list[str]()
    for _ in range(8):
        dead_writer(place, if_exists="overwrite")
    plain = Folder.read

    def read(self: Folder, name: str) -> Any:
        asked.append(name)
        return plain(self, name)

    monkeypatch.setattr(Folder, "read", read)
    cleaned(place, dry_run=True)
    claims = [name for name in asked if "claim" in name]
    assert len(claims) >= 8
    assert claims == sorted(claims)


def test_nothing_to_clean(place: Place) -> None:
    assert cleaned(place) == tfs.results.Leftovers((), (), ())
    sharded(place).close()
    before = place.names()
    assert cleaned(place) == tfs.results.Leftovers((), (), ())
    assert place.names() == before


def test_a_dead_writer_before_its_commit(place: Place) -> None:
    writer = sharded(place)
    writer.write(b"x")
    die(writer)
    found = cleaned(place, dry_run=True)
    assert found.objects == (found.objects[0],)
    assert found.objects[0].endswith("ds/_train.claim")
    assert cleaned(place) == found
    assert place.names() == []


def test_a_dead_writer_within_its_commit(place: Place) -> None:
    """Its shards are there under plain names, but no manifest."""
    writer = sharded(place)
    writer.write_batch([b"x"] * 8)
    landed(writer)
    die(writer)
    assert len(place.names()) == 5
    assert len(cleaned(place).objects) == 5
    assert place.names() == []


@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_a_dead_replacement_leaves_the_old(place: Place, if_exists: str) -> None:
    with sharded(place) as old:
        old.write_batch([b"old"] * 8)
    before = place.names()
    writer = sharded(place, if_exists=if_exists)
    writer.write_batch([b"new"] * 8)
    landed(writer)
    die(writer)
    assert len(cleaned(place).objects) == 5
    assert place.names() == before
    assert read(place, "ds/train") == [b"old"] * 8


def test_uploads_of_the_dataset_are_given_up_and_others_not(s3: Place) -> None:
    writer = sharded(s3, if_exists="overwrite", num_shards=1)
    writer.write_batch([bytes(1 << 20)] * 40)
    writer._uploads.drain()
    foreign = begin_upload(s3, "ds/train-notes.bin")
    plain_of_another = begin_upload(s3, "ds/test-00000-of-00001.tfrecord")
    deeper = begin_upload(s3, "ds/more/train-00000-of-00001.tfrecord")
    for _ in range(200):  # parts are sent in the background
        if len(pending(s3)) == 4:
            break
        time.sleep(0.05)
    assert len(pending(s3)) == 4
    assert not cleaned(s3, older_than=3600).uploads
    found = cleaned(s3)
    assert [url.rpartition("/")[2] for url in found.uploads] == ["train-00000-of-00001.tfrecord"]
    assert len(pending(s3)) == 3
    with pytest.raises(OSError, match="train"):  # a writer that lived after all
        writer.close()
    for output in (foreign, plain_of_another, deeper):
        output.abort()
    assert s3.names() == []


def test_uploads_of_shards_that_were_being_set_aside_are_given_up(s3: Place) -> None:
    """A store copies by parts: whoever is killed meanwhile leaves an upload."""
    with sharded(s3) as writer:
        writer.write_batch([b"new"] * 8)
    names = ("train-00000-of-00004.tfrecord", "train-3f9a1c8e0b52-00001.tfrecord")
    begun = [begin_upload(s3, f"ds/{aside(name, 7, 5)}") for name in names]
    other = begin_upload(s3, f"ds/{aside('other-00000-of-00004.tfrecord', 7, 5)}")
    for _ in range(200):
        if len(pending(s3)) == 3:
            break
        time.sleep(0.05)
    assert len(cleaned(s3).uploads) == 2
    assert [upload.path.rpartition("/")[2][:7] for upload in pending(s3)] == ["_other-"]
    for output in (*begun, other):
        output.abort()


def test_files_of_others_stay(place: Place) -> None:
    """Above all what TensorFlow wrote under names like ours."""
    foreign = [
        "ds/train-00000-of-00004.tfrecord",
        "ds/train-00003-of-00004.tfrecord",
        "ds/train.txt",
        "ds/_train.notes",
        "ds/_train.claims",
        "ds/test-00000-of-00004.tfrecord",
        "ds/deeper/_train.claim",
    ]
    for name in foreign:
        place.put(name, b"precious")
    dead_writer(place)  # finds the plain names taken
    cleaned(place)
    assert place.names() == sorted(foreign)


def test_what_a_neighbour_names_stays(tmp_path: Path) -> None:
    """A dataset whose own name looks like a shard's."""
    place = Place(str(tmp_path))
    with sharded(place, "ds/train-00001-of", num_shards=None, max_shard_records=10) as writer:
        writer.write(b"x")
    assert writer.manifest.shards[0].name == "train-00001-of-00000.tfrecord"
    before = place.names()
    die(sharded(place, num_shards=2))
    cleaned(place)
    assert place.names() == before


def test_a_writer_at_work_is_left_alone(place: Place) -> None:
    writers = [sharded(place, num_shards=2) for _ in range(2)]
    for i, writer in enumerate(writers):
        writer.write_batch([b"%d" % i] * 10)
        landed(writer)
    before = place.names()
    found = cleaned(place, older_than=3600)
    assert (found.objects, found.uploads) == ((), ())
    assert len(found.alive) == 2
    assert place.names() == before
    for writer in writers:
        writer.abort()
    assert place.names() == []


def test_a_writer_that_was_cleaned_up_behind_does_not_commit(place: Place) -> None:
    writer = sharded(place, num_shards=None, max_shard_records=5)
    writer.write_batch([b"x"] * 23)
    cleaned(place)
    with pytest.raises(OSError, match=r"claim is gone|ds/train"):
        writer.close()
    assert place.names() == []


def test_an_unreadable_manifest_stops_it(place: Place) -> None:
    dead_writer(place)
    place.put("ds/_train.manifest.json", b"{")
    before = place.names()
    with pytest.raises(tfs.ManifestError):
        cleaned(place)
    assert place.names() == before


@pytest.mark.parametrize(
    "change",
    [
        {"num_shards": 10**30},
        {"num_shards": -1},
        {"template": "{name}{shard.__class__}"},
        {"template": "{shard}"},
        {"template": "{name}" + "{shard}" * 8},  # takes a minute as a pattern
        {"template": "{name}{shard:1500000000d}"},  # takes gigabytes as a name
        {"landing": [["precious.txt", 8, 1], ["../x", 8, 1], ["/etc/passwd", 8, 1]]},
        {"landing": [["_other.index", 8, 1], ["train-00005-of-00004.tfrecord", 8, 1]]},
        {"landing": 5},
        {"landing": [["train-00005-of-00004.tfrecord", None, None]]},
        {"alive": "never"},
        {"alive": 1e400},
        {"state": "committing"},
        {"state": "dead"},
        {"state": "committing", "proposal": {"base": None, "manifest": "{}", "doomed": []}},
        {"generation": "../../x"},
        {"format": None},
    ],
)
def test_a_hostile_claim_removes_no_file_of_others(tmp_path: Path, change: Any) -> None:
    place = Place(str(tmp_path))
    writer = sharded(place)
    claim = json.loads(place.get("ds/_train.claim"))
    die(writer)
    foreign = ["ds/precious.txt", "ds/_other.index", "x", "ds/train-00005-of-00004.tfrecord"]
    foreign.append("ds/train" + "0" * 60)
    for name in foreign:
        place.put(name, b"precious")
    place.put("ds/_train.claim", json.dumps({**claim, **change}).encode())
    cleaned(place)
    assert set(foreign) <= set(place.names())


@pytest.fixture(autouse=True)
def collected() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()


@pytest.mark.parametrize("where", ["local", "s3"])
def test_what_a_killed_export_left_goes_by_the_files_name(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = Place(str(tmp_path)) if where == "local" else request.getfixturevalue("s3")
    options: dict[str, Any] = {"storage_options": place.storage_options}
    left = []
    for name in ("out.csv", "another.csv"):
        store, path = place.open(name)
        output = store.open_output(path)
        output.write(bytes(17 << 20))
        left.append(output)  # nobody commits or aborts it: its writer was killed
    place.put("out.csv", b"an earlier one")
    until = time.monotonic() + 30
    while len(pending(place)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    url = place.url("out.csv")
    if where == "local":  # moto dates all uploads to 2010
        assert tfs.clean(url, **options).uploads == ()  # it may be at work
    assert len(tfs.clean(url, older_than=0, **options).uploads) == 1
    assert [upload.path.rpartition("/")[2] for upload in pending(place)] == ["another.csv"]
    assert place.get("out.csv") == b"an earlier one"
    for output in left:
        output._done = True  # type: ignore[union-attr]

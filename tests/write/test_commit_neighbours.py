"""The commit, `clean` and files of others, or of writers who live."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned, die, landed
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_commit import MANIFEST, write
from tfio_store.storage.local import LocalStore
from tfio_store.write.claim import BEAT_SECONDS


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


# What is somebody else's


def test_overwriting_a_copied_manifest_spares_the_shards_of_the_original(place: Place) -> None:
    write(place, [b"train"] * 8)
    place.put("ds/_alias.manifest.json", place.get(f"ds/{MANIFEST}"))
    with sharded(place, "ds/alias", if_exists="overwrite", keep_replaced=0) as writer:
        writer.write(b"x")
    assert read(place, "ds/train") == [b"train"] * 8
    tfs.clean(place.url("ds/alias"), older_than=0)
    assert read(place, "ds/train") == [b"train"] * 8


def test_overwriting_the_original_spares_what_a_copied_manifest_names(place: Place) -> None:
    write(place, [b"train"] * 8)
    place.put("ds/_alias.manifest.json", place.get(f"ds/{MANIFEST}"))
    write(place, [b"new"], if_exists="overwrite", keep_replaced=0)
    cleaned(place)
    assert read(place, "ds/alias") == [b"train"] * 8


@pytest.mark.parametrize("foreign", ["notes.txt", "sub/keep.bin", "train-00000-of-00009.tfrecord"])
def test_a_manifest_that_names_a_foreign_file_does_not_have_it_deleted(
    place: Place, foreign: str
) -> None:
    manifest = write(place, [b"x"] * 8)
    text = place.get(f"ds/{MANIFEST}").decode()
    place.put(f"ds/{MANIFEST}", text.replace(manifest.shards[1].name, foreign).encode())
    place.put(f"ds/{foreign}", b"precious")
    write(place, [b"new"], if_exists="overwrite", keep_replaced=0)
    cleaned(place)
    assert place.get(f"ds/{foreign}") == b"precious"


def test_indexed_files_of_others_survive_an_overwrite(place: Place) -> None:
    """Named as shards are, but this library only wrote an index for them."""
    names = []
    for shard in range(2):
        names.append(f"ds/train-{shard:05d}-of-00002.tfrecord")
        with tfs.TFRecordWriter(place.url(names[-1])) as writer:
            writer.write(b"theirs")
    tfs.build_index(place.url("ds/train-*.tfrecord"), place.url("ds/train"))
    write(place, [b"new"], if_exists="overwrite", keep_replaced=0)
    cleaned(place)
    assert set(names) <= set(place.names())


def test_clean_spares_a_file_that_another_program_wrote_under_a_dead_writers_name(
    place: Place,
) -> None:
    writer = sharded(place, num_shards=2)
    writer.write_batch([b"x"] * 8)
    landed(writer)
    die(writer)
    place.put("ds/train-00000-of-00002.tfrecord", b"precious")
    cleaned(place)
    assert place.names() == ["ds/train-00000-of-00002.tfrecord"]


def test_a_writer_that_is_late_does_not_delete_what_another_wrote_under_its_names(
    place: Place,
) -> None:
    late = sharded(place, num_shards=2)
    late.write_batch([b"late"] * 8)
    cleaned(place)
    write(place, [b"other"] * 8, num_shards=2)
    with pytest.raises(OSError, match="ds/train"):
        late.close()
    assert read(place, "ds/train") == [b"other"] * 8


# `clean` against the living


@pytest.mark.parametrize("if_exists", ["error", "overwrite", "append"])
def test_clean_between_the_last_look_and_the_manifest_harms_neither_generation(
    place: Place, on_put: Callable[..., None], if_exists: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if if_exists != "error":
        write(place, [b"old"] * 8)

    def cleaned_meanwhile(put: Callable[[], Any]) -> Any:
        monkeypatch.undo()
        cleaned(place, older_than=0)
        return put()

    on_put(MANIFEST, cleaned_meanwhile)
    write(place, [b"new"] * 8, if_exists=if_exists, keep_replaced=0)
    old = [b"old"] * 8 if if_exists == "append" else []
    assert read(place, "ds/train") == old + [b"new"] * 8
    cleaned(place)
    assert read(place, "ds/train") == old + [b"new"] * 8


def test_a_writer_is_as_old_as_its_last_sign_of_life(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    writer = sharded(place, num_shards=1)
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86400)
    claim = writer._attempt.claim
    monkeypatch.setattr(claim, "_beaten", claim._beaten - 2 * 86400)  # by the other clock
    claim.beat()
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86400 + BEAT_SECONDS)
    assert len(cleaned(place, older_than=86400).alive) == 1
    writer.write_batch([bytes(1 << 10)] * 24)
    writer.close()
    assert len(read(place, "ds/train")) == 24


def test_clean_spares_the_upload_of_a_writer_that_is_just_starting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins after the names were listed, and before the uploads are."""
    write(place, [b"old"] * 8)
    begun: list[tfs.ShardedWriter] = []
    pending = LocalStore.pending_uploads

    def late(self: LocalStore, folder: str, **options: Any) -> Any:
        if not begun:
            begun.append(sharded(place, if_exists="append", num_shards=1))
            begun[0].write_batch([bytes(1 << 20)] * 24)
            begun[0]._uploads.drain()
        return pending(self, folder, **options)

    monkeypatch.setattr(LocalStore, "pending_uploads", late)
    found = cleaned(place, older_than=86400)
    assert (found.objects, found.uploads) == ((), ())
    begun[0].close()
    assert len(read(place, "ds/train")) == 32


def test_files_that_vanish_while_clean_lists_them_are_no_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, [b"old"] * 8)
    for i in range(20):
        place.put(f"ds/passing-{i}", b"x")
    stat = os.stat

    def vanishing(path: Any, *args: Any, **options: Any) -> os.stat_result:
        if isinstance(path, str) and "passing-" in path and os.path.lexists(path):
            os.unlink(path)
        return stat(path, *args, **options)

    monkeypatch.setattr(os, "stat", vanishing)
    cleaned(place)
    monkeypatch.undo()
    assert len(read(place, "ds/train")) == 8

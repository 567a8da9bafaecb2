"""The commit: copies of a writer, lost and refused answers, appenders, neighbours, readers."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.tools.test_clean import cleaned, die, landed
from tests.write.test_sharded_writer import read, sharded
from tests.write.test_write_job import job_at, task
from tfio_store.storage.local import LocalStore
from tfio_store.write.decision import UncertainCommitError
from tfio_store.write.held_claim import BEAT_SECONDS

MANIFEST = "_train.manifest.json"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


@pytest.fixture
def on_put(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Callable[..., Any]], None]:
    """``on_put(name, answer)``: for objects so named, ``answer(put)`` in the place of the put."""

    def install(name: str, answer: Callable[..., Any]) -> None:
        put = LocalStore.put

        def replaced(self: LocalStore, path: str, *args: Any, **options: Any) -> Any:
            if not os.path.basename(path).startswith(name):
                return put(self, path, *args, **options)
            return answer(lambda: put(self, path, *args, **options))

        monkeypatch.setattr(LocalStore, "put", replaced)

    return install


def write(place: Place, records: list[bytes], **options: Any) -> tfs.DatasetManifest:
    with sharded(place, **options) as writer:
        writer.write_batch(records)
    return writer.manifest


def lost(put: Callable[[], Any]) -> Any:
    """Carried out, and nobody hears of it."""
    put()
    raise ConnectionResetError(errno.ECONNRESET, "the answer was lost")


# Copies of a job


def committed_job(place: Place) -> tuple[tfs.WriteJob, tfs.WriteJob, list[tfs.ShardInfo]]:
    job = job_at(place)
    copy = pickle.loads(pickle.dumps(job))
    infos = [task(job, shard) for shard in range(3)]
    job.commit(infos)
    return job, copy, infos


def test_a_copy_that_aborts_after_the_commit_deletes_nothing(place: Place) -> None:
    _, copy, _ = committed_job(place)
    before = place.names()
    copy.abort()
    assert place.names() == before
    assert len(read(place, "ds/train")) == 300


def test_a_copy_that_commits_again_gets_the_same_manifest(place: Place) -> None:
    job, copy, infos = committed_job(place)
    before = place.names()
    assert copy.commit(infos).to_bytes() == job.commit(infos).to_bytes()
    assert place.names() == before


def test_a_late_worker_that_leaves_the_context_deletes_nothing(place: Place) -> None:
    _, copy, _ = committed_job(place)
    before = place.names()
    with copy:
        pass
    assert place.names() == before


def test_a_worker_that_leaves_the_context_does_not_end_the_job(place: Place) -> None:
    job = job_at(place)
    with pickle.loads(pickle.dumps(job)) as copy:
        infos = [task(copy, shard) for shard in range(3)]
    job.commit(infos)
    assert len(read(place, "ds/train")) == 300


def test_an_aborted_job_cannot_be_committed_by_a_copy(place: Place) -> None:
    job = job_at(place)
    copy = pickle.loads(pickle.dumps(job))
    infos = [task(job, shard) for shard in range(3)]
    copy.abort()
    assert place.names() == []
    with pytest.raises(OSError, match="claim is gone"):
        job.commit(infos)
    assert place.names() == []


def test_abort_in_the_middle_of_a_copys_commit_deletes_nothing(
    place: Place, on_put: Callable[..., None]
) -> None:
    job = job_at(place)
    copy = pickle.loads(pickle.dumps(job))
    infos = [task(job, shard) for shard in range(3)]

    def aborted_meanwhile(put: Callable[[], Any]) -> Any:
        copy.abort()
        return put()

    on_put(MANIFEST, aborted_meanwhile)
    job.commit(infos)
    assert len(read(place, "ds/train")) == 300


def test_two_copies_commit_at_once_and_one_dataset_lands(place: Place) -> None:
    job = job_at(place)
    copies = [pickle.loads(pickle.dumps(job)) for _ in range(4)]
    infos = [[task(job, shard) for shard in range(3)] for _ in copies]
    found: list[bytes] = []

    def commit(copy: tfs.WriteJob, infos: list[tfs.ShardInfo]) -> None:
        found.append(copy.commit(infos).to_bytes())

    threads = [
        threading.Thread(target=commit, args=pair) for pair in zip(copies, infos, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert len(read(place, "ds/train")) == 300
    cleaned(place)
    assert len(place.names()) == 5


# Answers that are lost or refused


def test_a_lost_answer_followed_by_403_is_not_taken_for_a_refusal(
    place: Place, on_put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a token expires between the first attempt, which landed, and the second."""
    get = LocalStore.get

    def refused(put: Callable[[], Any]) -> Any:
        put()
        monkeypatch.setattr(LocalStore, "get", no_permission)
        raise PermissionError(errno.EACCES, "the token has expired")

    def no_permission(self: Any, path: str, **options: Any) -> Any:
        raise PermissionError(errno.EACCES, "the token has expired", path)

    on_put(MANIFEST, refused)
    writer = sharded(place)
    writer.write_batch([b"x"] * 8)
    with pytest.raises(UncertainCommitError):
        writer.close()
    monkeypatch.setattr(LocalStore, "get", get)
    assert read(place, "ds/train") == [b"x"] * 8


def test_a_lost_answer_is_looked_up(place: Place, on_put: Callable[..., None]) -> None:
    on_put(MANIFEST, lost)
    write(place, [b"x"] * 8)
    assert read(place, "ds/train") == [b"x"] * 8


def test_a_lost_answer_is_known_though_another_has_appended_since(
    place: Place, on_put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def appended_to(put: Callable[[], Any]) -> Any:
        put()
        monkeypatch.undo()
        write(place, [b"more"] * 4, if_exists="append")
        raise ConnectionResetError(errno.ECONNRESET, "the answer was lost")

    on_put(MANIFEST, appended_to)
    write(place, [b"x"] * 8)
    assert read(place, "ds/train") == [b"x"] * 8 + [b"more"] * 4


def test_a_request_that_may_still_arrive_keeps_everything(
    place: Place, on_put: Callable[..., None]
) -> None:
    late: list[Callable[[], Any]] = []

    def delayed(put: Callable[[], Any]) -> Any:
        late.append(put)
        raise TimeoutError(errno.ETIMEDOUT, "no answer")

    on_put(MANIFEST, delayed)
    writer = sharded(place)
    writer.write_batch([b"x"] * 8)
    with pytest.raises(UncertainCommitError):
        writer.close()
    late[0]()
    assert read(place, "ds/train") == [b"x"] * 8


def test_clean_finishes_a_commit_that_was_decided(
    place: Place, on_put: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, [b"old"] * 8)

    def nothing(put: Callable[[], Any]) -> Any:
        raise TimeoutError(errno.ETIMEDOUT, "no answer")

    on_put(MANIFEST, nothing)
    writer = sharded(place, if_exists="overwrite", keep_replaced=0)
    writer.write_batch([b"new"] * 8)
    with pytest.raises(UncertainCommitError):
        writer.close()
    monkeypatch.undo()
    assert read(place, "ds/train") == [b"old"] * 8
    cleaned(place)
    assert read(place, "ds/train") == [b"new"] * 8
    assert len(place.names()) == 6


def test_a_refused_manifest_leaves_nothing(place: Place, on_put: Callable[..., None]) -> None:
    def refused(put: Callable[[], Any]) -> Any:
        raise PermissionError(errno.EACCES, "no")

    on_put(MANIFEST, refused)
    writer = sharded(place)
    writer.write_batch([b"x"] * 8)
    with pytest.raises(PermissionError):
        writer.close()
    assert place.names() == []


def test_a_store_that_forgets_what_it_acknowledged_is_found_out(
    place: Place, on_put: Callable[..., None]
) -> None:
    on_put(MANIFEST, lambda put: None)
    writer = sharded(place)
    writer.write_batch([b"x"] * 8)
    with pytest.raises(UncertainCommitError, match="not to be seen"):
        writer.close()


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
    writer.write_batch([bytes(1 << 20)] * 24)
    writer._uploads.drain()
    monkeypatch.setattr(time, "time", lambda: now + 2 * 86400 + BEAT_SECONDS)
    assert len(cleaned(place, older_than=86400).alive) == 1
    writer.close()
    assert len(read(place, "ds/train")) == 24


def test_clean_spares_the_upload_of_a_writer_that_is_just_starting(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins after the names were listed, and before the uploads are."""
    write(place, [b"old"] * 8)
    begun: list[tfs.ShardedWriter] = []
    pending = LocalStore.pending_uploads

    def late(self: LocalStore, folder: str) -> Any:
        if not begun:
            begun.append(sharded(place, if_exists="append", num_shards=1))
            begun[0].write_batch([bytes(1 << 20)] * 24)
            begun[0]._uploads.drain()
        return pending(self, folder)

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


# Appending


def test_twenty_appenders_at_once_all_land(place: Place) -> None:
    failures: list[BaseException] = []

    def append(i: int) -> None:
        try:
            write(place, [b"%d:%d" % (i, j) for j in range(20)], if_exists="append", num_shards=1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(read(place, "ds/train")) == sorted(
        b"%d:%d" % (i, j) for i in range(20) for j in range(20)
    )
    assert sorted(tfs.RecordSource(place.url("ds/train"))) == sorted(read(place, "ds/train"))
    cleaned(place, keep_replaced=False)
    assert len(place.names()) == 20 + 2


@pytest.mark.parametrize("codec", [None, "GZIP"])
def test_an_append_without_the_index_of_the_old_raises(place: Place, codec: str | None) -> None:
    write(place, [b"old"] * 8, compression=codec)
    os.unlink(place.url("ds/_train.index"))
    before = {name: place.get(name) for name in place.names()}
    with pytest.raises(FileNotFoundError, match=r"_train\.index"):
        write(place, [b"new"] * 8, compression=codec, if_exists="append")
    assert {name: place.get(name) for name in place.names()} == before


# Readers under writers


@pytest.mark.parametrize("keep_replaced", [0, 3600])
@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_opening_while_others_commit(place: Place, if_exists: str, keep_replaced: float) -> None:
    write(place, [b"x"])
    end = threading.Event()

    def commit() -> None:
        while not end.is_set():
            write(place, [b"x"], if_exists=if_exists, keep_replaced=keep_replaced, num_shards=1)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        for _ in range(60):
            with tfs.RecordReader(place.url("ds/train")):
                pass
    finally:
        end.set()
        thread.join()


def test_who_has_opened_a_generation_reads_it_to_the_end(place: Place) -> None:
    write(place, [b"old-%d" % i for i in range(100)])
    reader, source = (
        tfs.RecordReader(place.url("ds/train")),
        tfs.RecordSource(place.url("ds/train")),
    )
    records = iter(reader)
    first = next(records)
    for turn in range(3):
        write(place, [b"new-%d" % turn] * 10, if_exists="overwrite")
        cleaned(place)
    assert sorted([first, *records]) == sorted(b"old-%d" % i for i in range(100))
    assert sorted(source) == sorted(b"old-%d" % i for i in range(100))


def test_replaced_generations_go_when_their_time_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, [b"a"] * 8)
    write(place, [b"b"] * 8, if_exists="overwrite", keep_replaced=100)
    assert len(place.names()) == 11
    cleaned(place)
    assert len(place.names()) == 11
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 101)
    write(place, [b"c"] * 8, if_exists="overwrite", keep_replaced=100)
    assert len(place.names()) == 11  # without the first
    monkeypatch.setattr(time, "time", lambda: now + 202)
    assert len(cleaned(place).objects) == 5
    assert len(place.names()) == 6
    assert read(place, "ds/train") == [b"c"] * 8


def test_clean_removes_replaced_generations_at_once_if_told_to(place: Place) -> None:
    write(place, [b"a"] * 8)
    write(place, [b"b"] * 8, if_exists="overwrite")
    assert len(cleaned(place, keep_replaced=False).objects) == 5
    assert len(place.names()) == 6


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", True])
def test_keep_replaced_takes_seconds(place: Place, wrong: Any) -> None:
    with pytest.raises(ValueError, match="keep_replaced"):
        sharded(place, keep_replaced=wrong)


def test_a_folder_with_brackets_in_its_name_opens(place: Place) -> None:
    write(place, [b"a"] * 8)
    os.rename(place.url("ds"), place.url("d[s]"))
    for source in ("d[s]", "d[s]/train"):
        assert len(list(tfs.RecordReader(place.url(source)))) == 8
    tfs.clean(place.url("d[s]/train"), older_than=0)
    assert len(list(tfs.RecordReader(place.url("d[s]")))) == 8


def test_a_copied_folder_is_a_dataset_of_its_own(place: Place) -> None:
    write(place, [b"a"] * 8)
    shutil.copytree(place.url("ds"), place.url("copy"))
    write(place, [b"b"], if_exists="overwrite", keep_replaced=0)
    assert len(list(tfs.RecordReader(place.url("copy/train")))) == 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize(("keep_replaced", "entries"), [(3600, 1), (0, 0)])
def test_tables_and_salvaged_datasets_keep_what_they_replace(
    place: Place, keep_replaced: float, entries: int
) -> None:
    write(place, [b"x"] * 8)
    options: dict[str, Any] = {"if_exists": "overwrite", "keep_replaced": keep_replaced}
    for _ in range(2):
        table = tfs.write_table({"x": [1]}, place.url("table/t"), **options)
        tfs.salvage(place.url("ds/train"), place.url("copy/c"), **options)
    copy = tfs.DatasetManifest.from_bytes(place.get("copy/_c.manifest.json"))
    assert [len(table.replaced), len(copy.replaced)] == [entries, entries]

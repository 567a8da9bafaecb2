"""The commit: copies of a writer, lost and refused answers."""

from __future__ import annotations

import errno
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_write_job import job_at, task
from tfio_store.errors import UncertainCommitError
from tfio_store.storage.local import LocalStore

MANIFEST = "_train.manifest.json"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


def write(place: Place, records: list[bytes], **options: Any) -> tfs.DatasetManifest:
    with sharded(place, **options) as writer:
        writer.write_batch(records)
    return writer.manifest


def lost(put: Callable[[], Any]) -> Any:
    """Carried out, and nobody hears of it."""
    put()
    raise ConnectionResetError(errno.ECONNRESET, "the answer was lost")


# Copies of a job


def test_a_worker_that_leaves_the_context_does_not_end_the_job(place: Place) -> None:
    job = job_at(place)
    with pickle.loads(pickle.dumps(job)) as copy:
        infos = [task(copy, shard) for shard in range(3)]
    job.commit(infos)
    assert len(read(place, "ds/train")) == 300


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

    def commit(copy: tfs.WriteJob, infos: list[tfs.results.ShardInfo]) -> None:
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

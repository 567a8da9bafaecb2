"""A job that has landed, and so many appends behind it that the history forgot it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import tfio_store as tfs
from tfio_store.dataset import manifest
from tfio_store.write import commit

KEPT = 3


@pytest.fixture(autouse=True)
def short_history(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "KEPT_HISTORY", KEPT)
    monkeypatch.setattr(commit, "KEPT_HISTORY", KEPT)


def append(url: str, record: bytes) -> None:
    with tfs.ShardedWriter(url, num_shards=1, if_exists="append") as writer:
        writer.write(record)


def landed(url: str, *, died: bool, monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, list[object]]:
    """A job that appended, whose driver perhaps died before it tidied up; then others appended."""
    append(url, b"base")
    job = tfs.WriteJob(url, if_exists="append")
    copy = pickle.dumps(job)
    results: list[object] = [job.write([b"job"], order=0)]
    with monkeypatch.context() as patched:
        if died:
            patched.setattr(commit.Attempt, "tidy", lambda *args, **options: None)
        job.commit(results)  # type: ignore[arg-type]
    for number in range(KEPT + 2):
        append(url, b"%d" % number)
    return copy, results


def whole(url: str) -> list[bytes]:
    return [b"base", b"job", *(b"%d" % number for number in range(KEPT + 2))]


@pytest.mark.parametrize("died", [False, True], ids=["tidied", "died"])
def test_a_second_commit_changes_nothing(
    tmp_path: Path, died: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{tmp_path}/train"
    copy, results = landed(url, died=died, monkeypatch=monkeypatch)
    assert pickle.loads(copy).commit(results).records == len(whole(url))
    assert list(tfs.RecordReader(url)) == whole(url)


@pytest.mark.parametrize("died", [False, True], ids=["tidied", "died"])
@pytest.mark.parametrize("late", [lambda url, job: job.abort(), lambda url, job: tfs.clean(url)])
def test_what_comes_late_deletes_nothing(
    tmp_path: Path,
    died: bool,
    late: Callable[[str, tfs.WriteJob], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = f"{tmp_path}/train"
    copy, _ = landed(url, died=died, monkeypatch=monkeypatch)
    late(url, pickle.loads(copy))
    assert list(tfs.RecordReader(url)) == whole(url)

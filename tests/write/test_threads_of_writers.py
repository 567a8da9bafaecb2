"""Threads that write, and those of a writer that cannot be started."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.threads import THREADS, in_threads

RECORDS = [b"%06d" % number * 10 for number in range(2000)]


@pytest.mark.parametrize("limits", [{"max_shard_records": 40}, {"num_shards": 3}])
def test_threads_that_write_at_a_time_lose_nothing_in_silence(
    tmp_path: Path, limits: dict[str, Any]
) -> None:
    """One at a time is what the docs ask for. Else all is there, or an error says why."""
    for number in range(10):
        url = tmp_path / f"train{number}"
        failure = None
        try:
            with tfs.ShardedWriter(url, block_bytes=4096, **limits) as writer:

                def write(share: int, writer: Any = writer) -> None:
                    for record in RECORDS[share::THREADS]:
                        writer.write(record)

                in_threads(write)
        except RuntimeError as error:
            failure = error
        if failure is None:
            assert sorted(tfs.RecordReader(url)) == RECORDS
            continue
        assert "thread" in str(failure)
        with pytest.raises(FileNotFoundError):
            list(tfs.RecordReader(url))


def test_a_shard_that_ends_twice_is_said_to_have_two_threads(tmp_path: Path) -> None:
    """As when two threads find the same shard full."""
    writer = tfs.ShardedWriter(tmp_path / "train", max_shard_records=40)
    writer.write(b"one")
    (stream,) = writer._shards.streams
    writer._uploads.land(stream)
    with pytest.raises(RuntimeError, match="use a writer in one thread at a time"):
        writer._uploads.land(stream)
    with pytest.raises(RuntimeError, match="use a writer in one thread at a time"):
        writer.close()
    assert list(tmp_path.iterdir()) == []


def test_a_record_behind_the_end_of_its_shard_is_not_lost_in_silence(tmp_path: Path) -> None:
    """As when one thread has chosen the shard, and another one ends it."""
    writer = tfs.ShardedWriter(tmp_path / "train", max_shard_records=1)
    writer.write(b"one")
    (chosen,) = writer._shards.streams
    writer.write(b"two")
    chosen.frames.write(b"three")
    with pytest.raises(RuntimeError, match="use a writer in one thread at a time"):
        writer.close()
    assert list(tmp_path.iterdir()) == []


@contextmanager
def no_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("can't start new thread")

    new = hasattr(threading, "_start_joinable_thread")  # from Python 3.13 on
    with monkeypatch.context() as patch:
        patch.setattr(threading, "_start_joinable_thread" if new else "_start_new_thread", refuse)
        yield


def test_a_writer_ends_where_no_thread_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hung in leaving its context. The error spoke of the end of the interpreter."""
    writer = tfs.ShardedWriter(tmp_path / "train", num_shards=2, compression="GZIP")
    with no_threads(monkeypatch):
        with pytest.raises(RuntimeError, match="as many threads as the system allows"), writer:
            writer.write_batch(RECORDS * 40)
        assert list(tmp_path.iterdir()) == []


def test_blocks_of_raw_shards_need_no_threads(tmp_path: Path, monkeypatch: Any) -> None:
    writer = tfs.ShardedWriter(tmp_path / "train", num_shards=2, block_bytes=4096)
    with no_threads(monkeypatch):
        writer.write_batch(RECORDS)
    writer.close()
    assert sorted(tfs.RecordReader(tmp_path / "train")) == RECORDS


def test_an_interrupt_before_a_queue_has_a_thread(tmp_path: Path, monkeypatch: Any) -> None:
    """The next task takes the one along that nobody was told of."""
    writer = tfs.ShardedWriter(tmp_path / "train", num_shards=1, block_bytes=4096)
    pool = writer._uploads._pipeline.io
    submit = pool.submit

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        monkeypatch.setattr(pool, "submit", submit)
        raise KeyboardInterrupt

    monkeypatch.setattr(pool, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt), writer:
        writer.write_batch(RECORDS)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_that_was_interrupted_in_a_block_goes_on_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of the block may be lost, so it must not commit the others."""
    writer = tfs.ShardedWriter(tmp_path / "train", num_shards=1, block_bytes=4096)
    queue = writer._shards.streams[0]._queue

    def interrupted(task: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(queue, "submit", interrupted)
    met = 0
    for record in RECORDS:
        try:
            writer.write(record)
        except KeyboardInterrupt:
            met += 1
    assert met > 1
    with pytest.raises(KeyboardInterrupt):
        writer.close()
    assert list(tmp_path.iterdir()) == []


# Many shards


def test_many_small_shards_change_the_claim_seldom(tmp_path: Path) -> None:
    """Each change writes the names of all shards before. It took a time that grew with the square
    of their number."""
    with tfs.ShardedWriter(tmp_path / "train", max_shard_records=1) as writer:
        for number in range(1000):
            writer.write(b"%d" % number)
        for name in ("train-00000.tfrecord", "train-00500.tfrecord"):
            wait_for(tmp_path / name)  # they land while others are written
        claim = json.loads((tmp_path / "_train.claim").read_bytes())
    assert 500 < len(claim["landing"]) <= 1000
    assert claim["turn"] < 100
    assert len(list(tfs.RecordReader(tmp_path / "train"))) == 1000


def test_large_shards_land_at_once(tmp_path: Path) -> None:
    """What waits may hold memory: on S3 the whole of a shard up to a part."""
    with tfs.ShardedWriter(tmp_path / "train", max_shard_bytes=20 << 20) as writer:
        for _ in range(6):
            writer.write(bytes(19 << 20))
        wait_for(tmp_path / "train-00004.tfrecord")


def wait_for(path: Path) -> None:
    moments = threading.Event()
    for _ in range(3000):
        if path.exists():
            return
        moments.wait(0.01)
    raise AssertionError(f"{path} did not appear")


def test_more_shards_than_open_files_are_refused_at_once(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        with pytest.raises(ValueError, match=r"num_shards=500: .*ulimit -n.* max_shard_bytes"):
            tfs.ShardedWriter(tmp_path / "train", num_shards=500)
        assert list(tmp_path.iterdir()) == []
        tfs.write_table({"x": list(range(300))}, tmp_path / "train", num_shards=300)
        with tfs.ShardedWriter(tmp_path / "rolled", max_shard_records=1) as writer:
            for number in range(600):
                writer.write(b"%d" % number)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert tfs.count(tmp_path / "train") == 300

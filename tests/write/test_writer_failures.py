"""`ShardedWriter` when something fails, or takes too long: it says so, and leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.sharded import sharded


def test_what_stopped_a_writer_is_not_hidden_by_a_failure_to_tidy_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no deletes here")

    with (
        pytest.warns(UserWarning, match="no deletes here"),
        pytest.raises(RuntimeError, match="in the block"),
        sharded(Place(str(tmp_path))),
    ):
        monkeypatch.setattr("tfio_store.dataset.folder.Folder.delete", refuse)
        raise RuntimeError("in the block")


def test_a_failure_in_a_thread_is_raised_by_the_next_call_and_by_close(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(str(tmp_path))
    writer = sharded(place)
    failure = OSError("no space left")

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr("tfio_store.storage.local.LocalOutput.write", fail)
    writer.write(bytes(1 << 20))
    for stream in writer._uploads._streams.values():
        stream._queue.submit(lambda: None).result()
    for call in (
        lambda: writer.write(b"x"),
        lambda: writer.write_batch([b"x"]),
        writer.close,
        writer.close,
        lambda: writer.write(b"x"),
    ):
        with pytest.raises(OSError, match="no space left") as caught:
            call()
        assert caught.value is failure
    assert place.names() == []


@pytest.mark.parametrize("aborted", [False, True])
@pytest.mark.parametrize("kind", ["sharded", "task", "file", "episodes"])
def test_a_failed_writer_raises_its_failure_at_close_also_behind_an_abort(
    tmp_path: Path, kind: str, aborted: bool
) -> None:
    url = f"{tmp_path}/train"
    make: dict[str, Callable[[], Any]] = {
        "sharded": lambda: tfs.ShardedWriter(url, num_shards=1),
        "task": lambda: tfs.WriteJob(url).open(),
        "file": lambda: tfs.TFRecordWriter(url),
        "episodes": lambda: tfs.EpisodeWriter(url, {"steps": {"action": "float32"}}),
    }
    writer = make[kind]()
    failure = RuntimeError("in the records")

    def fail(*_: object) -> None:
        raise failure

    with pytest.MonkeyPatch.context() as patch:
        if kind == "episodes":
            patch.setattr("tfio_store.episodes.writer._Shard.write", fail)
        with pytest.raises(RuntimeError, match="in the records"):
            if kind == "episodes":
                writer.write({"steps": [{"action": 0.5}]})
            else:
                writer.write_batch(map(fail, [b"one"]))
    if aborted:
        writer.abort()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="in the records") as caught:
            writer.close()
        assert caught.value is failure
    assert repr(writer).endswith("failed>")


def test_a_failed_writer_that_is_aborted_inside_its_context_leaves_it_quietly(
    tmp_path: Path,
) -> None:
    for writer in (
        tfs.ShardedWriter(tmp_path / "train", num_shards=1),
        tfs.WriteJob(tmp_path / "job").open(),
        tfs.TFRecordWriter(tmp_path / "file"),
    ):
        with writer:
            with pytest.raises(TypeError):
                writer.write_batch([b"one", 2])  # type: ignore[list-item]
            writer.abort()


def test_a_memory_budget_holds_back_the_caller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that takes nothing: the caller waits instead of piling blocks up."""
    import threading

    from tfio_store.storage.local import LocalOutput

    gate, write = threading.Event(), LocalOutput.write

    def stuck(output: LocalOutput, data: Any) -> None:
        gate.wait(60)
        write(output, data)

    place, written = Place(str(tmp_path)), []
    writer = sharded(place, num_shards=1, memory_budget=16 << 20)
    monkeypatch.setattr(LocalOutput, "write", stuck)  # but not the claim

    def fill() -> None:
        for i in range(100):
            writer.write(bytes(1 << 20))
            written.append(i)

    thread = threading.Thread(target=fill)
    thread.start()
    thread.join(2)
    assert thread.is_alive()
    assert len(written) <= 18
    gate.set()
    thread.join(60)
    writer.close()
    assert writer.manifest.records == 100


def test_who_is_overtaken_reads_what_to_do_next(tmp_path: Path) -> None:
    url = f"{tmp_path}/train"
    slow = tfs.ShardedWriter(url, num_shards=1)
    slow.write(b"slow")
    with tfs.ShardedWriter(url, num_shards=1) as quick:
        quick.write(b"quick")
    with pytest.raises(FileExistsError) as caught:
        slow.close()
    said = str(caught.value)
    assert 'read that one, or write again with if_exists="append" to have both' in said
    assert said.endswith(f"'{url}'")
    assert list(tfs.RecordReader(url)) == [b"quick"]


def test_a_writer_that_cannot_begin_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim would keep the plain names from the next one."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(FileNotFoundError):
        tfs.ShardedWriter(tmp_path / "ds" / "train", num_shards=2, shuffle_seed=1)
    assert list((tmp_path / "ds").iterdir()) == []

"""Local files: what only they can do, or get wrong."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import tfio_store as tfs
from tfio_store.storage import Retry, open_store
from tfio_store.storage.local import LocalStore


def test_links_survive_a_replacement(tmp_path: Path) -> None:
    target, link = tmp_path / "real", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    store, path = open_store(link)
    store.put(path, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


@pytest.mark.parametrize("special", ["fifo", "device"])
def test_special_files_are_not_replaced(tmp_path: Path, special: str) -> None:
    path = str(tmp_path / "fifo")
    if special == "fifo":
        os.mkfifo(path)
    else:
        path = os.devnull
    store, path = open_store(path)
    with pytest.raises(OSError, match="not a regular file"):
        store.open_output(path)
    assert not stat.S_ISREG(os.stat(path).st_mode)


@pytest.mark.parametrize("action", ["info", "look", "get", "read", "read_at_hand", "descriptor"])
def test_a_fifo_is_an_error_and_nothing_to_wait_for(tmp_path: Path, action: str) -> None:
    path = str(tmp_path / "fifo")
    os.mkfifo(path)
    store = LocalStore("file", {}, Retry())
    actions = {
        "read": lambda: store.read(path, 0, 10).result(),
        "read_at_hand": lambda: store.read_at_hand(path, [(0, 10)]) or store.info(path),
        "descriptor": lambda: store.descriptor(path).__enter__(),
    }
    with not_waiting(path), pytest.raises(OSError, match="not a regular file"):
        actions.get(action, lambda: getattr(store, action)(path))()


@contextlib.contextmanager
def not_waiting(fifo: str) -> Iterator[None]:
    """Fails in place of hanging: every few seconds somebody opens the other end."""
    done, waited = threading.Event(), []

    def write() -> None:
        while not done.wait(3):
            with contextlib.suppress(OSError):  # nobody waits
                os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
                waited.append(True)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    assert not waited


def test_a_fifo_in_the_place_of_a_manifest(tmp_path: Path) -> None:
    tfs.write_table({"x": [1, 2, 3]}, str(tmp_path / "train"))
    [manifest] = tmp_path.glob("_train*manifest*")
    manifest.unlink()
    os.mkfifo(manifest)
    with not_waiting(str(manifest)), pytest.raises(OSError, match="not a regular file"):
        tfs.open(str(tmp_path / "train"))


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    store, path = open_store(tmp_path)
    with pytest.raises(IsADirectoryError):
        store.put(path, b"x")


def test_the_umask_decides_the_mode(tmp_path: Path) -> None:
    store, path = open_store(tmp_path / "x")
    before = os.umask(0o027)
    try:
        store.put(path, b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o640


def test_the_longest_name(tmp_path: Path) -> None:
    store, path = open_store(tmp_path / ("ü" * 127))
    store.put(path, b"x")
    assert Path(path).read_bytes() == b"x"
    output = store.open_output(path)
    assert len(store.pending_uploads(str(tmp_path))) == 1
    output.abort()


def test_data_is_durable_before_it_is_visible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is synced, then renamed, then its folder is synced; new folders are synced too."""
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        steps.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))[:4])
        fsync(descriptor)

    def noted_replace(source: str, target: str) -> None:
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_replace)
    store, path = open_store(tmp_path / "new" / "name")
    store.put(path, b"x")
    assert steps == [f"sync {tmp_path.name[:4]}", "sync .nam", "rename", "sync new"]


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, path = open_store(tmp_path / "x")
    output = store.open_output(path)
    output.write(b"x")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as raised:
        output.commit()
    assert raised.value.filename == path
    output.abort()
    assert os.listdir(tmp_path) == []


def test_without_hard_links_a_name_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    store, path = open_store(tmp_path / "x")
    store.put(path, b"one", if_absent=True)
    with pytest.raises(FileExistsError):
        store.put(path, b"two", if_absent=True)
    assert os.listdir(tmp_path) == ["x"]
    assert Path(path).read_bytes() == b"one"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "x").chmod(0)
    store, path = open_store(tmp_path / "x")
    with pytest.raises(PermissionError):
        store.read(path, 0, 1).result()

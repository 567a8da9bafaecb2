"""The bytes that a cache's folder holds stay below its limit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfio_store.storage.cache.room import Room


def held(folder: Path) -> int:
    """The bytes of all files but the one that keeps the total."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "total"]
    return sum(path.stat().st_size for path in files)


def test_what_is_being_written_counts(tmp_path: Path) -> None:
    """Ranges of other writers, while one makes room. Else a folder holds more than its limit."""
    files, writing, total = (str(tmp_path / name) for name in ("files", "writing", "total"))
    os.makedirs(f"{files}/ab/abcd")
    os.mkdir(writing)
    room = Room(files, writing, total, limit=1000)
    paths = [room.begin(300) for _ in range(3)]
    for number, path in enumerate(paths[:2]):
        os.replace(path, f"{files}/ab/abcd/{number}")
    room.begin(300)  # the third is not in its place yet
    assert held(tmp_path) <= 1000
    Path(total).unlink()
    room.settle()  # counts anew
    for _ in range(3):
        room.begin(100)
        assert held(tmp_path) <= 1000


def test_foreign_things_are_left_alone(tmp_path: Path) -> None:
    """They neither keep the room from being made, nor do they go."""
    files, writing, total = (str(tmp_path / name) for name in ("files", "writing", "total"))
    os.makedirs(f"{files}/ab/abcd/0-300")
    os.mkdir(writing)
    os.symlink("1-300", f"{files}/ab/abcd/1-300")
    os.symlink("loop", f"{files}/ab/loop")
    os.mkfifo(f"{files}/ab/abcd/2-300")
    room = Room(files, writing, total, limit=20_000)
    for number in range(100):
        os.replace(room.begin(300), f"{files}/ab/abcd/{number}")
        assert held(tmp_path) <= 20_000
    assert os.path.isdir(f"{files}/ab/abcd/0-300")
    assert os.path.islink(f"{files}/ab/loop")


def test_nothing_behind_a_planted_link_goes_or_is_written(tmp_path: Path) -> None:
    """A link at any level of the folder, to files that are somebody's own."""
    files, writing, total = (str(tmp_path / name) for name in ("files", "writing", "total"))
    theirs = tmp_path / "theirs" / "docs"
    theirs.mkdir(parents=True)
    (theirs / "thesis").write_bytes(b"precious" * 1000)
    os.utime(theirs / "thesis", (1, 1))
    os.makedirs(f"{files}/ab")
    os.symlink(theirs, f"{files}/ab/abcd")
    os.symlink(theirs.parent, f"{files}/cd")
    room = Room(files, writing, total, limit=1000)
    os.symlink(theirs, writing)
    room.settle()
    room.sweep()
    os.unlink(total)
    os.symlink(theirs / "thesis", total)
    with pytest.raises(OSError, match="symbolic"):
        room.settle()
    assert (theirs / "thesis").read_bytes() == b"precious" * 1000

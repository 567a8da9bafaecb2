"""Calls of `tf.io.gfile` in a row, on the local filesystem and on ours: the same answers and kinds
of error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.place import Place
from tests.support.long import long

tf = pytest.importorskip("tensorflow")

from tfio_store import register_filesystem  # noqa: E402

pytestmark = pytest.mark.tensorflow

gfile = tf.io.gfile


def put(path: str, text: str = "data") -> None:
    with gfile.GFile(path, "w") as file:
        file.write(text)


def get(path: str) -> str:
    with gfile.GFile(path, "r") as file:
        return str(file.read())


def add(path: str, text: str) -> None:
    with gfile.GFile(path, "a") as file:
        file.write(text)


def walked(root: str, **options: Any) -> list[Any]:
    return [
        (folder, sorted(below), sorted(files))
        for folder, below, files in gfile.walk(root, **options)
    ]


def listed(path: str) -> list[str]:
    return sorted(name.rstrip("/") for name in gfile.listdir(path))


def described(path: str) -> tuple[bool, int]:
    found = gfile.stat(path)
    return found.is_directory, 0 if found.is_directory else found.length


FILES = ("a/1.txt", "a/2.log", "a/[x].txt", "a/b/3.txt", "c d/ü.txt", "e#f/x?y.txt", "100%/z.txt")


def tree(place: Place, root: str) -> None:
    for name in FILES:
        place.put(f"root/{name}", name.encode())
    gfile.makedirs(f"{root}/empty")


def seeks(root: str) -> list[Any]:
    put(f"{root}/f", "0123456789\nsecond\n")
    with gfile.GFile(f"{root}/f", "r") as file:
        found = [file.size(), file.tell(), file.read(3), file.tell(), file.readline()]
        file.seek(5)
        found += [file.tell(), file.read(2), file.seekable()]
        file.seek(-3, 1)
        found += [file.read(1)]
        file.seek(-7, 2)
        found += [file.read(), file.read(), file.tell()]
        for where in ((-1, 0), (100, 0), (0, 3)):
            found.append(outcome(lambda where=where: file.seek(*where) or file.tell()))
        return found


def reads_while_writing(root: str) -> list[Any]:
    with gfile.GFile(f"{root}/f", "w") as file:
        file.write("one")
        found: list[Any] = [file.tell(), outcome(file.read), outcome(file.size)]
        file.flush()
        file.write("two")
        found.append(file.tell())
    return [*found, get(f"{root}/f"), outcome(lambda: file.write("three"))]


def tells(root: str) -> list[Any]:
    found = []
    for mode in ("wb", "ab"):
        with gfile.GFile(f"{root}/f", mode) as file:
            for size in (1, 10, 3 << 20, 7):
                file.write(b"x" * size)
                found.append(file.tell())
    return [*found, described(f"{root}/f")]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call answers, or the kind of its error."""
    try:
        return call()
    except (tf.errors.OpError, OSError, ValueError, TypeError) as error:
        return type(error).__name__


TABLE: dict[str, Callable[[str], Any]] = {
    "mkdir": lambda r: (gfile.mkdir(f"{r}/new"), gfile.isdir(f"{r}/new")),
    "mkdir of a folder": lambda r: gfile.mkdir(f"{r}/a"),
    "mkdir of a file": lambda r: gfile.mkdir(f"{r}/a/1.txt"),
    "mkdir below a file": lambda r: gfile.mkdir(f"{r}/a/1.txt/x"),
    "makedirs twice": lambda r: [gfile.makedirs(f"{r}/x/y{end}") for end in ("", "", "/")],
    "makedirs": lambda r: (gfile.makedirs(f"{r}/x/y/z"), walked(f"{r}/x")),
    "makedirs of a folder": lambda r: gfile.makedirs(f"{r}/a/b"),
    "makedirs below a file": lambda r: gfile.makedirs(f"{r}/a/1.txt/x"),
    "listdir": listed,
    "listdir of a missing folder": lambda r: gfile.listdir(f"{r}/none"),
    "listdir of a file": lambda r: gfile.listdir(f"{r}/a/1.txt"),
    "listdir of an empty folder": lambda r: gfile.listdir(f"{r}/empty"),
    "listdir with a slash": lambda r: listed(f"{r}/a/"),
    "walk": lambda r: sorted(walked(r)),
    "walk from below": lambda r: walked(f"{r}/a", topdown=False),
    "walk a missing folder": lambda r: walked(f"{r}/none"),
    "walk a file": lambda r: walked(f"{r}/a/1.txt"),
    "glob": lambda r: sorted(gfile.glob(f"{r}/*/*.txt")),
    "glob of several": lambda r: sorted(gfile.glob([f"{r}/a/?.txt", f"{r}/a/*.log"])),
    "glob of a set": lambda r: sorted(gfile.glob(f"{r}/a/[12].*")),
    "glob of folders": lambda r: sorted(gfile.glob(f"{r}/*")),
    "glob of patterns": lambda r: [
        sorted(gfile.glob(f"{r}/a/{pattern}"))
        for pattern in ("?.*", "[^1].*", "[0-1].*", "\\[x\\].txt", "*/*", "b/*", "*/none")
    ],
    "glob of a name": lambda r: gfile.glob(f"{r}/a/1.txt"),
    "glob of nothing": lambda r: gfile.glob(f"{r}/none*"),
    "glob below a missing folder": lambda r: gfile.glob(f"{r}/none/*"),
    "glob of odd names": lambda r: [gfile.glob(f"{r}/{p}") for p in ("e#*/*", "100%/*", "c d/*")],
    "stat of a file": lambda r: described(f"{r}/a/1.txt"),
    "stat of a folder": lambda r: described(f"{r}/a"),
    "stat of nothing": lambda r: described(f"{r}/none"),
    "stat below a file": lambda r: described(f"{r}/a/1.txt/x"),
    "exists": lambda r: [
        gfile.exists(f"{r}/{name}") for name in ("a", "a/", "a/1.txt", "a/1", "none", "empty")
    ],
    "isdir": lambda r: [gfile.isdir(f"{r}/{n}") for n in ("a", "a/", "a/1.txt", "none", "empty")],
    "rename": lambda r: (gfile.rename(f"{r}/a/1.txt", f"{r}/n"), get(f"{r}/n"), listed(f"{r}/a")),
    "rename onto a file": lambda r: gfile.rename(f"{r}/a/1.txt", f"{r}/a/2.log"),
    "rename over a file": lambda r: (
        gfile.rename(f"{r}/a/1.txt", f"{r}/a/2.log", overwrite=True),
        get(f"{r}/a/2.log"),
        listed(f"{r}/a"),
    ),
    "rename onto itself": lambda r: (
        gfile.rename(f"{r}/a/1.txt", f"{r}/a/1.txt", overwrite=True),
        get(f"{r}/a/1.txt"),
    ),
    "rename of nothing": lambda r: gfile.rename(f"{r}/none", f"{r}/n"),
    "rename into a folder": lambda r: gfile.rename(f"{r}/a/1.txt", f"{r}/a/b", overwrite=True),
    "rename of a folder": lambda r: (gfile.rename(f"{r}/a", f"{r}/n"), sorted(walked(r))),
    "rename to odd names": lambda r: (
        gfile.rename(f"{r}/e#f/x?y.txt", f"{r}/100%/ü?#%.txt"),
        get(f"{r}/100%/ü?#%.txt"),
    ),
    "copy": lambda r: (gfile.copy(f"{r}/a/1.txt", f"{r}/n"), get(f"{r}/n"), get(f"{r}/a/1.txt")),
    "copy onto a file": lambda r: gfile.copy(f"{r}/a/1.txt", f"{r}/a/2.log"),
    "copy over a file": lambda r: (
        gfile.copy(f"{r}/a/1.txt", f"{r}/a/2.log", overwrite=True),
        get(f"{r}/a/2.log"),
    ),
    "copy into a folder": lambda r: gfile.copy(f"{r}/a/1.txt", f"{r}/a/b", overwrite=True),
    "copy of nothing": lambda r: gfile.copy(f"{r}/none", f"{r}/n"),
    "copy of a folder": lambda r: gfile.copy(f"{r}/a", f"{r}/n"),
    "remove": lambda r: (gfile.remove(f"{r}/a/1.txt"), listed(f"{r}/a")),
    "remove of nothing": lambda r: gfile.remove(f"{r}/none"),
    "remove of a folder": lambda r: gfile.remove(f"{r}/a"),
    "rmtree": lambda r: (gfile.rmtree(f"{r}/a"), listed(r)),
    "rmtree of nothing": lambda r: gfile.rmtree(f"{r}/none"),
    "rmtree of a file": lambda r: (gfile.rmtree(f"{r}/a/1.txt"), listed(f"{r}/a")),
    "a folder outlives its files": lambda r: (
        gfile.makedirs(f"{r}/n"),
        put(f"{r}/n/f"),
        gfile.remove(f"{r}/n/f"),
        gfile.isdir(f"{r}/n"),
        listed(f"{r}/n"),
    ),
    "paths are cleaned": lambda r: (put(f"{r}/a//b/./c/../n"), get(f"{r}/a/b/n")),
    "append": lambda r: (add(f"{r}/a/1.txt", "+"), get(f"{r}/a/1.txt")),
    "append to nothing": lambda r: (add(f"{r}/n", "+"), get(f"{r}/n")),
    "seek, tell, size": seeks,
    "read while writing": reads_while_writing,
    "tell while writing": tells,
    "write nothing": lambda r: (put(f"{r}/n", ""), get(f"{r}/n"), described(f"{r}/n")),
    "write over a file": lambda r: (put(f"{r}/a/1.txt", "n"), get(f"{r}/a/1.txt")),
    "write to a folder": lambda r: put(f"{r}/a"),
    "read a folder": lambda r: get(f"{r}/a"),
    "read nothing": lambda r: get(f"{r}/none"),
    "another mode": lambda r: gfile.GFile(f"{r}/a/1.txt", "x").read(),
}

DIFFERENT = {
    # a store with keys and no folders does not mind a name below a name
    "stat below a file": "'NotFoundError'",
    # TensorFlow's local filesystem tries to read the folder
    "copy of a folder": "'FailedPreconditionError'",
    # what is being written is seen by nobody before it is closed
    "read while writing": "[3, 'PermissionDeniedError', 'NotFoundError', 6, 'onetwo', None]",
}
"""As docs/filesystem.md says."""


@pytest.fixture(params=["s3,memory", *map(long, ["s3+obstore", "gcs", "azure"])])
def places(request: pytest.FixtureRequest) -> list[Place]:
    found = []
    for name in request.param.split(","):
        server, _, backend = name.partition("+")
        place: Place = request.getfixturevalue(server)
        place.backend = backend or "fsspec"
        found.append(place)
    return found


def answered(call: str, place: Place, root: str) -> str:
    """What a call answers in a tree of its own."""
    tree(place, root)
    return repr(outcome(lambda: TABLE[call](root))).replace(root, "ROOT")


@pytest.mark.parametrize("call", TABLE)
def test_as_the_local_filesystem(call: str, places: list[Place], tmp_path: Path) -> None:
    local = answered(call, Place(str(tmp_path)), f"{tmp_path}/root")
    for place in places:
        scheme, _, path = place.url("root").partition("://")
        scheme = "gcs" if scheme == "gs" else scheme  # TensorFlow has gs:// itself
        register_filesystem(scheme, storage=place.storage())
        found = answered(call, place, f"{scheme}://{path}")
        assert found == DIFFERENT.get(call, local)
        assert (found != local) == (call in DIFFERENT)

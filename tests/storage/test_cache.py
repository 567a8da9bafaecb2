"""A cache's folder: the right bytes or none, whoever shares, damages or fills it, or is killed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.lesser_store import Answer, Forward, Request, rewriting_store
from tests.servers.place import Place
from tfio_store.storage import LocalCache, Storage, Store, Version
from tfio_store.storage.cache.folder import CacheFolder, KeptRanges
from tfio_store.storage.cache.room import STALE_SECONDS
from tfio_store.storage.cache.store import CachedStore

DATA = random.Random(1).randbytes(3_000_000)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Local files of which the library knows no more than that they are a filesystem's."""
    found = Place(f"plain://{tmp_path}/store")
    found.put("x", DATA)
    return found


class Counted:
    """A store that counts the bytes that are read of it."""

    service = "one"

    def __init__(self, store: Store) -> None:
        self.store, self.nbytes = store, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.store, name)

    def read(self, path: str, start: int, stop: int, **options: object) -> object:
        self.nbytes += stop - start
        return self.store.read(path, start, stop, **options)  # type: ignore[arg-type]


class Cached:
    """The object "x", read through a cache as by a process of its own."""

    def __init__(self, place: Place, cache: LocalCache) -> None:
        store, self.path = place.open("x")
        self.counted = Counted(store)
        self.folder = CacheFolder(cache)
        self.etag = store.info(self.path).etag
        self.store = CachedStore(self.counted, self.folder)  # type: ignore[arg-type]

    def __getitem__(self, span: slice) -> bytes:
        return bytes(self.store.read(self.path, span.start, span.stop, etag=self.etag).result())

    @property
    def fetched(self) -> int:
        """Bytes since the last question."""
        found, self.counted.nbytes = self.counted.nbytes, 0
        return found


def kept(cache: LocalCache) -> list[Path]:
    """The files of ranges."""
    return sorted(path for path in Path(cache.path, "v1", "ranges").rglob("*") if path.is_file())


@pytest.fixture
def cache(tmp_path: Path) -> LocalCache:
    return LocalCache(tmp_path / "cache")


def test_ranges_come_from_the_cache_in_any_cut(place: Place, cache: LocalCache) -> None:
    dice, ours = random.Random(2), Cached(place, cache)
    for turn in range(300):
        if turn % 50 == 49:
            ours = Cached(place, cache)  # another process
        start = dice.randrange(len(DATA))
        stop = start + dice.choice([1, 100, 65536, dice.randrange(1, 400_000)])
        assert ours[start:stop] == DATA[start:stop]
    last = Cached(place, cache)
    last[0 : len(DATA)]
    assert last.fetched < len(DATA) / 2
    assert last[100_000:900_000] == DATA[100_000:900_000]
    assert last.fetched == 0


def test_only_the_gap_is_fetched(place: Place, cache: LocalCache) -> None:
    ours = Cached(place, cache)
    for start, stop in ((0, 100), (150, 200), (300, 1000)):
        ours[start:stop]
    assert ours.fetched == 850
    assert ours[50:500] == DATA[50:500]
    assert ours.fetched == 200
    assert ours[0:1000] == DATA[0:1000]
    assert ours.fetched == 0


def test_an_object_that_ends_inside_a_range(place: Place, cache: LocalCache) -> None:
    end = len(DATA)
    for _ in range(2):
        ours = Cached(place, cache)
        assert ours[end - 10 : end + 10] == DATA[-10:]
        assert ours[end : end + 5] == b""


def test_spans_that_overlap() -> None:
    spans = KeptRanges([(0, 10), (5, 30), (7, 8), (40, 50)])
    assert spans.holding(0) == (0, 10)
    assert spans.holding(7) == (5, 30)
    assert spans.holding(30) is None
    assert spans.ending(30) == (5, 30)
    assert spans.ending(10) == (0, 10)
    assert spans.ending(35) is None
    spans.drop((5, 30))
    assert spans.holding(9) == (0, 10)
    assert spans.holding(10) is None


def test_an_unknown_version_is_looked_at_and_any_version_is_not_kept(
    place: Place, cache: LocalCache
) -> None:
    ours, version = Cached(place, cache), Version()
    assert bytes(ours.store.read(ours.path, 0, 10).result()) == DATA[:10]
    assert kept(cache) == []
    assert bytes(ours.store.read(ours.path, 0, 10, etag=version).result()) == DATA[:10]
    assert version.etag == ours.etag
    assert len(kept(cache)) == 1


def test_a_replaced_object_is_not_served_from_the_cache(place: Place, cache: LocalCache) -> None:
    assert Cached(place, cache)[0:100] == DATA[:100]
    place.put("x", DATA[::-1])
    assert Cached(place, cache)[0:100] == DATA[::-1][:100]


def test_services_with_the_same_names_are_told_apart(place: Place, cache: LocalCache) -> None:
    one = Cached(place, cache)
    one[0:100]
    one.counted.service = "another"
    one[0:100]
    assert one.fetched == 200


@pytest.mark.parametrize("damage", ["data", "header", "cut", "longer", "empty"])
def test_a_damaged_range_is_fetched_again_with_one_warning(
    place: Place, cache: LocalCache, damage: str
) -> None:
    ours = Cached(place, cache)
    for start in (0, 200_000):
        ours[start : start + 200_000]
    for file in kept(cache):
        data = bytearray(file.read_bytes())
        if damage in ("data", "header"):
            data[-1 if damage == "data" else 30] ^= 1
        shapes = {"cut": data[:-1], "longer": data + b"x", "empty": bytearray()}
        file.write_bytes(shapes.get(damage, data))
    again = Cached(place, cache)
    with pytest.warns(RuntimeWarning, match="dropped and fetched again") as warned:
        assert again[0:400_000] == DATA[:400_000]
    assert len(warned) == 1
    assert again.fetched == 400_000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Cached(place, cache)[0:400_000] == DATA[:400_000]


def test_those_used_last_stay_within_the_limit(place: Place, tmp_path: Path) -> None:
    cache = LocalCache(tmp_path / "cache", max_bytes=1_000_000)
    ours = Cached(place, cache)
    for start in range(0, 2_500_000, 100_000):
        ours[start : start + 100_000]
        assert sum(file.stat().st_size for file in kept(cache)) <= cache.max_bytes
        ours[0:100_000]  # the one that stays in use
        time.sleep(0.01)  # so that the times of use differ
    ours.fetched  # noqa: B018
    ours[0:100_000]
    ours[2_400_000:2_500_000]
    assert ours.fetched == 0
    ours[100_000:200_000]
    assert ours.fetched == 100_000


def test_a_range_larger_than_the_cache_is_not_kept(place: Place, tmp_path: Path) -> None:
    cache = LocalCache(tmp_path / "cache", max_bytes=1000)
    assert Cached(place, cache)[0:2000] == DATA[:2000]
    assert kept(cache) == []


@contextlib.contextmanager
def no_large_files(nbytes: int) -> Iterator[None]:
    """What a full disk does, by a limit that needs no disk of its own."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def check_full(ours: Cached, cache: LocalCache) -> None:
    with pytest.warns(RuntimeWarning, match="nothing more is kept in this process") as warned:
        for start in range(0, 3_000_000, 500_000):
            assert ours[start : start + 500_000] == DATA[start : start + 500_000]
    assert len(warned) == 1
    assert os.listdir(Path(cache.path, "v1", "writing")) == []
    assert ours.fetched == 3_000_000


def test_a_disk_that_takes_no_more_stops_the_cache_and_not_the_reading(
    place: Place, cache: LocalCache
) -> None:
    ours = Cached(place, cache)
    with no_large_files(100_000):
        check_full(ours, cache)


def test_a_full_filesystem(place: Place, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1200k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        cache = LocalCache(folder / "cache")
        check_full(Cached(place, cache), cache)
        assert kept(cache)
        assert Cached(place, cache)[0:500_000] == DATA[:500_000]
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


WRITER = """
import os, sys, time
from tests.storage.test_cache import Cached, LocalCache, Place
if sys.argv[3] == "halt":
    def halt(*args):
        print("writing", flush=True)
        time.sleep(60)
    os.replace = halt
place = Place(sys.argv[1])
Cached(place, LocalCache(sys.argv[2]))[0:100000]
"""


def test_two_processes_share(place: Place, cache: LocalCache) -> None:
    early = Cached(place, cache)
    subprocess.run([sys.executable, "-c", WRITER, place.root, cache.path, ""], check=True)
    for ours in (early, Cached(place, cache)):
        assert ours[0:100_000] == DATA[:100_000]
        assert ours.fetched == 0


def test_a_writer_that_is_killed_leaves_nothing_that_is_read(
    place: Place, cache: LocalCache
) -> None:
    argv = [sys.executable, "-c", WRITER, place.root, cache.path, "halt"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        writer.send_signal(signal.SIGKILL)
    assert kept(cache) == []
    writing = Path(cache.path, "v1", "writing")
    (left,) = writing.iterdir()
    ours = Cached(place, cache)
    assert ours[0:100_000] == DATA[:100_000]
    assert left.exists()  # it may be another's at work
    os.utime(left, (0, time.time() - 2 * STALE_SECONDS))
    Cached(place, cache)
    assert list(writing.iterdir()) == []


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_folder_that_cannot_be_written_to_is_refused_by_name(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        with as_nobody(), pytest.raises(PermissionError, match=r"cache='.*cannot be written to"):
            Storage(cache=LocalCache(tmp_path / "cache"))
    finally:
        tmp_path.chmod(0o700)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match=r"cache='.*cannot be written to"):
        Storage(cache=LocalCache(tmp_path / "file"))


def test_a_new_folder_is_its_owners_alone(cache: LocalCache) -> None:
    CacheFolder(cache)
    assert os.stat(cache.path).st_mode & 0o777 == 0o700


def test_a_folder_that_others_can_plant_things_in_is_refused(cache: LocalCache) -> None:
    """What they plant would be deleted and overwritten as the cache's own."""
    folder = Path(cache.path)
    folder.mkdir()
    for mode in (0o770, 0o702, 0o1777):
        folder.chmod(mode)
        with pytest.raises(PermissionError, match="other users may write into it") as raised:
            CacheFolder(cache)
        # nobody should do that to /tmp
        assert ("chmod go-w" in str(raised.value)) == (mode < 0o1000)
    folder.chmod(0o700)
    CacheFolder(cache)


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser gives files away")
def test_a_folder_of_another_user_is_refused(cache: LocalCache, tmp_path: Path) -> None:
    folder = Path(cache.path)
    folder.mkdir()
    os.chown(folder, 65534, 65534)
    with pytest.raises(PermissionError, match=r"belongs to user 65534.*pass a folder of your own"):
        CacheFolder(cache)
    folder.rmdir()
    (tmp_path / "ours").mkdir()
    folder.symlink_to(tmp_path / "ours")
    CacheFolder(cache)
    os.chown(folder, 65534, 65534, follow_symlinks=False)
    with pytest.raises(PermissionError, match="belongs to user 65534"):
        CacheFolder(cache)


@pytest.mark.parametrize("name", ["v1", "v1/ranges", "v1/writing", "v1/total"])
def test_planted_links_are_refused(name: str, cache: LocalCache, tmp_path: Path) -> None:
    (tmp_path / "victim").mkdir()
    link = Path(cache.path, name)
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match=r"cannot be written to: .* is a link; delete it"):
        CacheFolder(cache)


def test_local_files_and_memory_are_not_cached(tmp_path: Path, cache: LocalCache) -> None:
    for url in (str(tmp_path), "memory://x"):
        store, _ = Storage(cache=cache).open(url)
        assert store is Storage().open(url)[0]


def test_a_filesystem_that_tells_no_versions_is_not_cached(place: Place, cache: LocalCache) -> None:
    """What tells one `tar://` from another is an option that nobody here knows."""
    store, _ = Storage(place.storage_options, cache=cache).open(place.url("x"))
    assert not isinstance(store, CachedStore)


@pytest.mark.parametrize("etag", ["Sun, 22 Nov 2026 10:00:00 GMT", 'W/"abc"'])
def test_a_version_that_two_may_share_is_not_kept(
    place: Place, cache: LocalCache, etag: str
) -> None:
    one = Cached(place, cache)
    version = Version(etag)
    one.counted.read = lambda path, start, stop, **_: counted_read(one, path, start, stop)  # type: ignore[method-assign]
    for _ in range(2):
        assert one.store.read(one.path, 0, 100, etag=version).result() == DATA[:100]
    assert one.fetched == 200
    assert not list((Path(cache.path) / "v1" / "ranges").iterdir())


def counted_read(one: Cached, path: str, start: int, stop: int) -> object:
    one.counted.nbytes += stop - start
    return one.counted.store.read(path, start, stop)


def test_paths_that_are_shown_alike_are_told_apart(place: Place, cache: LocalCache) -> None:
    """An error shows no ``key=…`` of a URL's query. The cache must not take two of them for one."""
    one = Cached(place, cache)
    one.counted.url = lambda path: "shown"  # type: ignore[attr-defined]
    place.put("y", DATA[::-1])
    other = place.open("y")[1]
    version = Version("same")
    one.counted.read = lambda path, start, stop, **_: counted_read(one, path, start, stop)  # type: ignore[method-assign]
    assert one.store.read(one.path, 0, 9, etag=version).result() == DATA[:9]
    assert one.store.read(other, 0, 9, etag=version).result() == DATA[::-1][:9]


def test_a_process_without_descriptors_leaves_the_ranges(
    place: Place, cache: LocalCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Cached(place, cache)[0:100] == DATA[:100]
    kept = list((Path(cache.path) / "v1" / "ranges").rglob("0-100"))
    real = os.open

    def refused(path: Any, *args: int, **options: int) -> int:
        if str(path).endswith("0-100"):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refused)
        assert Cached(place, cache)[0:100] == DATA[:100]
    assert kept == list((Path(cache.path) / "v1" / "ranges").rglob("0-100"))


def test_what_a_cache_is_made_of() -> None:
    with pytest.raises(TypeError, match="path="):
        LocalCache(5)  # type: ignore[arg-type]
    for path in ("", "s3://b/cache"):
        with pytest.raises(ValueError, match="path of a local folder"):
            LocalCache(path)
    with pytest.raises(ValueError, match="max_bytes=0"):
        LocalCache("x", max_bytes=0)
    with pytest.raises(TypeError, match="max_bytes="):
        LocalCache("x", max_bytes="5")  # type: ignore[arg-type]
    assert LocalCache(Path("x")) == LocalCache(os.path.abspath("x"))


@pytest.mark.parametrize("kind", ["pipe", "file", "link to itself", "link to nothing"])
def test_foreign_things_in_the_place_of_an_objects_folder(
    place: Place, cache: LocalCache, kind: str
) -> None:
    Cached(place, cache)[0:1000]
    (folder,) = {path.parent for path in Path(cache.path).rglob("0-1000")}
    shutil.rmtree(folder)
    if kind == "pipe":
        os.mkfifo(folder)
    elif kind == "file":
        folder.write_bytes(b"a file")
    else:
        folder.symlink_to(folder.name if kind == "link to itself" else "nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = Cached(place, replace(cache, max_bytes=cache.max_bytes // 2))  # looks anew
        assert ours[0:1000] == DATA[0:1000]
        assert ours[100:2000] == DATA[100:2000]


@pytest.mark.parametrize("kind", ["pipe", "folder", "link to a pipe", "socket"])
def test_foreign_things_in_the_place_of_a_range(
    place: Place, cache: LocalCache, tmp_path: Path, kind: str
) -> None:
    Cached(place, cache)[0:1000]
    (range_file,) = [found for found in Path(cache.path).rglob("0-1000") if found.is_file()]
    range_file.unlink()
    if kind == "folder":
        range_file.mkdir()
    elif kind == "socket":
        here = os.getcwd()
        os.chdir(range_file.parent)  # the path of a socket is short
        try:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(range_file.name)
        finally:
            os.chdir(here)
    else:
        pipe = tmp_path / "pipe" if kind.startswith("link") else range_file
        os.mkfifo(pipe)
        if pipe != range_file:
            range_file.symlink_to(pipe)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = Cached(place, cache)  # which waited for ever for who writes into the pipe
        assert ours[0:1000] == DATA[0:1000]
        assert ours[100:2000] == DATA[100:2000]


@pytest.mark.parametrize("server", ["s3", "gcs", "azure"])
def test_many_shards_are_looked_at_by_listing_them(
    server: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A reader with a cache asks for the versions of all shards. That is one list of them."""
    place: Place = request.getfixturevalue(server)
    shards, asked = 100, []
    rows = {"x": list(range(shards))}
    options = place.storage_options
    tfs.write_table(rows, place.url("train"), num_shards=shards, storage_options=options)

    def note(asking: Request, forward: Forward) -> Answer:
        asked.append(asking)
        return forward(asking)

    with rewriting_store(place.endpoint, note) as url:
        through = json.loads(json.dumps(options).replace(place.endpoint, url))
        # the emulator of GCS lacks the interface that obstore asks
        backend = "fsspec" if server == "gcs" else "auto"
        storage = tfs.Storage(through, cache=tmp_path / "cache", backend=backend)
        assert len(list(tfs.RecordReader(place.url("train"), storage=storage))) == shards
    assert len(asked) < shards + 20

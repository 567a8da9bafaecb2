"""Tests that every store passes when it writes, and when a process dies or forks."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tfio_store.errors import ReplacedError
from tfio_store.records.framing import crc32c
from tfio_store.storage import Store
from tfio_store.storage.store import ObjectInfo
from tfio_store.testing.reading import DATA, check_same
from tfio_store.testing.site import Site


def race(attempt: Callable[[int], object]) -> list[int]:
    """The numbers of those of 16 racers, starting together, who met no FileExistsError."""
    start = threading.Barrier(16)

    def run(number: int) -> int | None:
        start.wait()
        try:
            attempt(number)
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(16) as threads:
        return [number for number in threads.map(run, range(16)) if number is not None]


def watched(
    store: Store, path: str, work: Callable[[], object], *, always: bool = False
) -> tuple[set[int], list[bytes]]:
    """What others find at ``path`` during ``work``: the sizes of all below its folder, and the
    contents. ``always``: the object is there all the time."""
    sizes: set[int] = set()
    found: list[bytes] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            seen = store.look(path)
            assert seen is not None or not always
            sizes.update({} if seen is None else {seen.size})
            sizes.update(one.size for one in store.list(path.rpartition("/")[0]))
            with contextlib.suppress(ReplacedError, *(() if always else (FileNotFoundError,))):
                data = bytes(store.read(path, 0, 1 << 30).result())
                if data not in found:
                    found.append(data)

    with ThreadPoolExecutor(2) as threads:
        watchers = [threads.submit(watch) for _ in range(2)]
        try:
            work()
        finally:
            ended.set()
        for watcher in watchers:
            watcher.result()
    return sizes, found


def begin_and_die(site: Site, name: str) -> None:
    store, path = site.open(name)
    output = store.open_output(path)
    for _ in range(12):
        output.write(bytes(1 << 20))
    wait_for_parts(output)
    os.kill(os.getpid(), 9)


def wait_for_parts(output: object) -> None:
    for future in list(getattr(output, "_travelling", ())):
        future.result()


def read_into(queue: object, site: Site, store: Store, path: str) -> None:
    del site  # which brings its module, where a filesystem may be registered
    try:
        found: object = bytes(store.read(path, 0, 100).result())
    except Exception as fault:  # which the parent would else wait for in vain
        found = repr(fault)
    queue.put(found)  # type: ignore[attr-defined]


class WritingTests:
    """Tests that every store passes when it writes, and when a process dies or forks."""

    # Writing

    @pytest.mark.parametrize("size", [1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20 << 20])
    def test_an_output_appears_on_commit_and_not_before(self, site: Site, size: int) -> None:
        data = (os.urandom(1 << 16) * (size // (1 << 16) + 1))[:size]
        store, path = site.open("folder/out.bin")
        output = store.open_output(path)
        for start in range(0, size, 3 << 20):
            output.write(memoryview(data)[start : start + (3 << 20)])
        with pytest.raises(FileNotFoundError):
            store.info(path)
        assert site.names() == [] or all(name.endswith(".tmp") for name in site.names())
        committed = output.commit()
        assert (committed.path, committed.size) == (path, size)
        assert store.info(path).etag == (committed.etag or store.info(path).etag)
        check_same(site.get("folder/out.bin"), data)
        assert site.names() == ["folder/out.bin"]
        assert store.pending_uploads(path.rpartition("/")[0]) == []
        output.abort()
        assert site.names() == ["folder/out.bin"]

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_an_abort_leaves_nothing(self, site: Site, size: int) -> None:
        store, path = site.open("folder/out.bin")
        output = store.open_output(path)
        output.write(bytes(size))
        output.abort()
        output.abort()
        assert site.names() == []
        assert store.pending_uploads(path.rpartition("/")[0]) == []
        with pytest.raises(ValueError, match="after commit"):
            output.write(b"x")
        with pytest.raises(ValueError, match="after commit"):
            output.commit()

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_an_output_that_is_dropped_never_appears(self, site: Site, size: int) -> None:
        store, path = site.open("out.bin")
        output = store.open_output(path)
        output.write(bytes(size))
        del output
        assert site.names() == []

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_an_output_replaces_what_was_there(self, site: Site, size: int) -> None:
        site.put("x", b"old")
        store, path = site.open("x")
        output = store.open_output(path)
        output.write(bytes(size))
        assert site.get("x") == b"old"
        output.commit()
        assert site.get("x") == bytes(size)

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_if_absent_finds_the_path_taken(self, site: Site, size: int) -> None:
        site.put("x", b"old")
        store, path = site.open("x")
        output = store.open_output(path)
        output.write(bytes(size))
        with pytest.raises(FileExistsError) as fault:
            output.commit(if_absent=True)
        assert fault.value.filename == store.url(path)
        output.abort()
        assert site.get("x") == b"old"
        assert site.names() == ["x"]
        assert store.pending_uploads(site.open()[1]) == []

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_if_absent_writes_where_nothing_is(self, site: Site, size: int) -> None:
        store, path = site.open("x")
        output = store.open_output(path)
        output.write(bytes(size))
        output.commit(if_absent=True)
        assert site.get("x") == bytes(size)

    @pytest.mark.parametrize("size", [100, 20 << 20])
    def test_an_output_replaces_only_what_was_read(self, site: Site, size: int) -> None:
        store, path = site.open("x")
        first = store.put(path, b"one")
        if first.etag is None:
            pytest.skip("the store has no versions")

        def attempt(etag: str) -> ObjectInfo:
            output = store.open_output(path, if_match=etag)
            try:
                output.write(bytes(size))
                return output.commit()
            finally:
                output.abort()

        second = attempt(first.etag)
        assert site.get("x") == bytes(size)
        assert second.etag == store.info(path).etag
        store.put(path, b"three")
        with pytest.raises(FileExistsError):
            attempt(second.etag or "")
        assert site.get("x") == b"three"
        last = store.info(path).etag
        store.delete([path])
        with pytest.raises(FileExistsError):
            attempt(last or "")
        assert site.names() == []
        assert store.pending_uploads(site.open()[1]) == []

    def test_the_order_of_many_writes(self, site: Site) -> None:
        store, path = site.open("x")
        output = store.open_output(path)
        pieces = [b"%d," % number * 1000 for number in range(200)]
        for piece in pieces:
            output.write(piece)
        output.commit()
        assert site.get("x") == b"".join(pieces)

    def test_buffers_of_any_kind(self, site: Site) -> None:
        store, path = site.open("x")
        buffer = bytearray(DATA)
        store.put(path, memoryview(buffer)[1:])
        buffer[:] = bytes(len(buffer))  # it is the caller's again
        assert site.get("x") == DATA[1:]
        output = store.open_output(path)
        for piece in (bytearray(DATA), memoryview(DATA), DATA):
            output.write(piece)
        output.commit()
        assert site.get("x") == DATA * 3

    def test_a_wrong_crc_is_never_taken_for_the_stores_own(self, site: Site) -> None:
        """A store either refuses the bytes, or tells no checksum but one of what it holds."""
        store, path = site.open("x")
        output = store.open_output(path)
        output.write(DATA)
        try:
            committed = output.commit(crc32c=crc32c(DATA) ^ 1)
        except OSError:
            output.abort()
            assert site.names() == []
        else:
            assert committed.crc32c in (None, crc32c(DATA))
            assert store.info(path).crc32c in (None, crc32c(DATA))

    def test_the_crc_that_the_caller_knows(self, site: Site) -> None:
        store, path = site.open("x")
        output = store.open_output(path)
        output.write(DATA)
        committed = output.commit(crc32c=crc32c(DATA))
        assert committed.crc32c in (None, crc32c(DATA))
        assert store.info(path).crc32c in (None, crc32c(DATA))

    def test_one_of_16_puts_wins(self, site: Site) -> None:
        store, path = site.open("x")
        if not store.conditional:
            pytest.skip("the store decides no conditions")
        for round_ in range(3):

            def put(me: int, name: str = f"{path}{round_}") -> None:
                store.put(name, b"%d" % me, if_absent=True)

            won = race(put)
            assert len(won) == 1
            assert site.get(f"x{round_}") == b"%d" % won[0]

    def test_one_of_16_replacements_wins(self, site: Site) -> None:
        store, path = site.open("x")
        if not store.conditional:
            pytest.skip("the store decides no conditions")
        etag = store.put(path, b"first").etag
        won = race(lambda me: store.put(path, b"%d" % me, if_match=etag))
        assert len(won) == 1
        assert site.get("x") == b"%d" % won[0]

    def test_one_of_16_small_outputs_wins(self, site: Site) -> None:
        store, path = site.open("x")
        if not store.conditional:
            pytest.skip("the store decides no conditions")

        def attempt(me: int) -> None:
            output = store.open_output(path)
            output.write(b"%d" % me)
            try:
                output.commit(if_absent=True)
            finally:
                output.abort()

        won = race(attempt)
        assert len(won) == 1
        assert site.get("x") == b"%d" % won[0]
        assert site.names() == ["x"]

    def test_a_put_replaces_only_what_was_read(self, site: Site) -> None:
        store, path = site.open("x")
        first = store.put(path, b"one", if_absent=True)
        with pytest.raises(FileExistsError):
            store.put(path, b"two", if_absent=True)
        if first.etag is None:
            pytest.skip("the store has no versions")
        second = store.put(path, b"two", if_match=first.etag)
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_match=first.etag)
        assert site.get("x") == b"two"
        store.delete([path])
        with pytest.raises(FileExistsError):
            store.put(path, b"three", if_match=second.etag)
        assert site.names() == []

    def test_a_put_appears_whole(self, site: Site) -> None:
        """Who looks meanwhile finds all of the old object, or all of the new one."""
        store, path = site.open("folder/x")
        versions = [bytes([number]) * (200_000 + number) for number in range(8)]

        def begin() -> None:
            for number, data in enumerate(versions):
                store.put(f"{path}{number}", data)

        sizes, found = watched(store, f"{path}7", begin)
        assert sizes <= {len(data) for data in versions}
        assert all(data == versions[7] for data in found)
        store.put(path, versions[0])

        def replace() -> None:
            for data in versions:
                store.put(path, data)

        sizes, found = watched(store, path, replace, always=True)
        assert sizes <= {len(data) for data in versions}
        assert all(data in versions for data in found)

    def test_deleting_what_is_not_there(self, site: Site) -> None:
        store, path = site.open("x")
        site.put("x", b"x")
        site.put("y", b"y")
        store.delete([f"{path}-missing", path, f"{path}-missing-2", site.open("y")[1]])
        assert site.names() == []

    def test_a_delete_takes_no_more_than_its_name(self, site: Site) -> None:
        store, path = site.open("p")
        names = ["p/1", "p/2/3", "p0", "pp"]
        for name in names:
            site.put(name, name.encode())
        with contextlib.suppress(OSError):  # a folder is no object: some stores say so
            store.delete([path])
        with contextlib.suppress(OSError):
            store.delete_version(path, None)
        assert site.names() == names

    def test_a_version_is_deleted_and_no_other(self, site: Site) -> None:
        store, path = site.open("x")
        store.delete_version(path, None)
        first = store.put(path, b"one")
        if first.etag is not None:
            store.delete_version(path, first.etag)
            assert site.names() == []
            store.delete_version(path, first.etag)
            first = store.put(path, b"one")
            second = store.put(path, b"two")
            assert first.etag is not None
            store.delete_version(path, first.etag)
            assert site.get("x") == b"two"
            store.delete_version(path, second.etag)
            assert site.names() == []
            store.put(path, b"three")
        store.delete_version(path, None)
        assert site.names() == []

    @pytest.mark.parametrize("size", [0, 100, 6 << 20])
    def test_a_copy_is_a_new_object_of_the_same_bytes(self, site: Site, size: int) -> None:
        data = os.urandom(size)
        site.put("folder/x", data)
        store, path = site.open("folder/x")
        _, target = site.open("folder/y z%2B")
        copied = store.copy(path, target)
        assert (copied.path, copied.size) == (target, size)
        assert store.info(target).etag == copied.etag
        check_same(site.get("folder/y z%2B"), data)
        store.delete([path])
        check_same(site.get("folder/y z%2B"), data)
        assert store.pending_uploads(site.open("folder")[1]) == []

    @pytest.mark.parametrize("size", [100, 6 << 20])
    def test_a_copy_finds_its_target_taken(self, site: Site, size: int) -> None:
        site.put("x", os.urandom(size))
        site.put("y", b"another's")
        store, path = site.open("x")
        with pytest.raises(FileExistsError) as fault:
            store.copy(path, site.open("y")[1])
        assert fault.value.filename == store.url(site.open("y")[1])
        with pytest.raises(FileNotFoundError):
            store.copy(site.open("none")[1], site.open("z")[1])
        assert site.get("y") == b"another's"
        assert site.names() == ["x", "y"]
        assert store.pending_uploads(site.open()[1]) == []

    def test_a_copy_appears_whole(self, site: Site) -> None:
        data = os.urandom(6 << 20)
        site.put("x", data)
        store, path = site.open("x")
        target = site.open("folder/y")[1]

        def work() -> None:
            for _ in range(3):
                store.copy(path, target)
                store.delete([target])

        sizes, found = watched(store, target, work)
        assert sizes <= {len(data)}
        assert all(each == data for each in found)

    def test_one_of_16_copies_wins(self, site: Site) -> None:
        store, target = site.open("y")
        if not store.conditional:
            pytest.skip("the store decides no conditions")
        for number in range(16):
            site.put(f"x{number}", b"%d" % number)
        won = race(lambda me: store.copy(site.open(f"x{me}")[1], target))
        assert len(won) == 1
        assert site.get("y") == b"%d" % won[0]

    # Crashes, processes

    def test_leftovers_of_a_killed_writer_are_found_and_removed(self, site: Site) -> None:
        if site.one_process:
            pytest.skip("memory dies with its writer")
        context = multiprocessing.get_context("spawn")
        child = context.Process(target=begin_and_die, args=(site, "folder/x"))
        child.start()
        child.join(60)
        assert child.exitcode == -9
        store, folder = site.open("folder")
        assert list(store.list(folder)) == []
        pending = store.pending_uploads(folder)
        assert [upload.path for upload in pending] in ([], [site.open("folder/x")[1]])
        store.abort_uploads(pending)
        store.abort_uploads(pending)
        assert store.pending_uploads(folder) == []
        assert site.names() == []

    def test_uploads_elsewhere_are_not_listed(self, site: Site) -> None:
        store, path = site.open("a/x")
        output = store.open_output(path)
        output.write(bytes(9 << 20))
        wait_for_parts(output)
        assert store.pending_uploads(site.open("b")[1]) == []
        output.abort()

    def test_a_pickled_store_reaches_the_same_place(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)
        copy = pickle.loads(pickle.dumps(store))
        assert bytes(copy.read(path, 0, 10).result()) == DATA[:10]

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_a_child_process_makes_its_own_connections(self, site: Site, method: str) -> None:
        if method == "spawn" and site.one_process:
            pytest.skip("memory belongs to one process")
        store, path = site.open("x")
        store.put(path, DATA)
        for read in [store.read(path, 0, 100) for _ in range(20)]:
            read.result()  # the parent has connections, and threads
        context: Any = multiprocessing.get_context(method)
        queue = context.Queue()
        children = [
            context.Process(target=read_into, args=(queue, site, store, path)) for _ in range(2)
        ]
        for child in children:
            child.start()
        assert [queue.get(timeout=60) for _ in children] == [DATA[:100]] * 2
        for child in children:
            child.join(30)
            assert child.exitcode == 0
        assert bytes(store.read(path, 0, 100).result()) == DATA[:100]
        store.put(path, b"still here")

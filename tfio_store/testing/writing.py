"""Tests that every store passes when it writes, and when a process dies or forks."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tfio_store.storage import Store
from tfio_store.testing.reading import DATA
from tfio_store.testing.site import Site

__all__ = ["WritingTests"]


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
    queue.put(bytes(store.read(path, 0, 100).result()))  # type: ignore[attr-defined]


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
        assert site.get("folder/out.bin") == data
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

    def test_the_crc_that_the_caller_knows(self, site: Site) -> None:
        from tfio_store.records.framing import crc32c

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

    def test_deleting_what_is_not_there(self, site: Site) -> None:
        store, path = site.open("x")
        site.put("x", b"x")
        store.delete([path, f"{path}-missing"])
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
        assert site.get("folder/y z%2B") == data
        store.delete([path])
        assert site.get("folder/y z%2B") == data
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
        store.put(path, DATA)  # the parent has connections, and threads
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

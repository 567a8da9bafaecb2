"""What every store does, and does the same way."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.servers.place import Place
from tfio_store.storage import ReplacedError, Store, Version

DATA = bytes(range(256)) * 40

NAMES = [
    "plain.bin",
    "with space.bin",
    "a#b",
    "what?",
    "per%20cent%",
    "plus+and&amp",
    "ümläut-日本語.bin",
    "deep/er/still/name",
    "semi;colon,comma=equals",
    "-00000-of-00016.tfrecord",
]

LOST_BY_FSSPEC = {("az", "what?"), ("gs", "semi;colon,comma=equals")}
"""What adlfs (a query) and gcsfs (at the emulator) do not find again, although we do."""


def names_below(store: Store, folder: str) -> list[str]:
    return [found.path[len(folder) :].lstrip("/") for found in store.list(folder)]


# --- looking ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_any_name_goes_there_and_back(site: Place, name: str) -> None:
    store, path = site.open(name)
    assert store.put(path, DATA).path == path
    assert store.info(path).size == len(DATA)
    assert bytes(store.read(path, 1, 9).result()) == DATA[1:9]
    assert names_below(store, site.open()[1]) == [name]
    assert site.names() == [name]
    if (site.root.partition(":")[0], name) not in LOST_BY_FSSPEC:
        assert site.get(name) == DATA
    store.delete([path])
    assert site.names() == []


def test_info_tells_versions_apart(site: Place) -> None:
    store, path = site.open("x")
    first = store.put(path, b"one")
    assert store.info(path) == first or store.info(path).crc32c is not None
    if first.etag is not None:
        assert store.put(path, b"two").etag != first.etag


def test_what_is_missing_is_named(site: Place) -> None:
    store, path = site.open("folder/missing")
    with pytest.raises(FileNotFoundError) as info_fault:
        store.info(path)
    with pytest.raises(FileNotFoundError) as read_fault:
        store.read(path, 0, 10).result()
    assert info_fault.value.filename == read_fault.value.filename == store.url(path)


def test_a_folder_is_no_object(site: Place) -> None:
    store, path = site.open("folder/x")
    store.put(path, b"x")
    with pytest.raises(IsADirectoryError):
        store.info(path.rpartition("/")[0])


def test_url_is_what_a_person_types(site: Place) -> None:
    store, path = site.open("folder/x")
    assert store.url(path) == site.url("folder/x")


# --- reading ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "stop"),
    [(0, 10), (5, 5), (0, len(DATA)), (len(DATA) - 3, len(DATA)), (len(DATA) - 3, len(DATA) + 9),
     (len(DATA), len(DATA) + 1), (len(DATA) + 7, len(DATA) + 8), (0, 1 << 40)],
)  # fmt: skip
def test_a_range_ends_where_the_object_does(site: Place, start: int, stop: int) -> None:
    url = site.put("x", DATA)
    assert url
    store, path = site.open("x")
    assert bytes(store.read(path, start, stop).result()) == DATA[start:stop]


def test_an_empty_object(site: Place) -> None:
    store, path = site.open("empty")
    assert store.put(path, b"").size == 0
    assert store.info(path).size == 0
    assert bytes(store.read(path, 0, 10).result()) == b""
    output = store.open_output(f"{path}-2")
    assert output.commit().size == 0
    assert site.get("empty-2") == b""


def test_many_ranges_at_once(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)
    ranges = [(at * 37, at * 37 + 400) for at in range(200)]
    reads = [store.read(path, start, stop) for start, stop in ranges]
    assert [bytes(read.result()) for read in reads] == [DATA[a:b] for a, b in ranges]


def test_threads_share_a_store(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)

    def look(at: int) -> bool:
        own = f"{path}-{at}"
        store.put(own, DATA[:at])
        whole = bytes(store.read(path, 0, len(DATA)).result())
        return whole == DATA and store.info(own).size == at

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(look, range(40)))


def test_a_cancelled_read_leaves_the_store_in_order(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)
    for read in [store.read(path, 0, len(DATA)) for _ in range(30)]:
        read.cancel()
    assert bytes(store.read(path, 0, 10).result()) == DATA[:10]


@pytest.mark.parametrize("data", [b"", DATA], ids=["empty", "full"])
def test_get_brings_all_and_tells_what(site: Place, data: bytes) -> None:
    store, path = site.open("folder/x")
    put = store.put(path, data)
    got, info = store.get(path)
    assert got == data
    assert (info.path, info.size, info.etag) == (path, len(data), put.etag or info.etag)
    assert store.info(path).etag == info.etag
    assert store.get(path, most=len(data))[0] == data


def test_get_takes_no_more_than_it_may(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)
    with pytest.raises(OSError, match=f"{len(DATA)} bytes, and at most 100") as fault:
        store.get(path, most=100)
    assert fault.value.filename == store.url(path)


def test_get_of_what_is_no_object(site: Place) -> None:
    store, path = site.open("folder/x")
    with pytest.raises(FileNotFoundError) as fault:
        store.get(path)
    assert fault.value.filename == store.url(path)
    store.put(path, b"x")
    with pytest.raises(IsADirectoryError):
        store.get(path.rpartition("/")[0])


def test_get_while_the_object_is_replaced(site: Place) -> None:
    """What comes is one version whole, with that version's size and etag."""
    store, path = site.open("x")
    versions = [bytes([number]) * (5_000 + 1_000 * number) for number in range(4)]
    written = {store.put(path, data).etag: data for data in versions}
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            for data in versions:
                written[store.put(path, data).etag] = data

    writer = threading.Thread(target=replace)
    writer.start()
    try:
        found = [store.get(path) for _ in range(30)]
    finally:
        stop.set()
        writer.join()
    for data, info in found:
        assert data in versions
        assert info.size == len(data)
        assert written.get(info.etag, data) == data


def test_a_range_of_a_version(site: Place) -> None:
    """With an etag the bytes are of that version, or an error says that it is no more."""
    store, path = site.open("x")
    store.put(path, DATA)
    etag = store.info(path).etag
    assert bytes(store.read(path, 3, 99, etag=etag).result()) == DATA[3:99]
    assert bytes(store.read(path, len(DATA), len(DATA) + 1, etag=etag).result()) == b""
    store.put(path, DATA[::-1] + b"more")
    for start, stop in ((3, 99), (0, len(DATA)), (len(DATA) + 7, len(DATA) + 8)):
        with pytest.raises(ReplacedError, match="was replaced") as fault:
            store.read(path, start, stop, etag=etag).result()
        assert fault.value.filename == store.url(path)
    assert bytes(store.read(path, 0, 9).result()) == DATA[::-1][:9]
    store.delete([path])
    with pytest.raises(FileNotFoundError):
        store.read(path, 3, 99, etag=etag).result()


def test_a_version_is_learnt_with_the_first_range_and_held(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)
    version = Version()
    reads = [store.read(path, at, at + 10, etag=version) for at in range(0, 200, 10)]
    assert b"".join(bytes(read.result()) for read in reads) == DATA[:200]
    assert version.etag == store.info(path).etag
    store.put(path, DATA[::-1])
    with pytest.raises(ReplacedError):
        store.read(path, 0, 10, etag=version).result()


# --- listing ---------------------------------------------------------------------------------


def test_list_is_deep_and_sorted(site: Place) -> None:
    wanted = ["b/1", "b/2/3", "b/2/4", "b0", "b/-1"]
    for name in [*wanted, "a", "c/1"]:
        site.put(name, name.encode())
    store, folder = site.open("b")
    assert names_below(store, folder) == ["-1", "1", "2/3", "2/4"]
    assert [found.size for found in store.list(folder)] == [4, 3, 5, 5]


def test_a_list_of_nothing(site: Place) -> None:
    store, folder = site.open("no/such/folder")
    assert list(store.list(folder)) == []
    assert store.glob(f"{folder}/*") == []
    assert store.pending_uploads(folder) == []


def test_a_list_is_never_stale(site: Place) -> None:
    store, folder = site.open("d")
    for count in range(4):
        assert len(list(store.list(folder))) == len(store.glob(f"{folder}/*")) == count
        site.put(f"d/{count}", b"x")


def test_glob(site: Place) -> None:
    names = [
        "ds/train-0.rec",
        "ds/train-1.rec",
        "ds/val-0.rec",
        "ds/sub/train-2.rec",
        "ds2/train-3.rec",
    ]
    for name in names:
        site.put(name, b"x")
    store, root = site.open()

    def matching(pattern: str) -> list[str]:
        prefix = root.rstrip("/") + "/" if root else ""
        return [found.path[len(prefix) :] for found in store.glob(prefix + pattern)]

    assert matching("ds/train-*.rec") == names[:2]
    assert matching("ds/*") == names[:3]
    assert matching("ds/train-?.rec") == names[:2]
    assert matching("ds/train-[1-9].rec") == names[1:2]
    assert matching("ds*/train-*.rec") == [*names[:2], names[4]]
    assert matching("ds/**/train-*.rec") == [names[3], *names[:2]]
    assert matching("ds/train-0.rec") == names[:1]
    assert matching("ds/none*") == []


def test_more_objects_than_a_page_holds(site: Place) -> None:
    store, folder = site.open("many")
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda at: store.put(f"{folder}/{at:05}", b"x"), range(1105)))
    listed = list(store.list(folder))
    assert [found.path for found in listed] == [f"{folder}/{at:05}" for at in range(1105)]
    assert len(store.glob(f"{folder}/*")) == 1105
    store.delete(found.path for found in listed)
    assert list(store.list(folder)) == []


# --- writing ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 20 << 20])
def test_an_output_appears_on_commit_and_not_before(site: Place, size: int) -> None:
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
def test_an_abort_leaves_nothing(site: Place, size: int) -> None:
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
def test_an_output_that_is_dropped_never_appears(site: Place, size: int) -> None:
    store, path = site.open("out.bin")
    output = store.open_output(path)
    output.write(bytes(size))
    del output
    assert site.names() == []


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_an_output_replaces_what_was_there(site: Place, size: int) -> None:
    site.put("x", b"old")
    store, path = site.open("x")
    output = store.open_output(path)
    output.write(bytes(size))
    assert site.get("x") == b"old"
    output.commit()
    assert site.get("x") == bytes(size)


@pytest.mark.parametrize("size", [100, 20 << 20])
def test_if_absent_finds_the_path_taken(site: Place, size: int) -> None:
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
def test_if_absent_writes_where_nothing_is(site: Place, size: int) -> None:
    store, path = site.open("x")
    output = store.open_output(path)
    output.write(bytes(size))
    output.commit(if_absent=True)
    assert site.get("x") == bytes(size)


def test_the_crc_that_the_caller_knows(site: Place) -> None:
    from tfio_store.records.framing import crc32c

    store, path = site.open("x")
    output = store.open_output(path)
    output.write(DATA)
    committed = output.commit(crc32c=crc32c(DATA))
    assert committed.crc32c in (None, crc32c(DATA))
    assert store.info(path).crc32c in (None, crc32c(DATA))


def race(site: Place, attempt: object) -> list[int]:
    """The numbers of those of 16 racers, starting together, who met no FileExistsError."""
    start = threading.Barrier(16)

    def run(number: int) -> int | None:
        start.wait()
        try:
            attempt(number)  # type: ignore[operator]
        except FileExistsError:
            return None
        return number

    with ThreadPoolExecutor(16) as threads:
        return [number for number in threads.map(run, range(16)) if number is not None]


def test_one_of_16_puts_wins(site: Place) -> None:
    store, path = site.open("x")
    if not store.conditional:
        pytest.skip("the store decides no conditions")
    for round_ in range(3):
        name = f"{path}{round_}"
        won = race(site, lambda me, name=name: store.put(name, b"%d" % me, if_absent=True))
        assert len(won) == 1
        assert site.get(f"x{round_}") == b"%d" % won[0]


def test_one_of_16_replacements_wins(site: Place) -> None:
    store, path = site.open("x")
    if not store.conditional:
        pytest.skip("the store decides no conditions")
    etag = store.put(path, b"first").etag
    won = race(site, lambda me: store.put(path, b"%d" % me, if_match=etag))
    assert len(won) == 1
    assert site.get("x") == b"%d" % won[0]


def test_one_of_16_small_outputs_wins(site: Place) -> None:
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

    won = race(site, attempt)
    assert len(won) == 1
    assert site.get("x") == b"%d" % won[0]
    assert site.names() == ["x"]


def test_a_put_replaces_only_what_was_read(site: Place) -> None:
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


def test_deleting_what_is_not_there(site: Place) -> None:
    store, path = site.open("x")
    site.put("x", b"x")
    store.delete([path, f"{path}-missing"])
    assert site.names() == []


# --- crashes, processes ----------------------------------------------------------------------


def begin_and_die(site: Place, name: str) -> None:
    store, path = site.open(name)
    output = store.open_output(path)
    for _ in range(12):
        output.write(bytes(1 << 20))
    wait_for_parts(output)
    os.kill(os.getpid(), 9)


def wait_for_parts(output: object) -> None:
    for future in list(getattr(output, "_travelling", ())):
        future.result()


def test_leftovers_of_a_killed_writer_are_found_and_removed(site: Place) -> None:
    if site.root.startswith("memory:"):
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


def test_uploads_elsewhere_are_not_listed(site: Place) -> None:
    store, path = site.open("a/x")
    output = store.open_output(path)
    output.write(bytes(9 << 20))
    wait_for_parts(output)
    assert store.pending_uploads(site.open("b")[1]) == []
    output.abort()


def test_a_pickled_store_reaches_the_same_place(site: Place) -> None:
    store, path = site.open("x")
    store.put(path, DATA)
    copy = pickle.loads(pickle.dumps(store))
    assert bytes(copy.read(path, 0, 10).result()) == DATA[:10]


def read_into(queue: object, store: Store, path: str) -> None:
    queue.put(bytes(store.read(path, 0, 100).result()))  # type: ignore[attr-defined]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_child_process_makes_its_own_connections(site: Place, method: str) -> None:
    if method == "spawn" and site.root.startswith("memory:"):
        pytest.skip("memory belongs to one process")
    store, path = site.open("x")
    store.put(path, DATA)  # the parent has connections, and threads
    context: Any = multiprocessing.get_context(method)
    queue = context.Queue()
    children = [context.Process(target=read_into, args=(queue, store, path)) for _ in range(2)]
    for child in children:
        child.start()
    assert [queue.get(timeout=60) for _ in children] == [DATA[:100]] * 2
    for child in children:
        child.join(30)
        assert child.exitcode == 0
    assert bytes(store.read(path, 0, 100).result()) == DATA[:100]
    store.put(path, b"still here")


def test_repr_tells_no_secrets(site: Place) -> None:
    store, _ = site.open("x")
    for secret in ("testsecret", "Eby8vdM02xNOcqFl"):
        assert secret not in repr(store)

"""Tests that every store passes when it is read."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tfio_store.errors import ReplacedError
from tfio_store.storage import Store, Version
from tfio_store.testing.site import Site

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


def check_same(found: bytes, expected: bytes) -> None:
    """Fail the test where they differ. To show the difference of megabytes takes pytest minutes."""
    if found != expected:
        places = enumerate(zip(found, expected, strict=False))
        at = next((at for at, (a, b) in places if a != b), min(len(found), len(expected)))
        pytest.fail(
            f"{len(found)} bytes, which differ from byte {at} on from the {len(expected)} expected"
        )


def names_below(store: Store, folder: str) -> list[str]:
    return [found.path[len(folder) :].lstrip("/") for found in store.list(folder)]


class ReadingTests:
    """Tests of what every store answers when it is asked, looked at and read."""

    # Looking

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name_goes_there_and_back(self, site: Site, name: str) -> None:
        store, path = site.open(name)
        assert store.put(path, DATA).path == path
        assert store.info(path).size == len(DATA)
        assert bytes(store.read(path, 1, 9).result()) == DATA[1:9]
        assert names_below(store, site.open()[1]) == [name]
        assert site.names() == [name]
        if site.is_seen(name):
            assert site.get(name) == DATA
        store.delete([path])
        assert site.names() == []

    def test_info_tells_when_an_object_was_written(self, site: Site) -> None:
        store, path = site.open("x")
        before = time.time()
        store.put(path, DATA)
        modified = store.info(path).modified
        assert modified is not None
        assert before - 60 < modified < time.time() + 60

    def test_info_tells_versions_apart(self, site: Site) -> None:
        store, path = site.open("x")
        first = store.put(path, b"one")
        assert store.info(path) == first or store.info(path).crc32c is not None
        if first.etag is not None:
            assert store.put(path, b"two").etag != first.etag

    def test_what_is_missing_is_named(self, site: Site) -> None:
        store, path = site.open("folder/missing")
        with pytest.raises(FileNotFoundError) as info_fault:
            store.info(path)
        with pytest.raises(FileNotFoundError) as read_fault:
            store.read(path, 0, 10).result()
        assert info_fault.value.filename == read_fault.value.filename == store.url(path)

    def test_a_folder_is_no_object(self, site: Site) -> None:
        store, path = site.open("folder/x")
        store.put(path, b"x")
        with pytest.raises(IsADirectoryError):
            store.info(path.rpartition("/")[0])

    def test_url_is_what_a_person_types(self, site: Site) -> None:
        store, path = site.open("folder/x")
        assert store.url(path) == site.url("folder/x")

    @pytest.mark.parametrize("name", ["folder/x", "a#b", "per%20cent%"])
    def test_an_address_opens_the_same_object(self, site: Site, name: str) -> None:
        store, path = site.open(name)
        put = store.put(path, DATA)
        again, same = site.open_url(store.address(path))
        assert same == path
        assert again.get(same)[0] == DATA
        assert again.info(same).etag == (put.etag or again.info(same).etag)

    def test_a_look_answers_what_info_does(self, site: Site) -> None:
        store, path = site.open("folder/x")
        assert store.look(path) is None
        for data in (b"one", b"another"):
            store.put(path, data)
            found = store.look(path)
            assert found is not None
            assert found.size == len(data)
            assert found == store.info(path)
        assert store.look(path.rpartition("/")[0]) is None
        site.put("folder/x", DATA)
        found = store.look(path)
        assert found is not None
        assert found.size == store.info(path).size == len(DATA)
        store.delete([path])
        assert store.look(path) is None
        with pytest.raises(FileNotFoundError):
            store.info(path)

    # Reading

    @pytest.mark.parametrize(
        ("start", "stop"),
        [
            (0, 10),
            (5, 5),
            (0, len(DATA)),
            (len(DATA) - 3, len(DATA)),
            (len(DATA) - 3, len(DATA) + 9),
            (len(DATA), len(DATA) + 1),
            (len(DATA) + 7, len(DATA) + 8),
            (0, 1 << 40),
        ],
    )
    def test_a_range_ends_where_the_object_does(self, site: Site, start: int, stop: int) -> None:
        site.put("x", DATA)
        store, path = site.open("x")
        assert bytes(store.read(path, start, stop).result()) == DATA[start:stop]

    def test_a_long_range_comes_whole(self, site: Site) -> None:
        """One answer may bring less than was asked for, and the store asks again."""
        size = (9 << 20) + 7
        data = (os.urandom(1 << 16) * (size // (1 << 16) + 1))[:size]
        store, path = site.open("x")
        store.put(path, data)
        for start, stop in ((0, size), (1, (1 << 16) + 2), (3, 5 << 20), (size - (1 << 20), size)):
            check_same(bytes(store.read(path, start, stop).result()), data[start:stop])
        check_same(store.get(path)[0], data)

    def test_an_empty_object(self, site: Site) -> None:
        store, path = site.open("empty")
        assert store.put(path, b"").size == 0
        assert store.info(path).size == 0
        assert bytes(store.read(path, 0, 10).result()) == b""
        output = store.open_output(f"{path}-2")
        assert output.commit().size == 0
        assert site.get("empty-2") == b""

    def test_many_ranges_at_once(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)
        ranges = [(at * 37, at * 37 + 400) for at in range(200)]
        reads = [store.read(path, start, stop) for start, stop in ranges]
        for read, (start, stop) in zip(reads, ranges, strict=True):
            assert bytes(read.result()) == DATA[start:stop]

    def test_threads_share_a_store(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)

        def look(at: int) -> bool:
            own = f"{path}-{at}"
            store.put(own, DATA[:at])
            whole = bytes(store.read(path, 0, len(DATA)).result())
            return whole == DATA and store.info(own).size == at

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(look, range(40)))

    def test_a_cancelled_read_leaves_the_store_in_order(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)
        for read in [store.read(path, 0, len(DATA)) for _ in range(30)]:
            read.cancel()
        assert bytes(store.read(path, 0, 10).result()) == DATA[:10]

    @pytest.mark.parametrize("data", [b"", DATA], ids=["empty", "full"])
    def test_get_brings_all_and_tells_what(self, site: Site, data: bytes) -> None:
        store, path = site.open("folder/x")
        put = store.put(path, data)
        got, info = store.get(path)
        assert got == data
        assert (info.path, info.size, info.etag) == (path, len(data), put.etag or info.etag)
        assert store.info(path).etag == info.etag
        assert store.get(path, most=len(data))[0] == data

    def test_get_takes_no_more_than_it_may(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)
        with pytest.raises(OSError, match=f"{len(DATA)} bytes, and at most 100") as fault:
            store.get(path, most=100)
        assert fault.value.filename == store.url(path)

    def test_get_of_what_is_no_object(self, site: Site) -> None:
        store, path = site.open("folder/x")
        with pytest.raises(FileNotFoundError) as fault:
            store.get(path)
        assert fault.value.filename == store.url(path)
        store.put(path, b"x")
        with pytest.raises((IsADirectoryError, FileNotFoundError)):  # one request tells no folder
            store.get(path.rpartition("/")[0])

    def test_get_while_the_object_is_replaced(self, site: Site) -> None:
        """What comes is one version whole, with that version's size and etag."""
        store, path = site.open("x")
        versions = [bytes([number]) * (5_000 + 1_000 * number) for number in range(4)]
        written = {store.put(path, data).etag: data for data in versions}
        stop = threading.Event()

        def replace() -> None:
            while not stop.is_set():
                for data in versions:
                    written[store.put(path, data).etag] = data
                    stop.wait(0.005)  # a reader may give up where no look meets the same twice

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

    def test_a_range_of_a_version(self, site: Site) -> None:
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
        with pytest.raises((FileNotFoundError, ReplacedError)):
            store.read(path, 3, 99, etag=etag).result()

    def test_a_version_is_learnt_with_the_first_range_and_held(self, site: Site) -> None:
        store, path = site.open("x")
        store.put(path, DATA)
        version = Version()
        reads = [store.read(path, at, at + 10, etag=version) for at in range(0, 200, 10)]
        assert b"".join(bytes(read.result()) for read in reads) == DATA[:200]
        assert version.etag == store.info(path).etag
        store.put(path, DATA[::-1])
        with pytest.raises(ReplacedError):
            store.read(path, 0, 10, etag=version).result()

    # Listing

    def test_a_listing_tells_what_info_does(self, site: Site) -> None:
        """A reader takes versions and sizes from a listing, and asks for ranges of just these."""
        store, folder = site.open("d")
        for name in ("one", "two"):
            store.put(f"{folder}/{name}", name.encode() * 9)
        store.put(f"{folder}/two", b"2")
        wanted = [store.info(f"{folder}/{name}") for name in ("one", "two")]
        for found in (list(store.list(folder)), store.glob(f"{folder}/*")):
            assert [(one.path, one.size, one.etag) for one in found] == [
                (one.path, one.size, one.etag) for one in wanted
            ]

    def test_list_is_deep_and_sorted(self, site: Site) -> None:
        wanted = ["b/1", "b/2/3", "b/2/4", "b0", "b/-1"]
        for name in [*wanted, "a", "c/1"]:
            site.put(name, name.encode())
        store, folder = site.open("b")
        assert names_below(store, folder) == ["-1", "1", "2/3", "2/4"]
        assert [found.size for found in store.list(folder)] == [4, 3, 5, 5]

    def test_a_list_of_nothing(self, site: Site) -> None:
        store, folder = site.open("no/such/folder")
        assert list(store.list(folder)) == []
        assert store.glob(f"{folder}/*") == []
        assert store.pending_uploads(folder) == []

    def test_a_list_is_never_stale(self, site: Site) -> None:
        store, folder = site.open("d")
        for count in range(4):
            assert len(list(store.list(folder))) == len(store.glob(f"{folder}/*")) == count
            site.put(f"d/{count}", b"x")

    def test_glob(self, site: Site) -> None:
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

    def test_more_objects_than_a_page_holds(self, site: Site) -> None:
        store, folder = site.open("many")
        many = range(site.page_objects + 5)
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda at: store.put(f"{folder}/{at:05}", b"x"), many))
        listed = list(store.list(folder))
        assert [found.path for found in listed] == [f"{folder}/{at:05}" for at in many]
        assert len(store.glob(f"{folder}/*")) == len(many)
        store.delete(found.path for found in listed)
        assert list(store.list(folder)) == []

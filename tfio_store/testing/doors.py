"""Tests that every door passes."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
import pickle
import threading
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from tfio_store.errors import (
    CorruptRecordError,
    DataLossError,
    DataLossWarning,
    RecordTooLargeError,
    ReplacedError,
    TruncatedRecordError,
)
from tfio_store.records.framing import masked_crc32c
from tfio_store.storage import Storage
from tfio_store.testing.door import Door, has
from tfio_store.testing.site import Site
from tfio_store.testing.sources import COUNT, KINDS, framed, numbers_of, written

ALL = list(range(COUNT))
NAMES = ("späce ship/ü %41#?.tfrecord", "[a] b.tfrecord", "a,b", "x@2", "{1..2}", "日本")


def needs(*what: str) -> Callable[[Any], Any]:
    """Marks a test of what not every door has."""

    def mark(test: Any) -> Any:
        test.needs = what
        return test

    return mark


class DoorTests(Door):
    """Tests for pytest that every door passes. The library's own doors run them too.

    A door opens a source and gives its records to a framework: a loader, or an engine's source.
    Subclass the tests in a test module. Say by `open` how a source is opened, and by `numbers`
    which records a step gave. With `state` and `resume` its states are tested, with `share` its
    shares, and with `shuffle` its orders. Attributes say what it can't do.

    Example:
        >>> import tfio_store as tfs
        >>> from tfio_store.testing import DoorTests
        >>> class TestMyLoader(DoorTests):
        ...     def open(self, source, **options):
        ...         return tfs.RecordReader(source, **options)
        ...     def state(self, opened, steps):
        ...         return opened.state()
        ...     def resume(self, opened, state):
        ...         opened.restore(state)
        ...         return iter(opened)
    """

    def __init_subclass__(cls) -> None:
        """A test of what the door does not have is none of its tests."""
        for name, test in vars(DoorTests).items():
            if hasattr(test, "needs"):
                theirs = getattr(cls, name) or test
                setattr(cls, name, theirs if all(has(cls, what) for what in test.needs) else None)

    @pytest.fixture
    def site(self, tmp_path: Path) -> Site:
        """Make a place for the files of a test; a fixture.

        Args:
            tmp_path (Path): pytest's folder.

        Returns:
            Site: A local folder, unless overridden.
        """
        return Site(str(tmp_path))

    def _open(self, site: Site, source: Any, **options: Any) -> Any:
        return self.open(source, storage=site.storage, **options)

    def _rest(self, steps: Iterable[Any]) -> list[int]:
        return [number for step in steps for number in self.numbers(step)]

    def _all(self, opened: Any) -> list[int]:
        return self._rest(self.steps(opened))

    def _check(self, found: list[int], expected: list[int]) -> None:
        assert sorted(found) == sorted(expected)
        assert found == expected or not self.keeps_order

    # Order

    @pytest.mark.parametrize("kind", KINDS)
    def test_each_record_comes_once_in_each_pass(self, site: Site, kind: str) -> None:
        source = written(site, kind)
        if kind == "GZIP file" and not self.reads_streams:
            with pytest.raises(ValueError, match="is one GZIP stream"):
                self._all(self._open(site, source))
            return
        opened = self._open(site, source)
        for _ in range(2):
            self._check(self._all(opened), numbers_of(site, kind))

    def test_files_of_a_pattern_come_by_name(self, site: Site) -> None:
        for number in (3, 1, 2):
            site.put(f"x-{number}", framed([number]))
        site.put("other", framed([0]))
        self._check(self._all(self._open(site, site.url("x-*"))), [1, 2, 3])

    def test_a_pass_that_has_ended_stays_ended(self, site: Site) -> None:
        steps = self.steps(self._open(site, written(site, "file")))
        assert len(self._rest(steps)) == COUNT
        assert self._rest(steps) == []

    def test_no_records(self, site: Site) -> None:
        site.put("empty", b"")
        site.put("one", framed([7]))
        empty = site.url("empty")
        assert self._all(self._open(site, empty)) == []
        assert self._all(self._open(site, [empty, site.url("one"), empty])) == [7]
        assert self._all(self._open(site, written(site, "dataset", range(0)))) == []

    # Names and options

    @pytest.mark.parametrize("name", NAMES)
    def test_any_name(self, site: Site, name: str) -> None:
        site.put(name, framed([7]))
        assert self._all(self._open(site, site.url(name))) == [7]

    @pytest.mark.parametrize("name", ["nothing-here", "nothing-*"])
    def test_what_is_missing_is_named(self, site: Site, name: str) -> None:
        with pytest.raises(self.error(FileNotFoundError)) as caught:
            self._all(self._open(site, site.url(name)))
        assert name in str(caught.value)

    @needs("wrong")
    def test_wrong_options_are_refused_by_name(self, site: Site) -> None:
        source = written(site, "dataset")
        for name, values in self.wrong.items():
            for value in values:
                with pytest.raises((TypeError, ValueError), match=name):
                    self._all(self._open(site, source, **{name: value}))

    # Damage

    def _fails(self, site: Site, kind: type[Exception]) -> tuple[list[int], Any]:
        """What is given of the file "x" before its error, and the error."""
        given = list[int]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(self.error(kind)) as caught:
                self._take(self.steps(self._open(site, site.url("x"))), given, kind)
        return given, caught.value

    def _take(self, steps: Iterator[Any], given: list[int], kind: type[Exception]) -> None:
        try:
            for step in steps:
                given += self.numbers(step)
        except self.error(kind):
            if self.fails_again:
                with pytest.raises(self.error(kind)):
                    next(steps)
            raise

    @pytest.mark.parametrize("at", [3, 9, 20, -3])  # a length, its CRC, the data, their CRC
    def test_damage_is_named(self, site: Site, at: int) -> None:
        data, start = bytearray(framed(ALL)), len(framed(range(300)))
        data[(start if at > 0 else len(framed(range(301)))) + at] ^= 4
        site.put("x", data)
        given, error = self._fails(site, CorruptRecordError)
        path, offset = self.place(error)
        assert (path.rpartition("/")[2], offset) == ("x", start)
        assert given == ALL[: len(given)]
        assert len(given) <= 300

    @pytest.mark.parametrize("cut", [5, 30])
    def test_a_cut_file_has_no_silent_end(self, site: Site, cut: int) -> None:
        site.put("x", framed(ALL)[: len(framed(range(300))) + cut])
        given, error = self._fails(site, TruncatedRecordError)
        assert self.place(error)[1] == len(framed(range(300)))
        assert given == ALL[: len(given)]

    def test_a_length_that_lies_takes_no_memory(self, site: Site) -> None:
        length = (1 << 60).to_bytes(8, "little")
        header = length + masked_crc32c(length).to_bytes(4, "little")
        site.put("x", framed(range(3)) + header + bytes(99))
        assert self._fails(site, RecordTooLargeError)[0] in ([], [0, 1, 2])

    def test_what_is_no_tfrecord_says_what_it_looks_like(self, site: Site) -> None:
        site.put("x", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)))
        assert "looks like a PNG" in str(self._fails(site, DataLossError)[1])

    @needs("skips")
    @pytest.mark.parametrize("kind", ["dataset", "file"])
    def test_damage_is_skipped_with_a_word(self, site: Site, kind: str) -> None:
        source = written(site, kind)
        expected = numbers_of(site, kind)
        name = "train-00000-of-00003.tfrecord" if kind == "dataset" else "x"
        data = bytearray(site.get(name))
        data[len(framed(range(3))) + 20] ^= 1
        site.put(name, data)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = self._all(self._open(site, source, on_corrupt="skip"))
            gc.collect()
        self._check(found, expected[:3] + expected[4:])
        texts = [str(each.message) for each in told if each.category is DataLossWarning]
        assert len(texts) == self.warns
        assert all(f"{name}: 1 damaged region skipped" in text for text in texts)

    # Files that are replaced

    @pytest.mark.parametrize("begun", [False, True])
    def test_no_pass_mixes_two_versions(self, site: Site, begun: bool) -> None:
        old, new = list(range(1_500)), list(range(2_000, 3_500))
        site.put("x", framed(old, 4000))
        steps = self.steps(self._open(site, site.url("x")))
        given = self.numbers(next(steps)) if begun else []
        _replace(site, "x", framed(new, 4000))
        try:
            given += self._rest(steps)
        except self.error(ReplacedError):
            assert set(given) <= set(old)
        else:
            assert sorted(given) in (old, new)
        self._check(self._all(self._open(site, site.url("x"))), new)

    def test_swapped_shards_are_found_out(self, site: Site) -> None:
        source = written(site, "dataset", range(1000, 1600))
        names = [f"train-0000{shard}-of-00003.tfrecord" for shard in (0, 1)]
        first, second = map(site.get, names)
        assert len(first) == len(second)
        site.put(names[0], second)
        site.put(names[1], first)
        with pytest.raises(self.error(ReplacedError)):
            self._all(self._open(site, source))

    # Processes

    @needs("pickles")
    def test_a_small_pickle_reads_the_same(self, site: Site) -> None:
        opened = self._open(site, written(site, "dataset"))
        copy = pickle.dumps(opened)
        assert len(copy) < 100_000
        assert self._all(pickle.loads(copy)) == self._all(opened)

    @needs("forks")
    def test_a_forked_child_reads_and_its_parent_reads_on(self, site: Site) -> None:
        opened = self._open(site, written(site, "dataset"))
        steps = self.steps(opened)
        given = self.numbers(next(steps))
        receive, send = multiprocessing.Pipe(duplex=False)
        child = os.fork()
        if child == 0:
            try:
                send.send(self._all(opened))
            finally:
                os._exit(0)
        assert receive.poll(120)
        found = receive.recv()  # the whole, or what comes next in a door of one position
        assert os.waitpid(child, 0)[1] == 0
        assert sorted(found) in (ALL, sorted({*ALL} - {*given}))
        assert sorted(given + self._rest(steps)) == ALL

    def test_dropped_passes_leave_nothing(self, site: Site) -> None:
        opened = self._open(site, written(site, "dataset"))
        self._all(opened)
        files, threads = _held()
        for _ in range(20):
            next(self.steps(opened), None)
        gc.collect()
        assert _held()[0] - files <= 4
        assert _held()[1] - threads <= 20  # pools that all share may still grow

    # States

    @needs("state")
    @pytest.mark.parametrize("kind", KINDS)
    def test_a_state_goes_on_with_the_very_next_record(self, site: Site, kind: str) -> None:
        source = written(site, kind)
        if kind != "GZIP file" or self.reads_streams:
            self._check_states(lambda: self._open(site, source))

    def _check_states(self, make: Callable[[], Any]) -> None:
        whole = [self.numbers(step) for step in self.steps(make())]
        for at in sorted({0, 1, len(whole) // 3, len(whole) - 1, len(whole)}):
            opened = make()
            steps = self.steps(opened)
            assert [self.numbers(step) for step in islice(steps, at)] == whole[:at]
            if at == len(whole):
                assert next(steps, None) is None
            state = json.loads(json.dumps(self.state(opened, steps)))
            rest = [self.numbers(step) for step in self.resume(make(), state)]
            if at < len(whole):
                assert rest == whole[at:], at
            else:  # nothing, or the next pass
                assert sorted(chain(*rest)) in ([], sorted(chain(*whole)))

    def _state_of(self, opened: Any) -> Any:
        """That of a pass which has given one step."""
        steps = self.steps(opened)
        next(steps)
        return self.state(opened, steps)

    @needs("state", "binds_states")
    def test_a_state_of_another_source_is_refused(self, site: Site) -> None:
        state = self._state_of(self._open(site, written(site, "dataset")))
        other = self._open(site, written(site, "file", range(1000, 1600)))
        with pytest.raises(ValueError):  # noqa: PT011 - each door has its own words
            self._rest(self.resume(other, state))

    @needs("state", "binds_states")
    def test_a_state_of_a_file_that_was_rewritten_is_refused(self, site: Site) -> None:
        source = written(site, "file")
        state = self._state_of(self._open(site, source))
        _replace(site, "x", framed(range(1000, 1000 + COUNT)))
        with pytest.raises((ReplacedError, ValueError)):
            self._rest(self.resume(self._open(site, source), state))

    @needs("state", "binds_states")
    @pytest.mark.parametrize("wrong", [3, [1], {}])
    def test_what_is_no_state_is_refused(self, site: Site, wrong: Any) -> None:
        opened = self._open(site, written(site, "file"))
        with pytest.raises((ValueError, TypeError)):
            self._rest(self.resume(opened, wrong))

    @needs("state")
    def test_a_state_holds_no_secret(self) -> None:
        storage = Storage({"key": "S3CR3T", "token": "S3CR3T"})
        site = Site(f"memory://{uuid.uuid4().hex}", storage, one_process=True)
        assert "S3CR3T" not in json.dumps(self._state_of(self._open(site, written(site, "file"))))

    # Shares and orders

    @needs("share")
    @pytest.mark.parametrize("kind", KINDS)
    def test_shares_hold_each_record_once(self, site: Site, kind: str) -> None:
        if kind == "GZIP file" and not self.reads_streams:
            return
        source = written(site, kind)
        for count in (2, 5):
            assert sorted(chain(*self._shares(site, source, count))) == ALL

    @needs("share")
    def test_more_shares_than_records(self, site: Site) -> None:
        found = self._shares(site, written(site, "dataset", range(3)), 8)
        assert sorted(chain(*found)) == [0, 1, 2]

    def _shares(self, site: Site, source: Any, count: int) -> list[list[int]]:
        how = {"storage": site.storage}
        return [self._all(self.share(source, index, count, **how)) for index in range(count)]

    @needs("shuffle")
    @pytest.mark.parametrize("kind", KINDS[:4])
    def test_a_seed_is_one_order_of_all_records(self, site: Site, kind: str) -> None:
        source = written(site, kind)
        orders = [self._all(self._shuffle(site, source, seed)) for seed in (1, 1, 2)]
        assert [sorted(order) for order in orders] == [ALL] * 3
        assert orders[0] == orders[1] not in (orders[2], numbers_of(site, kind))

    def _shuffle(self, site: Site, source: Any, seed: int) -> Any:
        return self.shuffle(source, seed, storage=site.storage)

    @needs("shuffle", "state", "binds_orders")
    def test_states_are_of_one_order(self, site: Site) -> None:
        source = written(site, "GZIP dataset")
        self._check_states(lambda: self._shuffle(site, source, 1))
        state = self._state_of(self._shuffle(site, source, 1))
        for other in (self._shuffle(site, source, 2), self._open(site, source)):
            with pytest.raises(ValueError):  # noqa: PT011 - each door has its own words
                self._rest(self.resume(other, state))


def _replace(site: Site, name: str, data: bytes) -> None:
    """By a new object, as writers do; not into the old one's bytes."""
    store, path = site.open(name)
    output = store.open_output(path)
    output.write(data)
    output.commit()


def _held() -> tuple[int, int]:
    """How many files this process has open, and how many threads."""
    files = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    return files, threading.active_count()

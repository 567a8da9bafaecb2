"""A reader has one position, however many iterators are out: no record twice, none lost."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.support.framed import framed

RECORDS = [b"%d:" % i + bytes(i * 7919 % 30_000) for i in range(400)]  # about 6 batches


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "x").write_bytes(framed(RECORDS))
    return tmp_path / "x"


def take(records: Iterator[bytes], count: int) -> list[bytes]:
    return list(itertools.islice(records, count))


class TestClosed:
    @pytest.mark.parametrize("begin", [iter, tfs.RecordReader.batches])
    @pytest.mark.parametrize("used", [0, 1, 5])
    def test_a_waiting_iterator_says_so(self, path: Path, begin: Any, used: int) -> None:
        with tfs.RecordReader(path) as reader:
            found = begin(reader)
            assert len(take(found, used)) == used
        for _ in range(2):
            with pytest.raises(ValueError, match="closed"):
                next(found)
        with pytest.raises(ValueError, match="closed"):
            begin(reader)

    def test_an_iterator_that_had_ended_still_has(self, path: Path) -> None:
        with tfs.RecordReader(path) as reader:
            each, found = iter(reader), reader.batches()
            assert list(each) == RECORDS
        assert next(each, None) is None
        assert next(found, None) is None

    @pytest.mark.parametrize("used", [0, 3, len(RECORDS)])
    def test_the_state_stays(self, path: Path, used: int) -> None:
        reader = tfs.RecordReader(path)
        assert take(iter(reader), used) == RECORDS[:used]
        before = reader.state()
        reader.close()
        reader.close()
        assert reader.state() == before


class TestRestored:
    def test_an_iterator_goes_on_from_there(self, path: Path) -> None:
        reader = tfs.RecordReader(path)
        each, found = iter(reader), reader.batches()
        assert take(each, 3) == RECORDS[:3]
        state = reader.state()
        assert take(each, 30) == RECORDS[3:33]
        reader.restore(state)
        assert take(each, 2) == RECORDS[3:5]
        reader.restore(state)
        assert next(found)[0] == RECORDS[3]
        reader.restore(state)
        assert take(iter(reader), 500) == RECORDS[3:]

    def test_an_iterator_that_had_ended_still_has(self, path: Path) -> None:
        reader = tfs.RecordReader(path)
        state, each, found = reader.state(), iter(reader), reader.batches()
        assert list(each) == RECORDS
        reader.restore(state)
        assert next(each, None) is None
        assert next(found, None) is None
        assert list(reader) == RECORDS

    def test_a_refused_state_changes_nothing(self, path: Path) -> None:
        reader = tfs.RecordReader(path)
        each = iter(reader)
        assert take(each, 3) == RECORDS[:3]
        with pytest.raises(ValueError, match="state="):
            reader.restore(reader.state() | {"records": -1})
        assert list(each) == RECORDS[3:]


class TestSeveralHandles:
    def test_batches_take_over_from_an_iterator_and_back(self, path: Path) -> None:
        reader = tfs.RecordReader(path)
        each, found = iter(reader), reader.batches()
        seen = take(each, 3)
        seen += next(found)
        seen += take(each, 3)
        seen += take(iter(reader), 3)
        seen += next(reader.batches())
        seen += next(found)
        seen += each
        assert seen == RECORDS
        assert next(found, None) is None

    def test_those_of_an_epoch_end_with_it(self, path: Path) -> None:
        reader = tfs.RecordReader(path)
        each, found = iter(reader), reader.batches()
        assert take(each, 1) == RECORDS[:1]
        assert list(itertools.chain(*found)) == RECORDS[1:]
        assert list(each) == list(found) == []
        assert list(reader) == RECORDS

    @pytest.mark.parametrize("arrange", ["in order", "shuffled"])
    @pytest.mark.parametrize("seed", range(20))
    def test_any_calls_in_any_order(self, path: Path, arrange: str, seed: int) -> None:
        def made() -> tfs.RecordReader:
            reader = tfs.RecordReader(path)
            return reader.shuffle(1, window=1) if arrange == "shuffled" else reader

        whole, reader, chosen = list(made()), made(), random.Random(seed)
        at, states = 0, [(0, reader.state())]
        records: list[Iterator[bytes]] = [iter(reader)]
        batches: list[Iterator[Any]] = [reader.batches()]
        while at < len(whole):
            call = chosen.choice(("record", "record", "batch", "iter", "batches", "state", "back"))
            got: list[bytes] = []
            if call == "record":
                got = take(chosen.choice(records), chosen.choice((1, 10)))
            elif call == "batch":
                got = list(next(chosen.choice(batches), ()))
            elif call == "iter":
                records.append(iter(reader))
            elif call == "batches":
                batches.append(reader.batches())
            elif call == "state":
                states.append((at, reader.state()))
            elif chosen.random() < 0.2:
                at, state = chosen.choice(states)
                reader.restore(state)
            assert got == whole[at : at + len(got)], (call, at)
            at += len(got)
        assert [next(handle, None) for handle in records + batches] == [None] * (
            len(records) + len(batches)
        )

"""Appenders at once, and readers of generations that are replaced under them."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_commit import write


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(str(tmp_path))


# Appending


def test_twenty_appenders_at_once_all_land(place: Place) -> None:
    failures: list[BaseException] = []

    def append(i: int) -> None:
        try:
            write(place, [b"%d:%d" % (i, j) for j in range(20)], if_exists="append", num_shards=1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=append, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(read(place, "ds/train")) == sorted(
        b"%d:%d" % (i, j) for i in range(20) for j in range(20)
    )
    assert sorted(tfs.RecordSource(place.url("ds/train"))) == sorted(read(place, "ds/train"))
    cleaned(place, keep_replaced=False)
    assert len(place.names()) == 20 + 2


@pytest.mark.parametrize("codec", [None, "GZIP"])
def test_an_append_without_the_index_of_the_old_raises(place: Place, codec: str | None) -> None:
    write(place, [b"old"] * 8, compression=codec)
    os.unlink(place.url("ds/_train.index"))
    before = {name: place.get(name) for name in place.names()}
    with pytest.raises(FileNotFoundError, match=r"_train\.index"):
        write(place, [b"new"] * 8, compression=codec, if_exists="append")
    assert {name: place.get(name) for name in place.names()} == before


# Readers under writers


@pytest.mark.parametrize("keep_replaced", [0, 3600])
@pytest.mark.parametrize("if_exists", ["append", "overwrite"])
def test_opening_while_others_commit(place: Place, if_exists: str, keep_replaced: float) -> None:
    write(place, [b"x"])
    end = threading.Event()

    def commit() -> None:
        while not end.is_set():
            write(place, [b"x"], if_exists=if_exists, keep_replaced=keep_replaced, num_shards=1)

    thread = threading.Thread(target=commit)
    thread.start()
    try:
        for _ in range(60):
            with tfs.RecordReader(place.url("ds/train")):
                pass
    finally:
        end.set()
        thread.join()


def test_who_has_opened_a_generation_reads_it_to_the_end(place: Place) -> None:
    write(place, [b"old-%d" % i for i in range(100)])
    reader, source = (
        tfs.RecordReader(place.url("ds/train")),
        tfs.RecordSource(place.url("ds/train")),
    )
    records = iter(reader)
    first = next(records)
    for turn in range(3):
        write(place, [b"new-%d" % turn] * 10, if_exists="overwrite")
        cleaned(place)
    assert sorted([first, *records]) == sorted(b"old-%d" % i for i in range(100))
    assert sorted(source) == sorted(b"old-%d" % i for i in range(100))


def test_replaced_generations_go_when_their_time_is_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(place, [b"a"] * 8)
    write(place, [b"b"] * 8, if_exists="overwrite", keep_replaced=100)
    assert len(place.names()) == 11
    cleaned(place)
    assert len(place.names()) == 11
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 101)
    write(place, [b"c"] * 8, if_exists="overwrite", keep_replaced=100)
    assert len(place.names()) == 11  # without the first
    monkeypatch.setattr(time, "time", lambda: now + 202)
    assert len(cleaned(place).objects) == 5
    assert len(place.names()) == 6
    assert read(place, "ds/train") == [b"c"] * 8


def test_clean_removes_replaced_generations_at_once_if_told_to(place: Place) -> None:
    write(place, [b"a"] * 8)
    write(place, [b"b"] * 8, if_exists="overwrite")
    assert len(cleaned(place, keep_replaced=False).objects) == 5
    assert len(place.names()) == 6


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", True])
def test_keep_replaced_takes_seconds(place: Place, wrong: Any) -> None:
    with pytest.raises(ValueError, match="keep_replaced"):
        sharded(place, keep_replaced=wrong)


def test_a_folder_with_brackets_in_its_name_opens(place: Place) -> None:
    write(place, [b"a"] * 8)
    os.rename(place.url("ds"), place.url("d[s]"))
    for source in ("d[s]", "d[s]/train"):
        assert len(list(tfs.RecordReader(place.url(source)))) == 8
    tfs.clean(place.url("d[s]/train"), older_than=0)
    assert len(list(tfs.RecordReader(place.url("d[s]")))) == 8


def test_a_copied_folder_is_a_dataset_of_its_own(place: Place) -> None:
    write(place, [b"a"] * 8)
    shutil.copytree(place.url("ds"), place.url("copy"))
    write(place, [b"b"], if_exists="overwrite", keep_replaced=0)
    assert len(list(tfs.RecordReader(place.url("copy/train")))) == 8


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize(("keep_replaced", "entries"), [(3600, 1), (0, 0)])
def test_tables_and_salvaged_datasets_keep_what_they_replace(
    place: Place, keep_replaced: float, entries: int
) -> None:
    write(place, [b"x"] * 8)
    options: dict[str, Any] = {"if_exists": "overwrite", "keep_replaced": keep_replaced}
    for _ in range(2):
        table = tfs.write_table({"x": [1]}, place.url("table/t"), **options)
        tfs.salvage(place.url("ds/train"), place.url("copy/c"), **options)
    copy = tfs.DatasetManifest.from_bytes(place.get("copy/_c.manifest.json"))
    assert [len(table.replaced), len(copy.replaced)] == [entries, entries]

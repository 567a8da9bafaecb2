"""Long datasets, whose last page an append replaces and deletes while others still mean it."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
import tfio_store.write.parts as parts
from tests.servers.place import Place
from tests.support.sharded import read, sharded
from tests.write.test_long_datasets import append, lists
from tfio_store.dataset.folder import Root

pytestmark = pytest.mark.usefixtures("pages_of_three")


def long_dataset(place: Place) -> list[bytes]:
    """One full page, and one of a single shard."""
    with sharded(place, num_shards=3, if_exists="overwrite", keep_replaced=0) as writer:
        writer.write_batch([b"a", b"b", b"c"])
    append(place, [b"d"])
    return read(place, "ds/train")


Open = Callable[[Place], Callable[[], list[bytes]]]


def _source(place: Place) -> Callable[[], list[bytes]]:
    source = tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)
    return lambda: source[:]


def _reader(place: Place) -> Callable[[], list[bytes]]:
    reader = tfs.RecordReader(place.url("ds/train"), storage_options=place.storage_options)
    return lambda: sorted(reader.shuffle(1))


def _pickled(place: Place) -> Callable[[], list[bytes]]:
    source = tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)
    assert len(source[:]) == 4
    data = pickle.dumps(source)
    return lambda: [pickle.loads(data)[i] for i in range(4)]


def test_an_append_takes_no_page_away_from_who_has_opened(place: Place) -> None:
    before = long_dataset(place)
    records = _source(place)
    append(place, [b"more"])
    assert records() == before
    assert read(place, "ds/train") == [*before, b"more"]


@pytest.mark.parametrize("opened", [_source, _reader, _pickled])
@pytest.mark.parametrize("appends", [1, 4])
def test_appends_take_no_page_away(memory: Place, opened: Open, appends: int) -> None:
    before = long_dataset(memory)
    records = opened(memory)
    for _ in range(appends):
        append(memory, [b"more"])
    assert records() == before


def test_a_page_that_is_replaced_while_it_is_read_again(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = long_dataset(memory)
    records = _source(memory)
    append(memory, [b"more"])
    ask, asked = Root.pages_now, list[int]()

    def pages_now(self: Root) -> Any:
        pages = ask(self)
        asked.append(len(pages))
        if len(asked) == 1:
            append(memory, [b"and more"])
        return pages

    monkeypatch.setattr(Root, "pages_now", pages_now)
    assert records() == before
    assert len(asked) == 2


def test_an_overwrite_is_not_taken_for_an_append(memory: Place) -> None:
    long_dataset(memory)
    records = _source(memory)
    gone = lists(memory)
    long_dataset(memory)
    with pytest.raises(FileNotFoundError) as raised:
        records()
    assert any(name in str(raised.value) for name in gone)


@pytest.mark.parametrize("other", ["append", "overwrite"])
def test_an_append_that_is_overtaken_begins_again(
    memory: Place, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    before = long_dataset(memory)
    put, tries = parts.put_parts, list[str]()

    def overtaken(*args: Any, **options: Any) -> Any:
        tries.append(other)
        if len(tries) == 1:
            append(memory, [b"x"], if_exists=other)
        return put(*args, **options)

    with sharded(memory, num_shards=1, if_exists="append", keep_replaced=0) as late:
        late.write(b"late")
        monkeypatch.setattr("tfio_store.write.commit.put_parts", overtaken)
    assert read(memory, "ds/train") == (before if other == "append" else []) + [b"x", b"late"]
    assert {name.removeprefix("ds/") for name in memory.names()} == {
        *late.manifest.names(), "_train.manifest.json",
    }  # fmt: skip

"""Damage to the lists and tables of long datasets, here with pages of three shards, and roots that
lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.indexes import root_bytes
from tests.support.sharded import numbered, read, root, sharded
from tfio_store.errors import ManifestError

pytestmark = pytest.mark.usefixtures("pages_of_three")


Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "flipped": lambda data: data[:24] + bytes([data[24] ^ 1]) + data[25:],
    "cut": lambda data: data[: len(data) - 9],
    "empty": lambda data: b"",
    "another": lambda data: bytes(len(data)),
}


@pytest.mark.parametrize("part", ["page", "tables"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named(place: Place, part: str, damage: Damage) -> None:
    with sharded(place, compression="GZIP") as writer:
        writer.write_batch(numbered(40))
    (name,) = [name for name in place.names() if "_train.index" in name]
    whole, first = place.get(name), root(place)["pages"][0][1]
    tables, pages = whole[:first], whole[first:]
    if part == "page":
        place.put(name, tables + damage(pages))
    else:
        hurt = damage(tables[16:])
        place.put(name, tables[:16] + hurt + bytes(len(tables) - 16 - len(hurt)) + pages)
    with pytest.raises(ManifestError, match=name):
        read(place, "ds/train")
    with pytest.raises(ManifestError, match=name):
        tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)[:]


def test_a_damaged_list_can_be_overwritten(place: Place) -> None:
    for _ in range(2):
        with sharded(place, if_exists="overwrite") as writer:
            writer.write_batch(numbered(8))
    for name in [name for name in place.names() if "_train.index" in name]:
        place.put(name, b"damaged")
    with (
        pytest.warns(RuntimeWarning, match="cannot be listed"),
        sharded(place, if_exists="overwrite", keep_replaced=0) as writer,
    ):
        writer.write_batch([b"new"] * 8)
    assert read(place, "ds/train") == [b"new"] * 8


def test_a_missing_index_is_named(place: Place) -> None:
    with sharded(place, compression="GZIP") as writer:
        writer.write_batch(numbered(40))
    (name,) = [name for name in place.names() if "_train.index" in name]
    place.fs.rm(place.url(name))
    with pytest.raises(FileNotFoundError, match=name):
        read(place, "ds/train")


def test_pages_that_are_swapped_are_noticed(place: Place) -> None:
    with sharded(place, num_shards=6) as writer:
        writer.write_batch(numbered(6))
    document = root(place)
    first, second = document["pages"]
    first[1], second[1] = second[1], first[1]
    place.put("ds/_train.manifest.json", root_bytes(document))
    with pytest.raises(ManifestError, match="page"):
        read(place, "ds/train")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(shards=[]), "shards"),
        (lambda d: d.update(objects={}), "no lists"),
        (lambda d: d.update(records=9), "records"),
        (lambda d: d.update(version=3), "version 3"),
        (lambda d: d["objects"][0].__setitem__(0, "../x"), "not a name"),
        (lambda d: d["objects"][0].__setitem__(0, 1), "not a string"),
        (lambda d: d["objects"][0].__setitem__(1, 100), "do not lie in"),
        (lambda d: d.update(objects=[]), "object 0 of 0"),
        (lambda d: d["pages"].append([1]), "11 counts"),
        (lambda d: d["pages"][0].__setitem__(1, 8), "byte 8"),
        (lambda d: d["pages"][0].__setitem__(2, 1 << 40), "bytes"),
        (lambda d: d["pages"][0].__setitem__(3, 1 << 32), "byte"),
        (lambda d: d["pages"][0].__setitem__(5, 1 << 40), "do not lie in"),
        (lambda d: d["pages"][0].__setitem__(6, 4096), "4096 shards"),
        (lambda d: d["pages"][0].__setitem__(9, -1), "counts"),
        (lambda d: d["pages"][0].__setitem__(9, True), "counts"),
        (lambda d: [page.__setitem__(9, 1 << 62) for page in d["pages"]], "more blocks"),
    ],
)
def test_a_root_that_lies_is_refused(
    memory: Place, change: Callable[[Any], Any], says: str
) -> None:
    with sharded(memory) as writer:
        writer.write_batch(numbered(8))
    document = root(memory)
    change(document)
    memory.put("ds/_train.manifest.json", root_bytes(document))
    with pytest.raises(ManifestError, match=says):
        read(memory, "ds/train")

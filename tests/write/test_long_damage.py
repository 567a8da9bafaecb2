"""Damage to the lists and tables of long datasets, here with pages of three shards, and roots that
lie."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import tfio_store as tfs
import tfio_store.write.parts as parts
from tests.servers.place import Place
from tests.support.sharded import numbered, read, sharded
from tfio_store.errors import ManifestError


@pytest.fixture(autouse=True)
def _long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PAGE_SHARDS", 3)
    monkeypatch.setattr(parts, "MOST_LISTED", 2)


def root(place: Place) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(place.get("ds/_train.manifest.json"))
    del found["crc32c"]  # for those who change it
    return found


Damage = Callable[[bytes], bytes]

DAMAGES: dict[str, Damage] = {
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "cut": lambda data: data[:60],
    "empty": lambda data: b"",
    "another": lambda data: data[:16] + bytes(len(data) - 16),
}


@pytest.mark.parametrize("part", ["shards", "index"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damage_is_named(place: Place, part: str, damage: Damage) -> None:
    with sharded(place, compression="GZIP") as writer:
        writer.write_batch(numbered(40))
    name = next(name for name in place.names() if f"_train.{part}." in name)
    place.put(name, damage(place.get(name)))
    with pytest.raises(ManifestError, match=name):
        read(place, "ds/train")
    with pytest.raises(ManifestError, match=name):
        tfs.RecordSource(place.url("ds/train"), storage_options=place.storage_options)[0]


def test_a_damaged_list_can_be_overwritten(place: Place) -> None:
    for _ in range(2):
        with sharded(place, if_exists="overwrite") as writer:
            writer.write_batch(numbered(8))
    for name in [name for name in place.names() if "_train.shards." in name]:
        place.put(name, b"damaged")
    with (
        pytest.warns(RuntimeWarning, match="cannot be listed"),
        sharded(place, if_exists="overwrite", keep_replaced=0) as writer,
    ):
        writer.write_batch([b"new"] * 8)
    assert read(place, "ds/train") == [b"new"] * 8


@pytest.mark.parametrize("part", ["shards", "index"])
def test_a_missing_part_is_named(place: Place, part: str) -> None:
    with sharded(place, compression="GZIP") as writer:
        writer.write_batch(numbered(40))
    name = next(name for name in place.names() if f"_train.{part}." in name)
    place.fs.rm(place.url(name))
    with pytest.raises(FileNotFoundError, match=name):
        read(place, "ds/train")


def test_pages_that_are_swapped_are_noticed(place: Place) -> None:
    with sharded(place, num_shards=6) as writer:
        writer.write_batch(numbered(6))
    document = root(place)
    first, second = document["shards"]["pages"]
    first[1], second[1] = second[1], first[1]
    place.put("ds/_train.manifest.json", json.dumps(document).encode())
    with pytest.raises(ManifestError, match="page"):
        read(place, "ds/train")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(shards=[]), "shards"),
        (lambda d: d.update(shards={}), "lists of objects and pages"),
        (lambda d: d.update(index="_train.index"), "index"),
        (lambda d: d.update(records=9), "records"),
        (lambda d: d.update(version=3), "version 3"),
        (lambda d: d["shards"].update(objects=["../x"]), "not a name"),
        (lambda d: d["shards"].update(objects=[1]), "not a string"),
        (lambda d: d["shards"].update(objects=[]), "object 0 of 0"),
        (lambda d: d["shards"]["pages"].append([1]), "8 counts"),
        (lambda d: d["shards"]["pages"][0].__setitem__(1, 8), "byte 8"),
        (lambda d: d["shards"]["pages"][0].__setitem__(2, 1 << 40), "bytes"),
        (lambda d: d["shards"]["pages"][0].__setitem__(3, 4096), "4096 shards"),
        (lambda d: d["shards"]["pages"][0].__setitem__(6, -1), "counts"),
        (lambda d: d["shards"]["pages"][0].__setitem__(6, True), "counts"),
        (lambda d: d["shards"]["pages"][0].__setitem__(7, 1 << 32), "byte"),
        (lambda d: [page.__setitem__(6, 1 << 62) for page in d["shards"]["pages"]], "more blocks"),
    ],
)
def test_a_root_that_lies_is_refused(
    memory: Place, change: Callable[[Any], Any], says: str
) -> None:
    with sharded(memory) as writer:
        writer.write_batch(numbered(8))
    document = root(memory)
    change(document)
    memory.put("ds/_train.manifest.json", json.dumps(document).encode())
    with pytest.raises(ManifestError, match=says):
        read(memory, "ds/train")

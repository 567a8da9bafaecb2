"""Long datasets that share a folder, of which one is damaged or is replaced meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.maintain.test_clean import cleaned
from tests.servers.place import Place
from tests.support.indexes import root_bytes
from tests.support.sharded import numbered, read, sharded
from tfio_store.dataset.manifest import DatasetManifest

pytestmark = pytest.mark.usefixtures("pages_of_three")


def lists(place: Place) -> list[str]:
    return [name for name in place.names() if "_train.index" in name]


def _damaged(place: Place) -> None:
    document = json.loads(place.get("ds/_alias.manifest.json"))
    document["pages"][2][3] ^= 1
    place.put("ds/_alias.manifest.json", root_bytes(document))


def _cut(place: Place) -> None:
    data = place.get("ds/_alias.manifest.json")
    place.put("ds/_alias.manifest.json", data[: len(data) // 2])


def _missing(place: Place) -> None:
    document = json.loads(place.get("ds/_alias.manifest.json"))
    document["objects"][0][0] = "_elsewhere.index.0123456789ab-00000000"
    place.put("ds/_alias.manifest.json", root_bytes(document))


@pytest.mark.parametrize("harm", [_damaged, _cut, _missing])
def test_nothing_goes_while_nobody_knows_what_a_neighbour_names(
    memory: Place, harm: Callable[[Place], None]
) -> None:
    with sharded(memory, num_shards=7) as writer:
        writer.write_batch(numbered(21))
    manifest, expected = memory.get("ds/_train.manifest.json"), read(memory, "ds/train")
    memory.put("ds/_alias.manifest.json", manifest)
    harm(memory)
    before = set(memory.names()) - set(lists(memory))  # a root names all of its index itself
    with (
        pytest.warns(RuntimeWarning, match="_alias.manifest.json may name any object"),
        sharded(memory, if_exists="overwrite", keep_replaced=0) as writer,
    ):
        writer.write(b"new")
    with pytest.warns(RuntimeWarning, match="repair or remove that dataset"):
        assert cleaned(memory).objects == ()
    assert before <= set(memory.names())
    if harm is not _missing:
        memory.put("ds/_alias.manifest.json", manifest)
        assert read(memory, "ds/alias") == expected
    memory.fs.rm(memory.url("ds/_alias.manifest.json"))
    cleaned(memory)  # which publishes too
    shards = [name for name in memory.names() if "/train-" in name]
    assert len(shards) == len(writer.manifest.shards) == len(memory.names()) - 2
    assert read(memory, "ds/train") == [b"new"]


def test_a_neighbour_that_is_replaced_meanwhile_is_read_again(
    memory: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ds/train", "ds/other"):
        with sharded(memory, name) as writer:
            writer.write_batch(numbered(8))
    names = DatasetManifest.names
    again: list[bool] = []

    def replaced(manifest: DatasetManifest) -> set[str]:
        if not again and any("_other." in name for name in manifest.parts()):
            again.append(True)
            with sharded(memory, "ds/other", if_exists="overwrite", keep_replaced=0) as writer:
                writer.write_batch(numbered(16))
        return names(manifest)

    with sharded(memory, if_exists="overwrite", keep_replaced=0) as writer:
        writer.write(b"new")
        monkeypatch.setattr(DatasetManifest, "names", replaced)
    assert again
    assert {name.removeprefix("ds/") for name in memory.names() if "train" in name} == {
        *writer.manifest.names(), "_train.manifest.json",
    }  # fmt: skip

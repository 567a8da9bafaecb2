"""The name of a folder as a target: readers take it for the dataset in the folder, and a new
dataset of that name beside the folder would hide it from them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
from tests.support.sharded import read, sharded

OLD = [b"one", b"two", b"three"]


def filled(place: Place, name: str = "data/train") -> dict[str, Any]:
    with sharded(place, name, num_shards=1) as writer:
        writer.write_batch(OLD)
    return {"storage_options": place.storage_options}


def said(place: Place, dataset: str = "train") -> str:
    url = place.url("data").split("://")[-1]
    return rf"is a folder with the dataset '{dataset}'; name .*{url}/{dataset}: "


@pytest.mark.parametrize("if_exists", ["error", "append", "overwrite"])
def test_no_writer_hides_the_dataset_in_a_folder(place: Place, if_exists: Any) -> None:
    options = filled(place)
    before = place.names()
    url = place.url("data")
    for begin in (tfs.ShardedWriter, tfs.WriteJob):
        for name in (url, f"{url}@2"):
            with pytest.raises(IsADirectoryError, match=said(place)):
                begin(name, if_exists=if_exists, **options)
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.write_table({"x": [1]}, url, if_exists=if_exists, **options)
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.copy(url, url, if_exists=if_exists, **options)
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.salvage(url, url, if_exists=if_exists, **options)
    assert place.names() == before
    assert read(place, "data") == OLD
    tfs.salvage(place.url("data/train"), place.url("data/train"), if_exists="overwrite", **options)
    assert read(place, "data") == OLD


def test_build_index_hides_no_dataset_either(place: Place) -> None:
    options = filled(place)
    place.put("part-0", framed([b"x"]))
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.build_index(place.url("part-0"), place.url("data"), **options)
    assert read(place, "data") == OLD


def test_files_of_others_that_readers_take_for_a_dataset(place: Place) -> None:
    for i in range(2):
        place.put(f"data/part-{i:05d}-of-00002.tfrecord", framed([b"%d" % i]))
    with pytest.raises(IsADirectoryError, match=r"with the files part@2\.tfrecord, and whoever"):
        sharded(place, "data")
    assert read(place, "data") == [b"0", b"1"]


def test_a_folder_that_stands_for_no_dataset_may_have_one_beside_it(place: Place) -> None:
    """Readers of its name got an error."""
    for name in ("out/train", "out/val"):
        filled(place, name)
    with sharded(place, "out", num_shards=1) as writer:
        writer.write(b"beside")
    assert read(place, "out") == [b"beside"]
    place.put("images/a.jpg", b"x")
    place.put("images/part-0.tfrecord", framed([b"x"]))
    place.put("images/unknown", b"x")
    with sharded(place, "images", num_shards=1) as writer:
        writer.write(b"beside")
    assert read(place, "images") == [b"beside"]


def test_a_dataset_that_was_beside_the_folder_before(tmp_path: Path) -> None:
    """Readers of the name get that one already, and a writer goes on with it."""
    place = Place(str(tmp_path))
    with sharded(place, "data", num_shards=1) as writer:
        writer.write(b"first")
    filled(place)
    with sharded(place, "data", num_shards=1, if_exists="append") as writer:
        writer.write(b"second")
    assert read(place, "data") == [b"first", b"second"]


def test_a_manifest_among_thousands_of_files(place: Place) -> None:
    filled(place)
    manifest = place.get("data/_train.manifest.json")
    folder = place.open("data")
    for i in range(1001):
        folder[0].put(f"{folder[1]}/{i:05d}.jpg", b"")
    assert place.get("data/_train.manifest.json") == manifest
    with pytest.raises(IsADirectoryError, match=said(place)):
        sharded(place, "data")


def test_one_listing_more_for_a_new_dataset_and_none_for_another(
    s3: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfio_store.storage.cloud.bucket_store import BucketStore

    asked: list[str] = []
    real = BucketStore.some_names

    def counted(self: BucketStore, folder: str, beginning: str) -> Any:
        asked.append(folder)
        return real(self, folder, beginning)

    monkeypatch.setattr(BucketStore, "some_names", counted)
    filled(s3)
    assert [folder.rpartition("/")[2] for folder in asked] == ["train"]
    for if_exists in ("append", "overwrite"):
        sharded(s3, "data/train", if_exists=if_exists).close()
    assert len(asked) == 1


# --- clean ----------------------------------------------------------------------------------------


def test_clean_of_a_folder_names_the_datasets_in_it(place: Place) -> None:
    options = filled(place)
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.clean(place.url("data"), **options)
    filled(place, "data/val")
    with pytest.raises(IsADirectoryError, match=r"several datasets; name one of .*train, .*/val"):
        tfs.clean(place.url("data"), older_than=0, **options)
    assert read(place, "data/train") == read(place, "data/val") == OLD


def test_clean_of_a_folder_names_a_dataset_that_was_not_committed(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    writer = sharded(place, "data/train")
    with pytest.raises(IsADirectoryError, match=said(place)):
        tfs.clean(place.url("data"), older_than=0)
    writer.close()


def test_clean_of_a_dataset_beside_a_folder_of_its_name(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    sharded(place, "data", num_shards=1).close()
    filled(place)
    assert tfs.clean(place.url("data")) == tfs.results.Leftovers((), (), ())
    shutil.rmtree(tmp_path / "data")
    assert tfs.clean(place.url("data")) == tfs.results.Leftovers((), (), ())

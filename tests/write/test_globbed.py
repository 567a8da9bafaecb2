"""What readers find that know no manifest, and list ``train-*``: the records that were committed
last, from the moment on at which the commit returns, and never those of two generations."""

from __future__ import annotations

import glob
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.indexes import all_long
from tfio_store.records.framing import RecordDecoder
from tfio_store.storage.local import LocalStore
from tfio_store.write import commit


def options(place: Place) -> dict[str, Any]:
    return {"storage_options": place.storage_options}


def write(place: Place, if_exists: Any, *records: bytes, shards: int = 2, **more: Any) -> None:
    url = place.url("ds/train")
    with tfs.ShardedWriter(
        url, num_shards=shards, if_exists=if_exists, **more, **options(place)
    ) as writer:
        writer.write_batch(list(records))


def globbed(place: Place) -> list[bytes]:
    """The records that plain TFRecord readers find, each file by its own name."""
    names = [name for name in place.names() if name.startswith("ds/train-")]
    found: list[bytes] = []
    for name in names:
        data = place.get(name)
        decoder = RecordDecoder(path=name)
        found += map(bytes, decoder.feed(data))
        decoder.finish()
    return sorted(found)


def test_a_first_write_publishes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes no request more than what it writes."""
    asked: list[str] = []
    for name in ("copy", "glob", "put"):
        method = getattr(LocalStore, name)

        def noted(*args: Any, method: Any = method, name: str = name, **options: Any) -> Any:
            asked.append(name)
            return method(*args, **options)

        monkeypatch.setattr(LocalStore, name, noted)
    place = Place(str(tmp_path))
    write(place, "error", b"one", b"two")
    # the claim, and what is there; shards noted in it; index, claim, manifest
    assert asked == ["put", "glob", "put", "put", "put", "put"]
    assert globbed(place) == [b"one", b"two"]


def test_names_that_are_listed_by_hand_are_missing_and_not_old(tmp_path: Path) -> None:
    place = Place(str(tmp_path))
    write(place, "error", b"old0", b"old1")
    names = sorted(glob.glob(f"{tmp_path}/ds/train-*"))
    write(place, "overwrite", b"new")
    with pytest.raises(FileNotFoundError):
        list(tfs.RecordReader(names))


def test_what_others_have_replaced_stays(tmp_path: Path) -> None:
    """A file of another size in a shard's place leaves nothing to be published beside it."""
    place = Place(str(tmp_path))
    write(place, "error", b"old0", b"old1")
    place.put("ds/train-00000-of-00002.tfrecord", b"another program's")
    with pytest.warns(RuntimeWarning, match="names as its shards have .train-00000-of-00002"):
        write(place, "overwrite", b"new")
    assert place.get("ds/train-00000-of-00002.tfrecord") == b"another program's"
    assert list(tfs.RecordReader(place.url("ds/train"))) == [b"new"]
    os.unlink(place.url("ds/train-00000-of-00002.tfrecord"))
    tfs.clean(place.url("ds/train"))
    assert globbed(place) == [b"new"]


def test_a_reader_of_shards_that_are_published_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has opened the manifest that commits, and reads on when the second one is there."""
    url = place.url("ds/train")
    write(place, "error", b"old")
    seen: list[Any] = []
    publish: Any = vars(commit)["publish"]

    def read_first(*args: Any, **how: Any) -> Any:
        seen.append(tfs.RecordReader(url, **options(place)))
        seen.append(iter(seen[0].batches()))
        return publish(*args, **how)

    monkeypatch.setattr(commit, "publish", read_first)
    write(place, "overwrite", *(b"new%d" % i for i in range(8)), shards=4)
    found = sorted(bytes(record) for batch in seen[1] for record in batch)
    assert found == [b"new%d" % i for i in range(8)]


@pytest.mark.parametrize("name", ["train", "train-0123456789ab"])
def test_files_of_a_pattern_are_known_by_their_manifest(tmp_path: Path, name: str) -> None:
    url = str(tmp_path / name)
    for if_exists in ("error", "overwrite", "append"):
        mode: Any = if_exists
        with tfs.ShardedWriter(url, num_shards=2, if_exists=mode, compression="GZIP") as writer:
            writer.write_batch([b"x"] * 10)
        found = tfs.open(f"{url}-*")
        assert found.num_records == writer.manifest.records
        assert found.has_blocks


def test_a_part_of_a_long_dataset_that_was_replaced(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_long(monkeypatch)
    records = [b"old%02d" % i for i in range(12)]
    with tfs.ShardedWriter(place.url("ds/train"), max_shard_records=2, **options(place)) as writer:
        writer.write_batch(records)
    part = tfs.slice(place.url("ds/train"), "5:")
    cut = pickle.loads(pickle.dumps(tfs.RecordSource(part, **options(place))))
    write(place, "overwrite", b"new")
    assert cut[:] == records[5:]

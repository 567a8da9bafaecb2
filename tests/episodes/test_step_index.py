"""The index of steps: made once, bound to the files' versions, and checked."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import tfio_store as tfs
from tests.episodes.robots import episode, written
from tests.episodes.same import same
from tests.servers.place import Place
from tests.support.indexes import container, section
from tfio_store.dataset.container import payload_of, sections
from tfio_store.dataset.folder import Folder
from tfio_store.episodes import step_index
from tfio_store.episodes.step_index import ShardSteps, decode_index, encode_index

LENGTHS = (5, 1, 9, 3, 12)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tfio_store" / "steps"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(tmp_path / "arm" / "1.0.0", LENGTHS)


def index_of(url: str) -> Path:
    return Path(url).parent / "_train.steps"


def test_the_writer_knows_what_a_pass_finds(url: str) -> None:
    by_writer = decode_index(index_of(url).read_bytes(), url="")
    index_of(url).unlink()
    found = tfs.Episodes(url, save_index=True)
    assert found.lengths.tolist() == [5, 9, 12, 1, 3]
    again = decode_index(index_of(url).read_bytes(), url="")
    for one, other in zip(by_writer, again, strict=True):
        assert (one.name, one.nbytes, one.etag) == (other.name, other.nbytes, other.etag)
        assert one.starts is not None
        assert other.starts is not None
        assert one.steps.tolist() == other.steps.tolist()
        assert one.starts.tolist() == other.starts.tolist()


@pytest.fixture
def no_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, no record is looked into for its steps."""

    def refuse() -> None:
        def fail(*_: object) -> Any:
            raise AssertionError("the index was made again")

        monkeypatch.setattr(step_index, "steps_of", fail)

    return refuse


def test_it_is_made_once(url: str, no_pass: Callable[[], None]) -> None:
    index_of(url).unlink()
    tfs.Episodes(url, save_index=True)
    no_pass()
    assert len(tfs.Episodes(url).steps) == 30


def test_it_is_not_saved_if_nobody_wants_that(url: str, cache: Path) -> None:
    index_of(url).unlink()
    assert len(tfs.Episodes(url).steps) == 30
    assert not index_of(url).exists()
    assert not cache.exists()


@pytest.mark.parametrize("name", ["../../victim", "a/b", "..", "x\x1b[2J", "a?b"])
def test_a_split_whose_name_leaves_the_folder(url: str, cache: Path, name: str) -> None:
    index_of(url).unlink()
    folder = Path(url).parent
    told = json.loads((folder / "dataset_info.json").read_text())
    told["splits"][0]["name"] = name
    told["splits"][0]["filepathTemplate"] = "{DATASET}-train.{FILEFORMAT}-{SHARD_X_OF_Y}"
    (folder / "dataset_info.json").write_text(json.dumps(told))
    before = sorted(folder.parent.parent.rglob("*"))
    for read in (tfs.Episodes, tfs.RecordSource):
        with pytest.raises(tfs.ManifestError, match=r"dataset_info\.json: does not describe"):
            read(str(folder))
    with pytest.raises(tfs.ManifestError, match=r"dataset_info\.json: does not describe"):
        tfs.Episodes(folder, save_index=True)
    assert sorted(folder.parent.parent.rglob("*")) == before


def test_a_folder_that_cannot_be_written_to(
    url: str, cache: Path, no_pass: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(url).unlink()
    plain = Folder.put

    def refused(self: Any, name: str, data: bytes, **options: Any) -> None:
        if "cache" not in self.path:
            raise PermissionError(13, "Permission denied", self.url(name))
        plain(self, name, data, **options)

    monkeypatch.setattr(Folder, "put", refused)
    tfs.Episodes(url, save_index=True)
    assert not index_of(url).exists()
    assert len(list(cache.iterdir())) == 1
    no_pass()
    assert len(tfs.Episodes(url).steps) == 30


def test_an_index_of_other_versions_is_not_taken(url: str) -> None:
    shard = Path(url).parent / "arm-train.tfrecord-00000-of-00002"
    others = written(Path(url).parent.parent / "2.0.0", (5, 1, 8, 3, 13), name="arm")
    other = Path(others).parent / shard.name
    os.utime(other, (1, 1))
    shutil.copy2(other, shard)
    assert tfs.Episodes(url).lengths.tolist() == [5, 8, 13, 1, 3]


def test_a_file_of_another_number_of_records_is_refused(url: str) -> None:
    shard = Path(url).parent / "arm-train.tfrecord-00000-of-00002"
    shutil.copy(Path(url).parent / "arm-train.tfrecord-00001-of-00002", shard)
    with pytest.raises(tfs.ManifestError, match="holds 2 records where its dataset says 3"):
        tfs.Episodes(url)


GOOD = encode_index([ShardSteps("a", 100, "e", np.array([2, 3]), np.array([0, 40]))])


DESCRIPTION, STEPS = (bytes(part) for part in sections(GOOD[16:]))


def with_steps(*steps: int) -> bytes:
    return encode_index([ShardSteps("a", 100, "e", np.array(steps), np.array([0, 40]))])


def told(text: bytes, *steps: bytes) -> bytes:
    return container(section(b"shards", text), *steps)


def told_of(old: bytes, new: bytes) -> bytes:
    """The index, with something else in its description."""
    return told(bytes(payload_of(DESCRIPTION, b"shards")).replace(old, new), STEPS)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "does not begin as"),
        (GOOD[:-1], "cut off"),
        (GOOD[:40] + b"x" + GOOD[41:], "checksum"),
        (b"TFIOSTEP" + GOOD[8:], "does not begin as"),
        (GOOD[:8] + b"\2" + GOOD[9:], "version 2"),
        (GOOD[:16], "not enough values"),
        (told(b"{", STEPS), "Expecting"),
        (told(b'["x"]', STEPS), "string indices"),
        (told(b"[]", STEPS), "argument"),
        (told_of(b'"records": 2', b'"records": 9'), "24 bytes are not those of 9 records"),
        (told_of(b'"records": 2', b'"records": -2'), "not those of -2 records"),
        (GOOD + STEPS, "argument"),
        (container(DESCRIPTION, DESCRIPTION), "of kind"),
        (told_of(b'"nbytes": 100', b'"nbytes": 41'), "records overlap"),
        (told_of(b'"etag": "e"', b'"etag": 777'), "an etag is no text"),
        (
            encode_index([ShardSteps("a", 100, "e", np.array([2, 3]), np.array([1, 40]))]),
            "begin at byte 0",
        ),
        (with_steps(2, 90), "more steps than bytes"),
    ],
)
def test_a_damaged_or_lying_index(
    url: str, data: bytes, reason: str, no_pass: Callable[[], None]
) -> None:
    with pytest.raises(tfs.ManifestError, match=reason):
        decode_index(data, url="x")
    index_of(url).write_bytes(data)
    assert len(tfs.Episodes(url, save_index=True).steps) == 30, "it is made again"
    no_pass()
    assert len(tfs.Episodes(url).steps) == 30


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(data: bytes) -> None:
    for body in (data, container(data), container(section(b"shards", data)), GOOD[:20] + data):
        with pytest.raises(tfs.ManifestError):
            decode_index(body, url="x")


def test_wrong_counts_are_met_by_the_record(url: str) -> None:
    shards = decode_index(index_of(url).read_bytes(), url="")
    shards[0].steps[1] = 8
    index_of(url).write_bytes(encode_index(shards))
    episodes = tfs.Episodes(url)
    with pytest.raises(tfs.SchemaError, match=r"record 1: .*9 steps, where the index says 8"):
        episodes[1]
    assert len(episodes[0]["steps"]["action"]) == 5


def test_a_slice_is_read_by_an_index_of_its_own(url: str) -> None:
    whole = tfs.Episodes(url)
    part = tfs.Episodes(tfs.slice(url, "1:4"))
    assert part.lengths.tolist() == whole.lengths.tolist()[1:4]
    assert same(part[0], whole[1])
    assert same(part.steps[-1], whole[3]["steps"] and whole.steps[int(whole.bounds[4]) - 1])


def test_a_compressed_split_is_read_whole(tmp_path: Path) -> None:
    raw = tfs.Episodes(written(tmp_path / "arm" / "1.0.0", LENGTHS))
    records = list(tfs.RecordReader(f"{tmp_path}/arm/1.0.0/train"))
    with tfs.ShardedWriter(tmp_path / "packed" / "train", num_shards=1, compression="GZIP") as w:
        w.write_batch(records)
    shutil.copy(tmp_path / "arm" / "1.0.0" / "features.json", tmp_path / "packed")
    packed = tfs.Episodes(tmp_path / "packed" / "train")
    assert packed.lengths.tolist() == raw.lengths.tolist()
    assert same(packed[3], raw[3])
    assert same(packed.steps[29], raw.steps[29])


def test_in_every_place(place: Place) -> None:
    features = {"steps": {"action": ("float32", (3,))}}
    with tfs.EpisodeWriter(
        place.url("arm/1.0.0"), features, num_shards=3, storage=place.storage()
    ) as writer:
        for number, length in enumerate(LENGTHS):
            steps = [{"action": s["action"]} for s in episode(number, length)["steps"]]
            writer.write({"steps": steps})
    for _ in range(2):
        found = tfs.Episodes(place.url("arm/1.0.0"), storage=place.storage())
        assert found.lengths.tolist() == [5, 3, 1, 12, 9]
        assert found.steps[6]["action"].tolist() == [3, 1, 0.5]
        place.open("arm/1.0.0/_train.steps")[0].delete([place.open("arm/1.0.0/_train.steps")[1]])

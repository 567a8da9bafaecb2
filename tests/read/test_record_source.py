"""`RecordSource`, `build_index`, text indexes, and the sources that a manifest or TFDS
describes."""

from __future__ import annotations

import gzip
import importlib.util
import json
import multiprocessing
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.counted import Counted
from tests.support.framed import framed
from tests.vectors.make_vectors import golden
from tfio_store.dali import write_idx
from tfio_store.storage import open_store


def source(place: Place, *names: str, **options: Any) -> tfs.RecordSource:
    urls = [place.url(name) for name in names]
    return tfs.RecordSource(urls, storage_options=place.storage_options, **options)


@pytest.fixture
def items(place: Place) -> list[bytes]:
    """About 6 MB in three shards, one of them empty."""
    rng = random.Random(1)
    items = [b"%d:" % i + rng.randbytes(rng.randrange(4000)) for i in range(3000)]
    place.put("s-0", framed(items[:1000]))
    place.put("s-1", b"")
    place.put("s-2", framed(items[1000:]))
    return items


class TestRecordSource:
    def test_one_by_one(self, place: Place, items: list[bytes]) -> None:
        found = source(place, "s-*")
        assert len(found) == 3000
        for i in (0, 1, 999, 1000, 2999, -1, -3000):
            assert found[i] == items[i]
        assert found[np.int64(5)] == items[5]

    def test_lists_in_their_order(self, place: Place, items: list[bytes]) -> None:
        found = source(place, "s-*")
        wanted = [2999, 0, 5, 5, -1, 1000, 17]
        assert found[wanted] == [items[i] for i in wanted]
        assert found[np.array(wanted)] == [items[i] for i in wanted]
        assert found.__getitems__(wanted) == found[wanted]
        assert found[[]] == []

    def test_slices(self, place: Place, items: list[bytes]) -> None:
        found = source(place, "s-*")
        for part in (slice(990, 1010), slice(None, None, 700), slice(-3, None), slice(5, 1, -1)):
            assert found[part] == items[part]
        assert list(found)[::500] == items[::500]

    def test_out_of_range(self, place: Place, items: list[bytes]) -> None:
        found = source(place, "s-*")
        for wrong in (3000, -3001, [0, 3000]):
            with pytest.raises(IndexError, match="3000 records"):
                found[wrong]
        with pytest.raises(TypeError):
            found["0"]  # type: ignore[index]

    def test_empty(self, place: Place) -> None:
        place.put("none", b"")
        assert len(source(place, "none")) == 0
        assert len(tfs.RecordSource([])) == 0

    def test_threads(self, place: Place, items: list[bytes]) -> None:
        found = source(place, "s-*", cache_bytes=2 << 20)
        with ThreadPoolExecutor(8) as pool:
            numbers = [random.Random(i).randrange(3000) for i in range(400)]
            assert list(pool.map(found.__getitem__, numbers)) == [items[i] for i in numbers]

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_processes(self, s3: Place, method: str) -> None:
        items = [b"%d" % i for i in range(1000)]
        s3.put("x", framed(items))
        found = source(s3, "x")
        assert found[3] == b"3"
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(found.__getitem__, range(0, 1000, 100)) == items[::100]


class TestRequests:
    @pytest.fixture
    def found(self, tmp_path: Path) -> tfs.RecordSource:
        (tmp_path / "x").write_bytes(framed([os.urandom(10_000)] * 3000))
        return tfs.RecordSource(tmp_path / "x")

    @pytest.fixture
    def counted(
        self, found: tfs.RecordSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Counted:
        return Counted(open_store(tmp_path / "x")[0], monkeypatch)

    def test_a_cluster_is_fetched_in_fewer_requests_than_records(
        self, found: tfs.RecordSource, counted: Counted
    ) -> None:
        found[list(range(500, 600))]
        assert len(counted.ranges) <= 3
        blocks = 1 + 100 * 10_016 // (1 << 20) + 1
        assert sum(stop - start for start, stop in counted.ranges) <= (blocks + 1) << 20

    def test_scattered_records_cost_their_bytes(
        self, found: tfs.RecordSource, counted: Counted
    ) -> None:
        found[[5, 1500, 2900]]
        assert counted.nbytes == 3 * 10_016

    def test_a_loop_fetches_a_block_once(self, found: tfs.RecordSource, counted: Counted) -> None:
        for i in (5, 6, 7, 5):
            found[i]
        assert len(counted.ranges) == 2  # the first record alone, then the block

    def test_headers_of_large_records_are_found_without_reading_them(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "x").write_bytes(framed([bytes(20 << 20)] * 5))
        counted = Counted(open_store(tmp_path / "x")[0], monkeypatch)
        assert len(tfs.RecordSource(tmp_path / "x")) == 5
        assert sum(stop - start for start, stop in counted.ranges) < 50 << 20


class TestBuildIndex:
    def test_saved(self, place: Place, items: list[bytes]) -> None:
        pattern, name = place.url("s-*"), place.url("all")
        manifest = tfs.build_index(pattern, name, storage_options=place.storage_options)
        assert manifest.records == 3000
        assert place.names() == [*manifest.parts(), "_all.manifest.json", "s-0", "s-1", "s-2"]
        found = tfs.RecordSource(name, storage_options=place.storage_options)
        assert found[[0, 1500, 2999]] == [items[0], items[1500], items[2999]]
        assert list(tfs.RecordReader(name, storage_options=place.storage_options)) == items
        assert list(tfs.RecordReader(place.url(), storage_options=place.storage_options)) == items

    def test_not_saved(self, place: Place, items: list[bytes]) -> None:
        manifest = tfs.build_index(place.url("s-*"), storage_options=place.storage_options)
        assert [shard.records for shard in manifest.shards] == [1000, 0, 2000]
        assert place.names() == ["s-0", "s-1", "s-2"]

    def test_never_replaces_a_dataset(self, place: Place, items: list[bytes]) -> None:
        tfs.build_index(place.url("s-0"), place.url("x"), storage_options=place.storage_options)
        with pytest.raises(FileExistsError):
            tfs.build_index(place.url("s-2"), place.url("x"), storage_options=place.storage_options)
        assert len(place.names()) == 5
        found = tfs.RecordSource(place.url("x"), storage_options=place.storage_options)
        assert len(found) == 1000

    def test_relative_paths(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "part-0").write_bytes(framed([b"one"]))
        monkeypatch.chdir(tmp_path)
        assert tfs.build_index("part-*", "train").records == 1
        assert list(tfs.RecordReader("train")) == [b"one"]

    def test_other_folders(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(framed([b""]))
        with pytest.raises(ValueError, match="one folder"):
            tfs.build_index(str(tmp_path / "x"), str(tmp_path / "elsewhere" / "x"))

    @pytest.mark.parametrize("name", ["per%20cent", "a#b", "a:b", "~tilde"])
    def test_names_that_no_manifest_holds(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(framed([b""]))
        with pytest.raises(ValueError, match=r"rename|Rename"):
            tfs.build_index([str(tmp_path / name)], str(tmp_path / "set"))
        assert os.listdir(tmp_path) == [name]

    def test_a_file_named_twice(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(framed([b""]))
        with pytest.raises(ValueError, match="twice"):
            tfs.build_index([str(tmp_path / "x")] * 2, str(tmp_path / "set"))
        assert os.listdir(tmp_path) == ["x"]

    def test_compressed(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(gzip.compress(framed([b"1"])))
        if tfs.backend().core == "pure":
            with pytest.raises(ImportError, match="compiled core"):
                tfs.build_index(str(tmp_path / "x"))
            return
        assert tfs.build_index(str(tmp_path / "x")).records == 1
        assert sorted(os.listdir(tmp_path)) == ["_x.checkpoints", "x"]


class TestTextIndex:
    def test_round_trip(self, place: Place, items: list[bytes]) -> None:
        options: dict[str, Any] = {"storage_options": place.storage_options}
        write_idx(place.url("s-2"), place.url("s-2.idx"), **options)
        lines = place.get("s-2.idx").decode().splitlines()
        assert len(lines) == 2000
        assert lines[0] == f"0 {len(items[1000]) + 16}"
        found = source(place, "s-2", idx=[place.url("s-2.idx")])
        assert found[[0, 1999]] == [items[1000], items[2999]]

    def test_as_others_write_it(self, tmp_path: Path) -> None:
        if importlib.util.find_spec("tfrecord") is None:
            pytest.skip("needs the package tfrecord")
        # in a process of its own: its protobufs have the names of TensorFlow's
        tool = [sys.executable, "-m", "tfrecord.tools.tfrecord2idx"]
        subprocess.run([*tool, str(golden("sizes")), str(tmp_path / "theirs")], check=True)
        write_idx(str(golden("sizes")), str(tmp_path / "ours"))
        assert (tmp_path / "ours").read_text() == (tmp_path / "theirs").read_text()

    @pytest.mark.parametrize(
        "text", ["", "0 x", "0", "0 10", "1 82733", "0 99999999999", "-1 5", "0 " + "9" * 20]
    )
    def test_another_files(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "idx").write_text(text)
        with pytest.raises(tfs.ManifestError, match="idx"):
            tfs.RecordSource(golden("sizes"), idx=[str(tmp_path / "idx")])

    def test_one_for_each_file(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="idx="):
            tfs.RecordSource(golden("sizes"), idx=[])


class TestFolders:
    def test_written_by_tfds(self, place: Place) -> None:
        for split, shards in (("train", 2), ("test", 1)):
            for i in range(shards):
                name = f"mnist-{split}.tfrecord-{i:05d}-of-{shards:05d}"
                place.put(f"mnist/1.0.0/{name}", framed([f"{split}{i}".encode()] * 3))
        splits = [
            {"name": "train", "shardLengths": ["3", "3"]},
            {
                "name": "test",
                "shardLengths": ["3"],
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            },
        ]
        info = {"name": "mnist", "fileFormat": "tfrecord", "splits": splits}
        place.put("mnist/1.0.0/dataset_info.json", json.dumps(info).encode())
        options: dict[str, Any] = {"storage_options": place.storage_options}
        found = list(tfs.RecordReader(place.url("mnist/1.0.0/train"), **options))
        assert found == [b"train0"] * 3 + [b"train1"] * 3
        assert list(tfs.RecordReader(place.url("mnist/1.0.0/test"), **options)) == [b"test0"] * 3
        with pytest.raises(ValueError, match=r"several splits.*1\.0\.0/train, .*1\.0\.0/test"):
            tfs.RecordReader(place.url("mnist/1.0.0"), **options)
        with pytest.raises(ValueError, match=r"no split 'validation'.*1\.0\.0/train"):
            tfs.RecordReader(place.url("mnist/1.0.0/validation"), **options)

    def test_a_tfds_folder_of_one_split(self, tmp_path: Path) -> None:
        (tmp_path / "x-train.tfrecord-00000-of-00001").write_bytes(framed([b"1"]))
        splits = [{"name": "train", "shardLengths": [1]}]
        (tmp_path / "dataset_info.json").write_text(json.dumps({"name": "x", "splits": splits}))
        assert list(tfs.RecordReader(str(tmp_path))) == [b"1"]

    def test_a_tfds_template_that_points_elsewhere(self, tmp_path: Path) -> None:
        splits = [{"name": "train", "shardLengths": [1], "filepathTemplate": "../{SHARD_X_OF_Y}"}]
        (tmp_path / "dataset_info.json").write_text(json.dumps({"name": "x", "splits": splits}))
        with pytest.raises(tfs.ManifestError, match="dataset_info"):
            tfs.RecordReader(str(tmp_path))

    @pytest.mark.parametrize(
        "text", ["", "[]", "{}", '{"splits": 3}', '{"name": "x", "splits": [{}]}']
    )
    def test_a_tfds_file_that_is_none(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "dataset_info.json").write_text(text)
        with pytest.raises(tfs.ManifestError, match="dataset_info"):
            tfs.RecordReader(str(tmp_path))

    def test_several_datasets_in_a_folder(self, tmp_path: Path) -> None:
        for name in ("a", "b"):
            (tmp_path / f"{name}.x").write_bytes(framed([b"1"]))
            tfs.build_index(str(tmp_path / f"{name}.x"), str(tmp_path / name))
        with pytest.raises(ValueError, match="several datasets"):
            tfs.RecordReader(str(tmp_path))
        assert list(tfs.RecordReader(str(tmp_path / "a"))) == [b"1"]

    def test_a_manifest_without_its_index(self, tmp_path: Path) -> None:
        (tmp_path / "x").write_bytes(framed([b"1"]))
        manifest = tfs.build_index(str(tmp_path / "x"), str(tmp_path / "ds"))
        (index,) = manifest.parts()
        (tmp_path / index).unlink()
        with pytest.raises(FileNotFoundError, match=r"_ds\.index"):
            tfs.RecordReader(str(tmp_path / "ds"))


class TestShardsOfADataset:
    """Shards named as files find their manifest beside them."""

    @pytest.fixture
    def shards(self, place: Place) -> str:
        with tfs.ShardedWriter(
            place.url("train"),
            num_shards=2,
            compression="GZIP",
            storage_options=place.storage_options,
        ) as writer:
            for i in range(1000):
                writer.write(b"%d" % i)
        return place.url("train-*")

    def test_compressed_shards_are_seekable(self, place: Place, shards: str) -> None:
        found = tfs.RecordSource(shards, storage_options=place.storage_options)
        assert len(found) == 1000
        assert found[1] == b"2"

    def test_another_file_of_that_name(self, place: Place, shards: str) -> None:
        place.put("train-00000-of-00002.tfrecord", framed([b"other"]))
        reader = tfs.RecordReader(shards, storage_options=place.storage_options)
        assert next(iter(reader)) == b"other"

    def test_a_damaged_manifest_is_passed_by_and_said(self, place: Place, shards: str) -> None:
        place.put("_train.manifest.json", b"{")
        with pytest.warns(RuntimeWarning, match=r"_train\.manifest\.json"):
            found = tfs.RecordReader(shards, storage_options=place.storage_options)
        assert len(list(found)) == 1000
        with pytest.raises(tfs.ManifestError):
            tfs.RecordReader(place.url("train"), storage_options=place.storage_options)


class TestOfADataset:
    def test_reads_what_was_opened(self, tmp_path: Path) -> None:
        tfs.write_table({"x": [1, 2, 3]}, f"{tmp_path}/train")
        opened = tfs.RecordSource(f"{tmp_path}/train")
        same = tfs.RecordSource.of(opened.dataset, cache_bytes=0)
        assert same[:] == opened[:]
        assert repr(same) == repr(opened)

    def test_needs_known_blocks(self, place: Place) -> None:
        place.put("f", framed([b"1"]))
        dataset = tfs.RecordReader(place.url("f"), storage_options=place.storage_options)
        with pytest.raises(ValueError, match="index the dataset first"):
            tfs.RecordSource.of(dataset.dataset)

"""`verify`, `salvage`, `index` and `clean`."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.cli.conftest import RECORDS, Kept, Run, keep
from tests.servers.place import Place
from tests.support.framed import framed


def damage(kept: Kept) -> None:
    """One bit in the midst of the file."""
    name = next(name for name in kept.place.names() if not name.startswith("_"))
    data = bytearray(kept.place.get(name))
    data[len(data) // 2] ^= 4
    kept.place.put(name, bytes(data))


def test_verify(run: Run, kept: Kept) -> None:
    sound = run("verify", kept.url, *kept.options)
    nbytes = sum(map(len, RECORDS))
    assert (sound.code, sound.out) == (0, f"30 sound records, {nbytes} bytes\n")
    damage(kept)
    broken = run("verify", kept.url, *kept.options)
    assert broken.code == 1
    assert "offset" in broken.out
    found = run("verify", kept.url, *kept.options, "--json")
    assert found.code == 1
    assert found.document["ok"] is False
    assert found.document["skipped"][0]["path"].startswith(kept.place.root)


def test_verify_quickly(run: Run, local: Kept) -> None:
    answer = run("verify", "--quick", local.url)
    assert answer.code == (0 if local.has_manifest else 2)
    assert ("all files are as large" in answer.out) is local.has_manifest


def test_salvage(run: Run, kept: Kept) -> None:
    damage(kept)
    target = kept.place.url("saved")
    answer = run("salvage", kept.url, target, *kept.options, "--compression", "none", "--json")
    assert answer.code == 1
    assert answer.document["records"] == len(
        list(tfs.RecordReader(target, storage_options=kept.place.storage_options))
    )
    again = run("salvage", kept.url, target, *kept.options)
    assert again.code == 2
    assert "exists" in again.err
    over = run("salvage", kept.url, target, *kept.options, "--if-exists", "overwrite")
    assert "sound records" in over.out


def test_salvage_that_loses_a_shard(run: Run, tmp_path: Path) -> None:
    url, second = tmp_path / "train", "train-00001-of-00004.tfrecord"
    with tfs.ShardedWriter(url, num_shards=4) as writer:
        writer.write_batch([b"record %d" % i for i in range(400)])
    (tmp_path / second).unlink()
    refused = run("salvage", url, url, "--if-exists", "overwrite")
    assert refused.code == 3
    assert "--allow-missing" in refused.err
    lossy = run("salvage", url, url, "--if-exists", "overwrite", "--allow-missing")
    assert lossy.code == 1
    verified = run("verify", url)
    assert verified.code == 0
    for answer in (lossy, verified, run("info", url), run("diff", url, url)):
        assert f"100 records of {second}" in answer.out
    assert run("salvage", url, tmp_path / "again").code == 0


def test_salvage_of_something_else(run: Run, tmp_path: Path) -> None:
    image = tmp_path / "a.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    for _ in range(2):
        answer = run("salvage", str(image), f"{tmp_path}/saved")
        assert answer.code == 5
        assert "a.png: no sound record was found, and nothing was written: " in answer.err
        assert "the file looks like a PNG image" in answer.err
        assert os.listdir(tmp_path) == ["a.png"]


def test_salvage_of_nothing_but_damage(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.tfrecord"
    damaged.write_bytes(framed([b"one"])[:-1] + b"!")
    answer = run("salvage", damaged, tmp_path / "saved")
    assert answer.code == 1
    assert "no sound record was found" in answer.err
    assert os.listdir(tmp_path) == ["damaged.tfrecord"]


def test_index(run: Run, place: Place) -> None:
    kept = keep("foreign raw", place)
    answer = run("index", kept.url, "--as", place.url("train"), *kept.options)
    assert answer.out == f"{place.url('train')}: 30 records in 1 file\n"
    assert run("info", place.url("train"), *kept.options, "--json").document["indexed"]
    assert run("index", kept.url, "--as", place.url("train"), *kept.options).code == 2


def test_text_indexes(run: Run, tmp_path: Path) -> None:
    for n in range(2):
        (tmp_path / f"f{n}").write_bytes(framed(RECORDS))
    answer = run("index", "--idx", tmp_path / "f0", tmp_path / "f1")
    assert answer.out == f"{tmp_path}/f0.idx\n{tmp_path}/f1.idx\n"
    paths = [str(tmp_path / "f0"), str(tmp_path / "f1")]
    source = tfs.RecordSource(paths, idx=[f"{path}.idx" for path in paths])
    assert source[30] == RECORDS[0]


def test_index_asks_which(run: Run, tmp_path: Path) -> None:
    (tmp_path / "raw").write_bytes(framed(RECORDS))
    for more in ([], ["--index-dir", tmp_path]):
        answer = run("index", tmp_path / "raw", *more)
        assert answer.code == 2
        assert "--idx" in answer.err
    answer = run("index", tmp_path / "raw", "--idx", "--index-dir", tmp_path)
    assert answer.code == 2
    assert "leave --as and --index-dir out" in answer.err


def test_index_of_files_that_others_compressed(run: Run, tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.gz", "wb") as file:
        file.write(framed(RECORDS))
    aside = tmp_path / "aside"
    aside.mkdir()
    answer = run("index", tmp_path / "a.gz", "--index-dir", aside)
    assert answer.out == f"{tmp_path / 'a.gz'}: {len(RECORDS)} records in 1 file\n"
    assert [path.name[:5] for path in aside.iterdir()] == ["a.gz."]
    assert run("index", tmp_path / "a.gz").code == 0
    assert (tmp_path / "_a.gz.checkpoints").exists()
    assert tfs.RecordSource(tmp_path / "a.gz")[1] == RECORDS[1]


def test_clean_removes_when_told(run: Run, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, str(tmp_path / "train"), num_shards=1)
    left = tmp_path / "_train-00000-of-00001.tfrecord.0123456789ab"
    left.write_bytes(b"left")
    command = ("clean", tmp_path / "train", "--older-than", "0")
    dry = run(*command)
    assert dry.out == f"would remove {left}\npass --yes to remove it\n"
    assert left.exists()
    assert run(*command, "--json").document["objects"] == [str(left)]
    assert run(*command, "--yes").out == f"removed {left}\n"
    assert not left.exists()
    assert run(*command).out == "nothing to remove\n"
    assert sorted(os.listdir(tmp_path))[0].startswith("_train")


@pytest.mark.parametrize("more", [[], ["--yes"], ["--older-than", "0"]])
def test_clean_of_a_name_that_nothing_has(run: Run, place: Place, more: list[str]) -> None:
    """A name that was mistyped, as in other commands. The library's function says nothing: a
    program may clean before it has ever written."""
    where: dict[str, Any] = {"storage_options": place.storage_options}
    options = ["--storage-options", json.dumps(place.storage_options)]
    tfs.write_table({"x": [1]}, place.url("train"), num_shards=1, **where)
    answer = run("clean", place.url("trian"), *more, *options)
    assert answer.code == 3
    assert "no dataset of this name (did you mean" in answer.err
    assert "/train?)" in answer.err
    assert answer.out == ""
    assert tfs.clean(place.url("trian"), **where) == tfs.results.Leftovers((), (), ())


def test_clean_of_what_has_no_leftovers(run: Run, place: Place) -> None:
    where: dict[str, Any] = {"storage_options": place.storage_options}
    options = ["--storage-options", json.dumps(place.storage_options)]
    tfs.write_table({"x": [1]}, place.url("train"), num_shards=1, **where)
    place.put("out.csv", b"x")
    place.put("images/a.jpg", b"x")
    for name in ("train", "out.csv", "images"):
        assert run("clean", place.url(name), *options).out == "nothing to remove\n"


def test_clean_of_a_folder_with_a_dataset(run: Run, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, tmp_path / "data/train", num_shards=1)
    answer = run("clean", tmp_path / "data")
    assert answer.code == 3
    folder = tmp_path / "data"
    words = f"{folder}: is a folder with the dataset 'train'; name {folder}/train"
    assert answer.err == f"tfio-store clean: {words}\n"


def test_a_repair_of_a_folder_names_its_dataset(run: Run, tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, tmp_path / "data/train", num_shards=1)
    folder = tmp_path / "data"
    for command in ("salvage", "copy"):
        answer = run(command, folder, folder, "--if-exists", "overwrite")
        assert answer.code == 3
        assert f"name {folder}/train" in answer.err
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_times(run: Run, tmp_path: Path) -> None:
    answer = run("clean", tmp_path / "train", "--older-than", "soon")
    assert answer.code == 2
    assert "'soon' is no time such as 30s" in answer.err

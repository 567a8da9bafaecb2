"""What the writer writes, what it refuses, and what a failure leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.make_golden import GOLDEN
from tests.episodes.robots import FEATURES, episode, written
from tests.episodes.same import same


def test_the_folder_is_laid_out_as_tfds_does(tmp_path: Path) -> None:
    written(tmp_path / "arm" / "1.2.3", (2, 3, 1), num_shards=2)
    folder = tmp_path / "arm" / "1.2.3"
    shards = [f"arm-train.tfrecord-{i:05d}-of-00002" for i in range(2)]
    assert sorted(os.listdir(folder)) == [
        "_train.steps", *shards, "dataset_info.json", "features.json"
    ]  # fmt: skip
    info = json.loads((folder / "dataset_info.json").read_text())
    golden = json.loads((GOLDEN / "arm" / "1.0.0" / "dataset_info.json").read_text())
    assert golden.keys() - info.keys() == {"moduleName"}
    assert info["splits"][0].keys() == golden["splits"][0].keys()
    assert (info["name"], info["version"]) == ("arm", "1.2.3")
    assert info["splits"][0]["shardLengths"] == ["2", "1"]
    frames = sum(
        (folder / shard).stat().st_size - 16 * n for shard, n in zip(shards, (2, 1), strict=True)
    )
    assert info["splits"][0]["numBytes"] == str(frames)


def test_a_copy_has_the_description_of_its_original(tmp_path: Path) -> None:
    golden = tfs.Episodes(GOLDEN / "arm" / "1.0.0", images="bytes", save_index=False)
    with tfs.EpisodeWriter(tmp_path / "arm" / "1.0.0", golden.features, num_shards=1) as writer:
        for each in golden:
            writer.write(each)
    mine, theirs = tmp_path / "arm" / "1.0.0", GOLDEN / "arm" / "1.0.0"
    assert json.loads((mine / "features.json").read_text()) == json.loads(
        (theirs / "features.json").read_text()
    )
    labels = "steps-phase.labels.txt"
    assert (mine / labels).read_text().split() == (theirs / labels).read_text().split()
    ours = [
        tfs.decode_examples([r], tfs.infer_schema(str(theirs / "train"))) for r in records(mine)
    ]
    others = [
        tfs.decode_examples([r], tfs.infer_schema(str(theirs / "train"))) for r in records(theirs)
    ]
    for one, other in zip(ours, others, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            assert repr(one[name]) == repr(other[name]), name


def records(folder: Path) -> list[bytes]:
    return list(tfs.RecordReader(folder / "train"))


def test_steps_as_arrays_and_as_a_list_are_the_same(tmp_path: Path) -> None:
    first = tfs.Episodes(written(tmp_path / "a", (4, 2), num_shards=1))
    with tfs.EpisodeWriter(tmp_path / "b", FEATURES, num_shards=1) as writer:
        for each in first:
            writer.write(each)
    assert all(map(same, first, tfs.Episodes(tmp_path / "b")))


def test_a_second_split_and_the_same_again(tmp_path: Path) -> None:
    written(tmp_path / "arm", (2,))
    with tfs.EpisodeWriter(tmp_path / "arm", FEATURES, split="val", num_shards=1) as writer:
        writer.write(episode(7, 3))
    assert len(tfs.Episodes(tmp_path / "arm" / "train")) == 1
    assert tfs.Episodes(tmp_path / "arm" / "val").steps[2]["action"].tolist() == [7, 2, 1]
    with pytest.raises(ValueError, match="holds several splits"):
        tfs.Episodes(tmp_path / "arm")
    before = sorted(os.listdir(tmp_path / "arm"))
    with pytest.raises(FileExistsError, match="the split 'val' is there; write into the folder of"):
        tfs.EpisodeWriter(tmp_path / "arm", FEATURES, split="val")
    with pytest.raises(ValueError, match="holds other features"):
        tfs.EpisodeWriter(tmp_path / "arm", {"steps": {"x": "int64"}}, split="test")
    assert sorted(os.listdir(tmp_path / "arm")) == before


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match="mine"),
        tfs.EpisodeWriter(tmp_path / "arm", FEATURES) as writer,
    ):
        writer.write(episode(0, 2))
        raise RuntimeError("mine")
    assert not any((tmp_path / "arm").glob("*")) if (tmp_path / "arm").exists() else True
    with pytest.raises(ValueError, match="the writer is closed"):
        writer.write(episode(0, 2))
    written(tmp_path / "arm", (2,))


def test_what_a_dead_writer_left_is_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "arm"
    folder.mkdir()
    (folder / "arm-train.tfrecord-00000-of-00001").write_bytes(b"half of a file")
    with pytest.raises(ValueError, match=r"there is no features\.json"):
        tfs.Episodes(folder)
    written(folder, (2, 1), num_shards=1)
    assert len(tfs.Episodes(folder)) == 2


def test_another_writer_was_faster(tmp_path: Path) -> None:
    slow = tfs.EpisodeWriter(tmp_path / "arm", FEATURES, num_shards=1)
    slow.write(episode(0, 2))
    url = written(tmp_path / "arm", (5,), num_shards=1)
    with pytest.raises(FileExistsError, match="the split 'train' is there"):
        slow.close()
    assert tfs.Episodes(url).lengths.tolist() == [5]


def test_a_dropped_writer_warns(tmp_path: Path) -> None:
    writer = tfs.EpisodeWriter(tmp_path / "arm", FEATURES, num_shards=1)
    writer.write(episode(0, 2))
    with pytest.warns(UserWarning, match="dropped without close"):
        del writer


STEP: dict[str, Any] = episode(0, 1)["steps"][0]


def changed(**values: Any) -> dict[str, Any]:
    return {**episode(0, 1), "steps": [{**STEP, **values}]}


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ([], TypeError, "an episode is a nested mapping"),
        ({"steps": [STEP]}, ValueError, "lacks episode_metadata/file_path"),
        ({**episode(0, 1), "more": 1}, ValueError, "has more, which features= does not name"),
        (changed(more=1), ValueError, "has steps/more, which features= does not name"),
        (changed(action=[1, 2]), ValueError, r"steps/action has the shape \(2,\)"),
        (changed(action=["a", "b", "c"]), TypeError, "steps/action is float32"),
        (changed(is_first=2.5), TypeError, "steps/is_first is bool"),
        (changed(language_instruction=5), TypeError, "steps/language_instruction is text"),
        (changed(observation={"state": [0, 1]}), ValueError, "lacks steps/observation/image"),
        (
            changed(observation={"state": [0, 1], "image": b"no image"}),
            ValueError,
            "steps/observation/image begins with b'no image'",
        ),
        (
            changed(observation={"state": [0, 1], "image": np.zeros((2, 2, 3))}),
            TypeError,
            "pixels of uint8, and got float64",
        ),
        ({**episode(0, 1), "steps": 5}, TypeError, "steps are a list of steps"),
    ],
)
def test_wrong_episodes(tmp_path: Path, wrong: Any, error: type[Exception], message: str) -> None:
    with tfs.EpisodeWriter(tmp_path / "arm", FEATURES, num_shards=1) as writer:
        with pytest.raises(error, match=message):
            writer.write(wrong)
        writer.write(episode(0, 2))
    assert tfs.Episodes(tmp_path / "arm").lengths.tolist() == [2]


@pytest.mark.parametrize(
    ("features", "options", "error", "message"),
    [
        ({}, {}, TypeError, "features= takes a nested mapping"),
        ({"a/b": "int64"}, {}, ValueError, "without slashes"),
        ({"x": "complex64"}, {}, ValueError, "dtype must be one of"),
        ({"x": tfs.Feature("int64", nullable=True)}, {}, ValueError, "x is nullable"),
        (FEATURES, {"split": "a b"}, ValueError, "split= takes letters"),
        (FEATURES, {"name": "../x"}, ValueError, "not a name"),
        (FEATURES, {"num_shards": 0}, ValueError, "num_shards="),
        (FEATURES, {"num_shards": 100_000}, ValueError, "num_shards="),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, features: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        tfs.EpisodeWriter(tmp_path / "arm", features, **options)
    assert not (tmp_path / "arm").exists()


def test_numbers_that_do_not_fit(tmp_path: Path) -> None:
    with tfs.EpisodeWriter(tmp_path / "arm", {"steps": {"x": "uint8", "y": "uint64"}}) as writer:
        with pytest.raises(ValueError, match="steps/x holds a number that does not fit uint8"):
            writer.write({"steps": [{"x": 256, "y": 0}]})
        writer.write({"steps": {"x": [255], "y": np.array([2**64 - 1], np.uint64)}})
    step = tfs.Episodes(tmp_path / "arm").steps[0]
    assert (step["x"], step["y"]) == (255, 2**64 - 1)

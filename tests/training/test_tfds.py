"""TensorFlow Datasets itself: it opens what is written here, and gives what is read here. Without
it, `tests/episodes` compares with files and values that it made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.make_golden import GOLDEN, builder_class
from tests.episodes.robots import FEATURES, episode

tfds = pytest.importorskip("tensorflow_datasets", reason="tensorflow_datasets is missing")


def values(node: Any) -> Any:
    import tensorflow as tf

    if isinstance(node, tf.RaggedTensor):
        return node.to_list()
    return node.numpy()


def assert_same(mine: Any, theirs: Any, path: str = "") -> None:
    if isinstance(theirs, Mapping):
        assert mine.keys() == theirs.keys(), path
        for key in theirs:
            assert_same(mine[key], theirs[key], f"{path}/{key}")
        return
    theirs = values(theirs)
    if isinstance(mine, str):
        mine = mine.encode()
    mine = np.asarray(mine)
    if mine.dtype == object and mine.ndim:
        mine = np.array([m.encode() if isinstance(m, str) else m for m in mine.ravel()], object)
    assert np.array_equal(mine, np.asarray(theirs).reshape(mine.shape)), path


def assert_read_alike(folder: Path, split: str) -> None:
    builder = tfds.builder_from_directory(str(folder))
    episodes = tfs.Episodes(folder / split)
    assert builder.info.splits[split].num_examples == len(episodes)
    found = builder.as_dataset(split=split, shuffle_files=False)
    for number, theirs in enumerate(found):
        steps = list(theirs["steps"])
        assert len(steps) == episodes.lengths[number]
        for step, wanted in enumerate(steps):
            mine = episodes.steps[int(episodes.bounds[number]) + step]
            assert_same(mine, wanted, f"{number}/{step}")
        assert_same(episodes[number]["episode_metadata"], theirs["episode_metadata"])


def test_a_dataset_of_its_own_writer(tmp_path: Path) -> None:
    builder = builder_class(tfds)(data_dir=str(tmp_path))
    builder.download_and_prepare()
    assert_read_alike(tmp_path / "arm" / "1.0.0", "train")


def test_a_copy_by_our_writer(tmp_path: Path) -> None:
    golden = tfs.Episodes(GOLDEN / "arm" / "1.0.0", images="bytes", save_index=False)
    for split, shards in (("train", 2), ("val", 5)):
        with tfs.EpisodeWriter(
            tmp_path / "arm" / "1.0.0", golden.features, split=split, num_shards=shards
        ) as writer:
            for each in golden:
                writer.write(each)
    assert_read_alike(tmp_path / "arm" / "1.0.0", "train")
    assert_read_alike(tmp_path / "arm" / "1.0.0", "val")
    theirs = tfds.builder_from_directory(str(GOLDEN / "arm" / "1.0.0"))
    ours = tfds.builder_from_directory(str(tmp_path / "arm" / "1.0.0"))
    assert ours.info.features.to_json() == theirs.info.features.to_json()
    label = ours.info.features["steps"]["phase"]
    assert label.names == ["reach", "grasp"]


def test_features_as_a_user_writes_them(tmp_path: Path) -> None:
    with tfs.EpisodeWriter(tmp_path / "robot", FEATURES, num_shards=3) as writer:
        for number in range(4):
            writer.write(episode(number, 2 + number))
    assert_read_alike(tmp_path / "robot", "train")


def test_flat_examples(tmp_path: Path) -> None:
    features = {
        "photo": tfs.Feature.image("png"),
        "label": tfs.Feature.class_label(["cat", "dog"]),
        "caption": tfs.Feature.text(),
        "box": ("float32", (4,)),
        "words": ("int64", (None,)),
        "names": ("str", (None,)),
        "nested": {"wide": tfs.Feature("float64", (3,), raw=True), "flag": "bool"},
    }
    examples: list[dict[str, Any]] = [
        {
            "photo": np.full((3, 2, 3), i, np.uint8),
            "label": "dog" if i % 2 else 0,
            "caption": f"ünï {i}",
            "box": [i, 0, 1, 2],
            "words": list(range(i)),
            "names": ["x"] * i,
            "nested": {"wide": [0.1, i, 1e300], "flag": i == 1},
        }
        for i in range(5)
    ]
    assert tfs.write_tfds(tmp_path / "pets" / "2.1.0", examples, features, num_shards=2) == 5
    builder = tfds.builder_from_directory(str(tmp_path / "pets" / "2.1.0"))
    assert (builder.info.name, str(builder.info.version)) == ("pets", "2.1.0")
    found = {int(e["box"][0]): e for e in builder.as_dataset(split="train").as_numpy_iterator()}
    assert sorted(found) == list(range(5))
    for i, wanted in enumerate(examples):
        got = found[i]
        assert np.array_equal(got["photo"], wanted["photo"])
        assert got["label"] == i % 2
        assert got["caption"] == f"ünï {i}".encode()
        assert got["words"].tolist() == wanted["words"]
        assert got["names"].tolist() == [b"x"] * i
        assert got["nested"]["wide"].tolist() == [0.1, i, 1e300]
        assert bool(got["nested"]["flag"]) == (i == 1)
    assert builder.info.splits["train"].num_shards == 2


def test_windows_are_those_of_its_steps(tmp_path: Path) -> None:
    """Chunks of 16 actions and two past observations, cut of what TFDS gives."""
    builder = builder_class(tfds)(data_dir=str(tmp_path))
    builder.download_and_prepare()
    windows = tfs.Episodes(tmp_path / "arm" / "1.0.0").windows(length=16, past=2)
    place = 0
    for theirs in builder.as_dataset(split="train", shuffle_files=False):
        steps = list(theirs["steps"])
        for t in range(len(steps)):
            window = windows[place]
            past = [steps[max(0, t + i)] for i in (-2, -1, 0)]
            ahead = [steps[min(len(steps) - 1, t + i)] for i in range(16)]
            images = [step["observation"]["image"].numpy() for step in past]
            assert np.array_equal(window["observation"]["image"], images)
            assert np.array_equal(window["action"], [step["action"].numpy() for step in ahead])
            texts = [step["language_instruction"].numpy().decode() for step in ahead]
            assert window["language_instruction"].tolist() == texts
            assert window["mask"]["action"].tolist() == [t + i < len(steps) for i in range(16)]
            place += 1
    assert place == len(windows)


@pytest.mark.parametrize("given", [{}, {"batch_size": 32}, {"shuffle_files": True}])
def test_an_accelerated_split_is_parsed_by_the_batch(tmp_path: Path, given: dict[str, Any]) -> None:
    rows = (
        {"x": np.array([i, 2 * i], np.float32), "name": f"{i}", "label": i % 3} for i in range(500)
    )
    features = {"x": ("float32", (2,)), "name": ("str", ()), "label": ("int64", ())}
    tfs.write_tfds(tmp_path / "set" / "1.0.0", rows, features, num_shards=4)
    builder = tfds.builder_from_directory(str(tmp_path / "set" / "1.0.0"))
    config = tfds.ReadConfig(try_autocache=False, shuffle_seed=3)

    def make() -> Any:
        dataset = builder.as_dataset(split="train[:90%]", read_config=config, **given)
        return dataset if "batch_size" in given else dataset.batch(32)

    theirs = make()
    with tfs.accelerate():
        ours = make()
    assert "parsed by the batch" in ours.explain()
    assert ours.element_spec == theirs.element_spec
    assert int(ours.cardinality()) == int(theirs.cardinality())
    got, wanted = list(ours.as_numpy_iterator()), list(theirs.as_numpy_iterator())
    assert len(got) == len(wanted) == 15
    assert str(got) == str(wanted)

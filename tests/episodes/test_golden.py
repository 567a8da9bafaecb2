"""What `Episodes` reads of a dataset that TensorFlow Datasets wrote is what TFDS reads of it."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.same import same

GOLDEN = Path(__file__).parent / "golden"

EXPECTED: dict[str, Any] = dict(np.load(GOLDEN / "expected.npz"))


@pytest.fixture
def arm(tmp_path: Path) -> str:
    """A copy, into which an index may be written."""
    shutil.copytree(GOLDEN / "arm", tmp_path / "arm")
    return str(tmp_path / "arm" / "1.0.0" / "train")


def flat(node: Mapping[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}/{key}")
        else:
            yield f"{path}/{key}", value


def plain(value: Any) -> Any:
    """As the file of expected values has it."""
    if isinstance(value, str):
        return np.array(value.encode().hex())
    array = np.asarray(value)
    if array.dtype == object:
        return np.array([text.encode().hex() for text in array.ravel()], str).reshape(array.shape)
    return array


def test_every_value_of_every_step(arm: str) -> None:
    steps = tfs.Episodes(arm).steps
    found: dict[str, Any] = {}
    for number in range(len(steps)):
        episode, step = steps.place(number)
        found |= dict(flat(steps[number], f"{episode}/{step}/steps"))
    wanted = {key: value for key, value in EXPECTED.items() if "/steps/" in key}
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        got = plain(found[key])
        assert got.shape == value.shape, key
        assert np.array_equal(got, value), key
        if value.size and value.dtype.kind != "U":
            assert got.dtype == value.dtype, key


def test_every_value_of_an_episode(arm: str) -> None:
    episodes = tfs.Episodes(arm)
    assert (len(episodes), episodes.lengths.tolist()) == (3, [3, 4, 1])
    for number, episode in enumerate(episodes):
        for key, value in flat({"episode_metadata": episode["episode_metadata"]}, f"{number}"):
            assert np.array_equal(plain(value), EXPECTED[key]), key
        images = episode["steps"]["observation"]["image"]
        assert images.shape == (episodes.lengths[number], 8, 12, 3)
        for step, image in enumerate(images):
            assert np.array_equal(image, EXPECTED[f"{number}/{step}/steps/observation/image"])


def test_a_folder_of_one_split_is_that_split(arm: str) -> None:
    folder = tfs.Episodes(arm.removesuffix("/train"))
    assert same(folder[1], tfs.Episodes(arm)[1])


def test_a_list_a_slice_and_a_negative_number(arm: str) -> None:
    episodes = tfs.Episodes(arm)
    assert same(episodes[[2, 0]], [episodes[2], episodes[0]])
    assert same(episodes[1:], [episodes[1], episodes[2]])
    assert same(episodes[-1], episodes[2])
    assert same(episodes.steps[-1], episodes.steps[7])
    with pytest.raises(IndexError):
        episodes[3]


def test_a_batch_of_steps_has_the_steps(arm: str) -> None:
    steps = tfs.Episodes(arm).steps
    batch = steps[[6, 1, 1]]
    for row, number in enumerate([6, 1, 1]):
        one = dict(flat(steps[number], ""))
        for key, column in flat(batch, ""):
            assert same(column[row], one[key]), key


def test_a_step_by_itself_is_the_step_of_the_whole_episode(arm: str) -> None:
    whole, sparse = tfs.Episodes(arm).steps, tfs.Episodes(arm, verify=False).steps
    for number in range(len(whole)):
        assert same(sparse[number], whole[number])


def test_chosen_features(arm: str) -> None:
    episodes = tfs.Episodes(arm, keys=["observation/state", "gripper", "episode_metadata"])
    assert {key for key, _ in flat(episodes[1], "")} == {
        "/steps/observation/state",
        "/steps/gripper/open",
        "/steps/gripper/force",
        "/episode_metadata/file_path",
        "/episode_metadata/episode_id",
        "/episode_metadata/numbers",
    }
    with pytest.raises(ValueError, match="keys= names 'arm': no feature 'arm'"):
        tfs.Episodes(arm, keys=["arm"])


def test_images_stay_encoded_or_are_resized(arm: str) -> None:
    encoded = tfs.Episodes(arm, images="bytes")[1]["steps"]["observation"]
    assert [each[:3] for each in encoded["image"]] == [b"\xff\xd8\xff"] * 4
    small = tfs.Episodes(arm, images={"observation/image": (4, 4), "observation/wrist": "bytes"})
    step = small.steps[2]["observation"]
    assert step["image"].shape == (4, 4, 3)
    assert step["wrist"][:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="images= names 'action': no image 'action'"):
        tfs.Episodes(arm, images={"action": (4, 4)})


def test_it_pickles_as_names_and_numbers(arm: str) -> None:
    episodes = tfs.Episodes(arm)
    image = episodes[1]["steps"]["observation"]["image"]
    data = pickle.dumps(episodes)
    assert image.tobytes() not in data
    assert len(data) < 60_000
    assert same(pickle.loads(data)[1], episodes[1])


def test_a_folder_without_a_description_is_refused(tmp_path: Path) -> None:
    tfs.write_table({"x": [1]}, tmp_path / "train")
    with pytest.raises(ValueError, match=r"there is no features.json in it; name the folder"):
        tfs.Episodes(tmp_path / "train")


def test_a_dataset_without_steps_is_refused(tmp_path: Path) -> None:
    tfs.write_tfds(tmp_path / "x", [{"x": 1}], {"x": "int64"}, num_shards=1)
    with pytest.raises(ValueError, match="has no sequence 'steps'"):
        tfs.Episodes(tmp_path / "x")

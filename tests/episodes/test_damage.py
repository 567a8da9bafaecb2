"""Damage in one episode is named, and all others are read."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.make_golden import GOLDEN
from tests.episodes.robots import FEATURES, episode, written
from tests.episodes.same import same
from tfio_store.episodes import sparse

LENGTHS = (5, 4, 9, 3, 12)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return written(tmp_path / "arm" / "1.0.0", LENGTHS, num_shards=1)


def damaged(url: str, find: bytes, place: int = 0, by: bytes = b"\0\0\0\0") -> int:
    """Overwrite what stands ``place`` behind the last ``find``; the offset."""
    path = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    data = bytearray(path.read_bytes())
    at = data.rindex(find) + place
    data[at : at + len(by)] = by
    inode = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(inode.st_atime_ns, inode.st_mtime_ns))
    return at


def test_a_flipped_byte_names_the_episode(url: str) -> None:
    whole = list(tfs.Episodes(url))
    damaged(url, b"/data/2.h5")
    episodes = tfs.Episodes(url)
    with pytest.raises(tfs.CorruptRecordError, match=r"episode 2: .*offset \d+") as caught:
        episodes[[1, 2, 3]]
    assert caught.value.path.endswith("arm-train.tfrecord-00000-of-00001")
    with pytest.raises(tfs.CorruptRecordError, match="episode 2"):
        episodes.steps[10]
    for number in (0, 1, 3, 4):
        assert same(episodes[number], whole[number])
    windows = episodes.windows(length=4)
    with pytest.raises(tfs.CorruptRecordError, match="episode 2"):
        windows[[0, 12]]
    assert same(windows[0]["action"], tfs.Episodes(url).windows(length=4)[0]["action"])


def rewritten(url: str, number: int, change: Any) -> str:
    """A copy of the dataset with another record in the place of one."""
    records = list(tfs.RecordReader(url))
    columns = dict(_features(records[number]))
    change(columns)
    records[number] = tfs.encode_example(columns)
    target = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    with tfs.TFRecordWriter(target) as writer:
        writer.write_batch(records)
    return url


def _features(record: bytes) -> Any:
    from tfio_store.example.codec import infer_features

    for name, (dtype, _) in infer_features(record).items():
        column = tfs.decode_examples([record], {name: (dtype or "int64", (None,))})[name]
        yield name, column[0]


def test_a_damaged_image_names_episode_and_step(url: str) -> None:
    def change(columns: dict[str, Any]) -> None:
        images = columns["steps/observation/image"].tolist()
        images[6] = images[6][:40]
        columns["steps/observation/image"] = images

    episodes = tfs.Episodes(rewritten(url, 2, change))
    named = r"episode 2, step 6: steps/observation/image is damaged: .*png"
    with pytest.raises(tfs.CorruptRecordError, match=named):
        episodes[2]
    with pytest.raises(tfs.CorruptRecordError, match=named):
        episodes.steps[5 + 4 + 6]
    with pytest.raises(tfs.CorruptRecordError, match=named):
        episodes.windows(past=1)[[5 + 4 + 6, 0]]
    assert episodes.steps[5 + 4 + 5]["action"].tolist() == [2, 5, 2.5]
    sparse_steps = tfs.Episodes(url, verify=False).steps
    with pytest.raises(tfs.CorruptRecordError, match=named):
        sparse_steps[5 + 4 + 6]


@pytest.mark.parametrize(
    ("name", "values", "reason"),
    [
        ("steps/action", np.zeros(3 * 8, np.float32), "holds 8 steps, where the index says 9"),
        ("steps/action", np.zeros(26, np.float32), "26 values, which are not of shape"),
        ("steps/is_first", np.full(9, 7), "holds 7, which does not fit bool"),
        ("steps/language_instruction", [b"\xff"] * 9, "is not UTF-8"),
        ("steps/observation/state", [1, 2], "steps/observation/state"),
    ],
)
def test_a_record_that_is_not_as_the_features_say(
    url: str, name: str, values: Any, reason: str
) -> None:
    def change(columns: dict[str, Any]) -> None:
        columns[name] = values

    changed = rewritten(url, 2, change)
    index = Path(url).parent / "_train.steps"
    index.unlink()
    if name == "steps/action":  # whichever feature is met first, the pass and the record differ
        with pytest.raises(tfs.SchemaError, match="steps"):
            tfs.Episodes(changed)[2]
        return
    episodes = tfs.Episodes(changed)
    with pytest.raises(tfs.SchemaError, match=f"record 2: .*{reason}"):
        episodes[2]
    assert len(episodes[3]["steps"]["action"]) == 3


def test_a_missing_feature(url: str) -> None:
    changed = rewritten(url, 1, lambda columns: columns.pop("steps/action"))
    with pytest.raises(tfs.SchemaError, match=r"record 1: feature 'steps/action' holds 0 steps"):
        tfs.Episodes(changed)[1]


def test_a_cut_file(url: str) -> None:
    path = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(tfs.TruncatedRecordError, match="ends inside a record"):
        tfs.Episodes(url)


def test_a_damaged_length(url: str) -> None:
    path = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    data = path.read_bytes()
    path.write_bytes(b"\xff" + data[1:])
    with pytest.raises(tfs.CorruptRecordError, match="checksum of a record's length"):
        tfs.Episodes(url)


def test_records_of_an_unusual_form_are_decoded_whole(tmp_path: Path) -> None:
    """Two maps of features, and numbers that are not packed: protobuf allows both."""
    url = written(tmp_path / "arm" / "1.0.0", (3, 2), num_shards=1)
    whole = list(tfs.Episodes(url))
    records = list(tfs.RecordReader(url))
    halves = []
    for record in records:
        columns = dict(_features(record))
        names = sorted(columns)
        first = tfs.encode_example({n: columns[n] for n in names[::2]})
        second = tfs.encode_example({n: columns[n] for n in names[1::2]})
        halves.append(first + second)
    path = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    with tfs.TFRecordWriter(path) as writer:
        writer.write_batch(halves)
    for verify in (True, False):
        episodes = tfs.Episodes(url, verify=verify)
        assert episodes.lengths.tolist() == [3, 2]
        assert same(episodes[1], whole[1])
        assert episodes.steps[4]["action"].tolist() == [1, 1, 0.5]


def test_a_step_by_itself_of_any_bytes_is_a_step_or_an_error(tmp_path: Path) -> None:
    url = written(tmp_path / "arm" / "1.0.0", (6,), num_shards=1, pixels=9)
    path = Path(url).parent / "arm-train.tfrecord-00000-of-00001"
    good = path.read_bytes()
    rng = np.random.default_rng(1)
    index = (path.parent / "_train.steps").read_bytes()
    for _ in range(60):
        data = bytearray(good)
        at = int(rng.integers(12, len(data) - 4))
        data[at] = int(rng.integers(0, 256))
        path.write_bytes(data)
        (path.parent / "_train.steps").write_bytes(index)
        try:
            steps = tfs.Episodes(url, verify=False, images="bytes", save_index=False).steps
            found = [steps[i] for i in range(6)]
        except (tfs.TFIOStoreError, ValueError, IndexError):
            continue
        assert len(found) == 6


def test_features_and_values_of_the_writer_agree() -> None:
    assert FEATURES["steps"].keys() == episode(0, 1)["steps"][0].keys()
    assert sparse.example_of({"x": ("int64", [b"\x07"])}) == tfs.encode_example({"x": 7})


def test_a_shape_that_no_image_has_takes_no_memory(url: str) -> None:
    """`features.json` is a file's word."""
    features = Path(url).parent / "features.json"
    text = features.read_text()
    assert '"-1",' in text
    features.write_text(text.replace('"-1",', '"90000",'))
    image = tfs.Episodes(url).steps[0]["observation"]["image"]
    assert image.shape == (2, 2, 3)


def test_tensors_of_impossible_shapes(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "arm", tmp_path / "arm")
    folder = tmp_path / "arm" / "1.0.0"
    records = list(tfs.RecordReader(folder / "train"))
    columns = dict(_features(records[1]))
    columns["steps/grid/shape"] = np.full(len(columns["steps/grid/shape"]), -2)
    records[1] = tfs.encode_example(columns)
    with tfs.TFRecordWriter(folder / "arm-train.tfrecord-00000-of-00001") as writer:
        writer.write_batch(records)
    with pytest.raises(tfs.CorruptRecordError, match="episode 1, step 0: steps/grid holds"):
        tfs.Episodes(folder, keys=["grid"])[1]


@pytest.mark.parametrize("keys", ["grid", "packed"])
def test_a_tensor_that_inflates_to_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    """Its shape is the file's word, and a small record can say any."""
    shutil.copytree(GOLDEN / "arm", tmp_path / "arm")
    folder = tmp_path / "arm" / "1.0.0"
    assert len(tfs.Episodes(folder, keys=[keys])[1]["steps"][keys])
    monkeypatch.setattr("tfio_store.episodes.decoding._MOST_INFLATED", 2)
    monkeypatch.setattr("zlib.decompressobj", lambda: pytest.fail("it was inflated"))
    named = rf"episode 1, step 0: steps/{keys} is damaged: .*more than the 2 bytes"
    with pytest.raises(tfs.CorruptRecordError, match=named):
        tfs.Episodes(folder, keys=[keys])[1]


def test_tensors_that_inflate_to_too_much_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(GOLDEN / "arm", tmp_path / "arm")
    folder = tmp_path / "arm" / "1.0.0"
    packed = tfs.Episodes(folder, keys=["packed"])[1]["steps"]["packed"]
    assert len(packed) > 2
    monkeypatch.setattr("tfio_store.episodes.decoding._MOST_RATIO", 0)
    monkeypatch.setattr("tfio_store.episodes.decoding._MOST_INFLATED", 2 * packed[0].nbytes)
    named = r"episode 1, step 2: steps/packed is damaged: .*more than the 0 bytes"
    with pytest.raises(tfs.CorruptRecordError, match=named):
        tfs.Episodes(folder, keys=["packed"])[1]


@pytest.mark.parametrize("images", [None, {"observation/image": {"mode": "RGB"}}])
def test_images_that_have_too_many_pixels_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, images: Any
) -> None:
    url = written(tmp_path / "arm", [6], num_shards=1, pixels=16)
    episodes = tfs.Episodes(url, images=images)
    monkeypatch.setattr("tfio_store.episodes.decoding._MOST_RATIO", 0)
    monkeypatch.setattr("tfio_store.episodes.decoding._MOST_INFLATED", 4 * 16 * 16 * 3)
    named = r"episode 0, step \d: steps/observation/image is damaged: .*bytes of pixels"
    with pytest.raises(tfs.CorruptRecordError, match=named):
        episodes[0]
    with pytest.raises(tfs.CorruptRecordError, match=named):
        episodes.steps[list(range(6))]
    assert len(episodes.steps[list(range(4))]["observation"]["image"]) == 4
    small = tfs.Episodes(url, images={"observation/image": (8, 8)})
    assert small[0]["steps"]["observation"]["image"].shape == (6, 8, 8, 3)


@pytest.mark.parametrize(
    "feature",
    [
        *({"tensor": {"dtype": dtype}} for dtype in ("f4,,", "f4,(", "((", "f4,f4", "nothing")),
        {"tensor": {"dtype": "int64", "shape": {"dimensions": [float("inf")]}}},
        {"classLabel": {"numClasses": float("inf")}},
        {"sequence": {"feature": {}, "length": float("-inf")}},
    ],
)
def test_hostile_features(url: str, feature: dict[str, Any]) -> None:
    folder = Path(url).parent
    told = json.loads((folder / "features.json").read_text())
    told["featuresDict"]["features"]["hostile"] = feature
    (folder / "features.json").write_text(json.dumps(told))
    with pytest.raises(tfs.ManifestError, match=r"features\.json: a feature cannot be read"):
        tfs.Episodes(url)
    assert "hostile" not in tfs.infer_schema(url) or "tensor" not in feature

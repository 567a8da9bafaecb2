"""A dataset of LeRobot: what its files hold, as pyarrow, pandas and av read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.episodes.make_golden import GOLDEN
from tests.episodes.robots import written

pq = pytest.importorskip("pyarrow.parquet")

LENGTHS = (4, 1, 6)


def table(path: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pq.read_table(path / name).to_pylist()
    return found


def test_steps_and_episodes(tmp_path: Path) -> None:
    episodes = tfs.Episodes(written(tmp_path / "arm" / "1.0.0", LENGTHS, num_shards=1))
    assert episodes.to_lerobot(tmp_path / "out", fps=5, robot_type="arm", videos=False) == 11
    out = tmp_path / "out"
    info = json.loads((out / "meta" / "info.json").read_text())
    assert info["codebase_version"] == "v3.0"
    assert (info["total_episodes"], info["total_frames"], info["total_tasks"]) == (3, 11, 3)
    assert info["video_path"] is None
    assert info["features"]["action"] == {"dtype": "float32", "shape": [3], "names": None}
    assert info["features"]["observation.images.image"]["shape"] == [2, 2, 3]
    assert info["features"].keys() == {
        "action", "is_first", "is_last", "observation.images.image", "observation.state",
        "timestamp", "frame_index", "episode_index", "index", "task_index",
    }  # fmt: skip
    rows = table(out, info["data_path"].format(chunk_index=0, file_index=0))
    assert [row["index"] for row in rows] == list(range(11))
    assert [row["episode_index"] for row in rows] == [0] * 4 + [1] + [2] * 6
    assert [row["frame_index"] for row in rows] == [0, 1, 2, 3, 0, 0, 1, 2, 3, 4, 5]
    for number, row in enumerate(rows):
        step = episodes.steps[number]
        assert row["action"] == step["action"].tolist()
        assert row["observation.state"] == step["observation"]["state"].tolist()
        assert row["is_first"] == step["is_first"]
        assert row["timestamp"] == pytest.approx(row["frame_index"] / 5)
        assert row["observation.images.image"]["bytes"][:4] == b"\x89PNG"
    told = table(out, "meta/episodes/chunk-000/file-000.parquet")
    assert [each["length"] for each in told] == list(LENGTHS)
    assert [each["dataset_from_index"] for each in told] == [0, 4, 5]
    assert [each["tasks"] for each in told] == [["task 0"], ["task 1"], ["task 2"]]
    tasks = pytest.importorskip("pandas").read_parquet(out / "meta" / "tasks.parquet")
    assert tasks.index.tolist() == ["task 0", "task 1", "task 2"]
    assert tasks["task_index"].tolist() == [0, 1, 2]
    assert [tasks.index[row["task_index"]] for row in rows] == [
        episodes.steps[n]["language_instruction"] for n in range(11)
    ]
    stats = json.loads((out / "meta" / "stats.json").read_text())
    actions = np.stack([row["action"] for row in rows])
    assert stats["action"]["mean"] == pytest.approx(actions.mean(axis=0).tolist())
    assert stats["action"]["std"] == pytest.approx(actions.std(axis=0).tolist())
    assert stats["action"]["count"] == [11]
    assert np.shape(stats["observation.images.image"]["mean"]) == (3, 1, 1)


def test_cameras_as_videos(tmp_path: Path) -> None:
    av = pytest.importorskip("av", reason="av is missing")
    episodes = tfs.Episodes(written(tmp_path / "arm" / "1.0.0", LENGTHS, num_shards=1, pixels=64))
    episodes.to_lerobot(tmp_path / "out", fps=5)
    info = json.loads((tmp_path / "out" / "meta" / "info.json").read_text())
    assert info["features"]["observation.images.image"]["dtype"] == "video"
    name = info["video_path"].format(
        video_key="observation.images.image", chunk_index=0, file_index=0
    )
    with av.open(str(tmp_path / "out" / name)) as video:
        assert video.streams.video[0].average_rate == 5
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    assert len(frames) == 11
    for number, frame in enumerate(frames):
        wanted = episodes.steps[number]["observation"]["image"]
        assert abs(frame.astype(int).mean() - wanted.astype(int).mean()) < 12
    told = table(tmp_path / "out", "meta/episodes/chunk-000/file-000.parquet")
    key = "videos/observation.images.image"
    assert [each[f"{key}/from_timestamp"] for each in told] == pytest.approx([0, 0.8, 1])
    assert [each[f"{key}/to_timestamp"] for each in told] == pytest.approx([0.8, 1, 2.2])


def test_what_there_is_no_place_for(tmp_path: Path) -> None:
    golden = GOLDEN / "arm" / "1.0.0"
    with pytest.raises(ValueError, match="varies in shape from step to step, for which"):
        tfs.Episodes(golden, save_index=False).to_lerobot(tmp_path / "out", fps=5)
    some = tfs.Episodes(golden, keys=["action", "reward", "clock"], save_index=False)
    with pytest.raises(ValueError, match="task= names 'action', and the texts of the steps are"):
        some.to_lerobot(tmp_path / "out", fps=5, task="action")
    assert not (tmp_path / "out").exists()
    some.to_lerobot(tmp_path / "out", fps=5)
    rows = table(tmp_path / "out", "data/chunk-000/file-000.parquet")
    assert rows[0]["clock"] == 2**64 - 1
    assert np.shape(rows[0]["action"]) == (2, 2)
    with pytest.raises(FileExistsError, match="a dataset is there"):
        some.to_lerobot(tmp_path / "out", fps=5)


def test_damage_leaves_no_dataset(tmp_path: Path) -> None:
    url = written(tmp_path / "arm" / "1.0.0", LENGTHS, num_shards=1)
    shard = tmp_path / "arm" / "1.0.0" / "arm-train.tfrecord-00000-of-00001"
    data = bytearray(shard.read_bytes())
    data[data.index(b"/data/2.h5")] ^= 1
    shard.write_bytes(data)
    with pytest.raises(tfs.CorruptRecordError, match="episode 2"):
        tfs.Episodes(url).to_lerobot(tmp_path / "out", fps=5, videos=False)
    assert not list(tmp_path.glob("out/**/*.parquet"))
    assert not (tmp_path / "out" / "meta" / "info.json").exists()

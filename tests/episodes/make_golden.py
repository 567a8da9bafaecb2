"""Writes tests/episodes/golden: a small dataset of RLDS by TensorFlow Datasets, and its values.

pip install tensorflow tensorflow_datasets
python -m tests.episodes.make_golden
"""

from __future__ import annotations

import functools
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).parent / "golden"


def main() -> None:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    folder = tempfile.mkdtemp()
    builder = builder_class(tfds)(data_dir=folder)
    builder.download_and_prepare()
    shutil.rmtree(GOLDEN / "arm", ignore_errors=True)
    shutil.copytree(Path(folder) / "arm", GOLDEN / "arm")
    found: dict[str, Any] = {}
    for number, episode in enumerate(builder.as_dataset(split="train", shuffle_files=False)):
        for step, values in enumerate(episode.pop("steps")):
            flatten(tf, values, f"{number}/{step}/steps", found)
        flatten(tf, episode, f"{number}", found)
    np.savez_compressed(GOLDEN / "expected.npz", **found)


def flatten(tf: Any, node: Any, path: str, found: dict[str, Any]) -> None:
    if isinstance(node, dict):
        for key, value in node.items():
            flatten(tf, value, f"{path}/{key}", found)
        return
    value = np.asarray(node.numpy())
    if value.dtype == object:  # one that pickles is refused by who reads it
        value = np.array([each.hex() for each in value.ravel()], str).reshape(value.shape)
    elif isinstance(node.numpy(), bytes):
        value = np.array(node.numpy().hex())
    found[path] = value


def features(tfds: Any) -> Any:
    f = tfds.features
    return f.FeaturesDict(
        {
            "steps": f.Dataset(
                {
                    "observation": {
                        "image": f.Image(shape=(8, 12, 3), encoding_format="jpeg"),
                        "wrist": f.Image(shape=(None, None, 3), encoding_format="png"),
                        "depth": f.Image(shape=(4, 4, 1), dtype=np.uint16, encoding_format="png"),
                        "heat": f.Image(shape=(4, 4, 1), dtype=np.float32),
                        "state": f.Tensor(shape=(3,), dtype=np.float32),
                        "tags": f.Sequence(f.Text()),
                        "boxes": f.Sequence({"x": np.float32, "y": np.int32}),
                    },
                    "action": f.Tensor(shape=(2, 2), dtype=np.float32),
                    "gripper": {"open": np.bool_, "force": f.Tensor(shape=(2,), dtype=np.float64)},
                    "reward": f.Scalar(dtype=np.float32),
                    "is_first": np.bool_,
                    "is_last": np.bool_,
                    "language_instruction": f.Text(),
                    "embedding": f.Tensor(shape=(2, 2), dtype=np.float32, encoding="bytes"),
                    "packed": f.Tensor(shape=(5,), dtype=np.int16, encoding="zlib"),
                    "grid": f.Tensor(shape=(None, None), dtype=np.uint8, encoding="zlib"),
                    "phase": f.ClassLabel(names=["reach", "grasp"]),
                    "bytes": f.Tensor(shape=(2,), dtype=np.uint8),
                    "clock": f.Scalar(dtype=np.uint64),
                    "half": f.Tensor(shape=(2,), dtype=np.float16),
                }
            ),
            "episode_metadata": {
                "file_path": f.Text(),
                "episode_id": np.int32,
                "numbers": f.Sequence(np.int64),
            },
        }
    )


def episodes() -> Any:
    rng = np.random.default_rng(7)
    for number, length in enumerate((3, 1, 4)):
        steps = []
        for t in range(length):
            observation = {
                "image": rng.integers(0, 255, (8, 12, 3), dtype=np.uint8),
                "wrist": rng.integers(0, 255, (4, 4 + number, 3), dtype=np.uint8),
                "depth": rng.integers(0, 60000, (4, 4, 1), dtype=np.uint16),
                "heat": rng.random((4, 4, 1), dtype=np.float32),
                "state": rng.random(3, dtype=np.float32),
                "tags": [f"tag {i}" for i in range(t)],
                "boxes": [{"x": 0.5 + i, "y": -i} for i in range(2 - t % 3)],
            }
            steps.append(
                {
                    "observation": observation,
                    "action": rng.random((2, 2), dtype=np.float32),
                    "gripper": {"open": bool(t % 2), "force": rng.random(2)},
                    "reward": float(t),
                    "is_first": t == 0,
                    "is_last": t == length - 1,
                    "language_instruction": f"pick up cup {number} ☕",
                    "embedding": rng.random((2, 2), dtype=np.float32),
                    "packed": np.arange(5, dtype=np.int16) - t,
                    "grid": np.full((2, 1 + number), t, np.uint8),
                    "phase": t % 2,
                    "bytes": np.array([t, 255], np.uint8),
                    "clock": 2**64 - 1 - t,
                    "half": np.array([0.5, t], np.float16),
                }
            )
        metadata = {
            "file_path": f"/data/{number}.h5",
            "episode_id": number,
            "numbers": list(range(number)),
        }
        yield f"episode {number}", {"steps": steps, "episode_metadata": metadata}


@functools.cache
def builder_class(tfds: Any) -> Any:
    class Arm(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        name = "arm"

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=features(tfds))

        def _split_generators(self, dl_manager: Any) -> Any:
            del dl_manager
            return {"train": episodes()}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    return Arm


if __name__ == "__main__":
    main()

"""``make bench-robots``: windows of robots' episodes in the training process, shuffled.

The dataset is one of RLDS that TensorFlow Datasets' own writer has made: 200 episodes, two cameras
of 224 x 224 in JPEG, a state and actions of 7 numbers, a line of language. A window has 16 actions,
and the observations of its step and of the one before. Batches have 32 windows.

"tf.data" is the way of dlimp and Octo's loader, made anew of its parts: TFDS reads episodes with
their steps undecoded, windows are cut by ``tf.gather`` and flattened, a shuffle buffer of 5,000
windows mixes them, and two threads decode. "data source" is TFDS's random access to ArrayRecord
behind a DataLoader with two workers, which asks for windows at random. Ours is `EpisodeWindows`
with two workers and a cache of 32 MiB in each.

"pixels" decodes both cameras, "state" neither; the data source decodes whole steps anyhow. Each run
is a process of its own, and the loaders take turns. The speed is that of the first seconds after
the first batch. Processor time is that of the process and its workers for a window. Memory is what
they hold at most beyond what the process holds behind its imports.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from bench.timing import machine, table
from bench.torch_loaders import Peak

EPISODES, LENGTH, PAST, BATCH, WORKERS = 200, 16, 1, 32, 2
BUFFER = 5_000
CACHE = 32 << 20
LOADERS = ("tf.data", "data source", "tfio_store")
KINDS = ("pixels", "state")
CAMERAS = ("image_primary", "image_wrist")


def frames(count: int) -> list[bytes]:
    """JPEGs of about the size that cameras give: blurred noise over a gradient."""
    from PIL import Image

    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        small = Image.fromarray(rng.integers(0, 255, (28, 28, 3), dtype=np.uint8))
        file = io.BytesIO()
        small.resize((224, 224), Image.Resampling.BICUBIC).save(file, "jpeg", quality=90)
        found.append(file.getvalue())
    return found


def prepare(folder: str) -> None:
    """By TFDS's own writer, as TFRecord and as ArrayRecord."""
    import tensorflow_datasets as tfds

    pictures = frames(500)
    f = tfds.features
    camera = {name: f.Image(shape=(224, 224, 3), encoding_format="jpeg") for name in CAMERAS}
    numbers = f.Tensor(shape=(7,), dtype=np.float32)
    features = f.FeaturesDict(
        {
            "steps": f.Dataset(
                {
                    "observation": {**camera, "state": numbers},
                    "action": numbers,
                    "is_first": np.bool_,
                    "is_last": np.bool_,
                    "language_instruction": f.Text(),
                }
            ),
            "episode_metadata": {"file_path": f.Text()},
        }
    )

    def episodes() -> Iterator[tuple[str, Any]]:
        rng = np.random.default_rng(1)
        for number in range(EPISODES):
            length = int(rng.integers(40, 81))
            steps = []
            for t in range(length):
                shown = rng.integers(0, len(pictures), 2)
                images = {
                    name: io.BytesIO(pictures[i]) for name, i in zip(CAMERAS, shown, strict=True)
                }
                steps.append(
                    {
                        "observation": {**images, "state": rng.random(7, dtype=np.float32)},
                        "action": rng.random(7, dtype=np.float32),
                        "is_first": t == 0,
                        "is_last": t == length - 1,
                        "language_instruction": f"pick up object {number % 20}",
                    }
                )
            yield str(number), {"steps": steps, "episode_metadata": {"file_path": str(number)}}

    class Robot(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")
        name = "robot"

        def _info(self) -> Any:
            return tfds.core.DatasetInfo(builder=self, features=features)

        def _split_generators(self, dl_manager: Any) -> Any:
            del dl_manager
            return {"train": episodes()}

        def _generate_examples(self) -> Any:
            raise NotImplementedError

    Robot(data_dir=f"{folder}/tfrecord").download_and_prepare()
    Robot(data_dir=f"{folder}/arrays", file_format="array_record").download_and_prepare()


def by_tf_data(folder: str, kind: str) -> Iterator[int]:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.config.threading.set_inter_op_parallelism_threads(WORKERS)
    builder = tfds.builder_from_directory(f"{folder}/tfrecord/robot/1.0.0")
    skip = {"steps": tfds.decode.SkipDecoding()}
    dataset = builder.as_dataset(split="train", decoders=skip, shuffle_files=True)

    def cut(episode: Any) -> Any:
        steps = episode["steps"]
        if kind == "state":
            steps["observation"] = {"state": steps["observation"]["state"]}
        length = tf.shape(steps["action"])[0]
        at = tf.range(length)[:, None]
        past = tf.clip_by_value(at + tf.range(-PAST, 1)[None], 0, length - 1)
        ahead = at + tf.range(LENGTH)[None]
        mask = ahead < length
        ahead = tf.clip_by_value(ahead, 0, length - 1)
        observation = {name: tf.gather(v, past) for name, v in steps["observation"].items()}
        return {
            "observation": observation,
            "action": tf.gather(steps["action"], ahead),
            "mask": mask,
            "language_instruction": steps["language_instruction"],
        }

    def decoded(window: Any) -> Any:
        for name in CAMERAS if kind == "pixels" else ():
            window["observation"][name] = tf.map_fn(
                tf.io.decode_jpeg, window["observation"][name], fn_output_signature=tf.uint8
            )
        return window

    dataset = dataset.repeat().map(cut, num_parallel_calls=WORKERS)
    dataset = dataset.interleave(
        tf.data.Dataset.from_tensor_slices, cycle_length=WORKERS, num_parallel_calls=WORKERS
    )
    dataset = dataset.shuffle(BUFFER).map(decoded, num_parallel_calls=WORKERS)
    options = tf.data.Options()
    options.threading.private_threadpool_size = WORKERS
    for batch in dataset.batch(BATCH).prefetch(2).with_options(options).as_numpy_iterator():
        yield len(batch["action"])


class SourceWindows:
    """Windows of TFDS's data source, for a DataLoader."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._source: Any = None
        source = self._opened()
        lengths = [len(source[i]["steps"]) for i in range(len(source))]
        self._bounds = np.append(0, np.cumsum(lengths))
        self._source = None

    def _opened(self) -> Any:
        if self._source is None:
            import tensorflow_datasets as tfds

            builder = tfds.builder_from_directory(f"{self._folder}/arrays/robot/1.0.0")
            self._source = builder.as_data_source(split="train")
        return self._source

    def __len__(self) -> int:
        return int(self._bounds[-1])

    def __getitem__(self, number: int) -> Any:
        episode = int(np.searchsorted(self._bounds, number, side="right")) - 1
        t = number - int(self._bounds[episode])
        steps = self._opened()[episode]["steps"]
        last = len(steps) - 1
        # a step is decoded whole when it is asked for
        past = [steps[max(0, t + i)] for i in range(-PAST, 1)]
        ahead = [steps[min(last, t + i)] for i in range(LENGTH)]
        names = ["state", *CAMERAS]
        return {
            "observation": {n: np.stack([s["observation"][n] for s in past]) for n in names},
            "action": np.stack([s["action"] for s in ahead]),
        }


def by_data_source(folder: str, kind: str) -> Iterator[int]:
    from torch.utils.data import DataLoader

    del kind  # pixels: it decodes whole steps
    dataset: Any = SourceWindows(folder)
    loader = DataLoader(
        dataset,
        batch_size=BATCH,
        shuffle=True,
        num_workers=WORKERS,
        multiprocessing_context="spawn",
    )
    while True:
        for batch in loader:
            yield len(batch["action"])


def by_ours(folder: str, kind: str) -> Iterator[int]:
    from torch.utils.data import DataLoader

    import tfio_store as tfs
    from tfio_store.torch import EpisodeWindows

    keys = ["observation/state", "action", "language_instruction"]
    keys += [f"observation/{name}" for name in CAMERAS] if kind == "pixels" else []
    episodes = tfs.Episodes(f"{folder}/tfrecord/robot/1.0.0", keys=keys, cache_bytes=CACHE)
    windows = episodes.windows(LENGTH, past=PAST)
    dataset = EpisodeWindows(windows, batch_size=BATCH, shuffle=True)
    loader = DataLoader(dataset, batch_size=None, num_workers=WORKERS)
    while True:
        for batch in loader:
            yield len(batch["action"])


def processor_time() -> float:
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            times = process.cpu_times()
            total += times.user + times.system
        except psutil.Error:
            continue
    return total


def run(folder: str, loader: str, kind: str, seconds: float) -> dict[str, float]:
    """Windows a second, processor time of one, and the most memory."""
    if loader != "tfio_store":
        import tensorflow_datasets as tfds

        del tfds
    if loader != "tf.data":
        import torch

        del torch
    make = {"tf.data": by_tf_data, "data source": by_data_source, "tfio_store": by_ours}[loader]
    before, peak = Peak.held(), Peak()
    peak.start()
    batches = make(folder, kind)
    next(batches)
    start, used, windows = time.perf_counter(), processor_time(), 0
    while time.perf_counter() - start < seconds:
        windows += next(batches)
    took, used = time.perf_counter() - start, processor_time() - used
    peak.end()
    return {
        "speed": windows / took,
        "cpu_ms": 1000 * used / windows,
        "mib": (peak.nbytes - before) / (1 << 20),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--folder", help="where the datasets are, or will be made")
    parser.add_argument("--run", nargs=2, metavar=("LOADER", "KIND"), help="one run, as JSON")
    given = parser.parse_args()
    folder = given.folder or tempfile.mkdtemp()
    if given.run:
        loader, kind = given.run
        print(json.dumps(run(folder, loader, kind, given.seconds)))
        os._exit(0)  # which waits for no loader
    if not Path(folder, "arrays").exists():
        subprocess.run(
            [sys.executable, "-c", f"from bench.robots import prepare; prepare({folder!r})"],
            check=True,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    print(machine(), "\n")
    for kind in KINDS:
        loaders = [name for name in LOADERS if kind == "pixels" or name != "data source"]
        found: dict[str, list[dict[str, float]]] = {name: [] for name in loaders}
        for _ in range(given.rounds):
            for name in loaders:
                command = [sys.executable, "-m", "bench.robots", "--folder", folder]
                command += ["--seconds", str(given.seconds), "--run", name, kind]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                found[name].append(json.loads(done.stdout.splitlines()[-1]))
        rows = []
        middle = {
            name: {key: statistics.median(each[key] for each in runs) for key in runs[0]}
            for name, runs in found.items()
        }
        for name, values in middle.items():
            ratio = values["speed"] / middle["tf.data"]["speed"]
            less = middle["tf.data"]["cpu_ms"] / values["cpu_ms"]
            rows.append(
                [
                    name,
                    f"{values['speed']:,.0f}",
                    f"{ratio:.1f}x",
                    f"{values['cpu_ms']:.2f} ms",
                    f"{less:.1f}x",
                    f"{values['mib']:,.0f} MiB",
                ]
            )
        columns = ["loader", "windows/s", "", "processor time", "less", "memory"]
        print(table(f"Windows of 16 actions, shuffled: {kind}", columns, rows))


if __name__ == "__main__":
    main()

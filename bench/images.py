"""``make bench-images``: JPEGs of 500 x 375 to batches of 224 x 224, in the training process.

"ours" is ``TFRecordIterable(images=…)`` in a DataLoader of so many workers, and "ours, threads" is
it without workers, with so many threads. The others are DataLoaders of as many workers: over a list
of encoded images in memory by Pillow and by torchvision.io, and webdataset over a tar file with
Pillow. Pictures are noise with the spectrum of photos. All loaders take turns, each run in a
process of its own. Processor time is that of the process and its workers, without imports.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench.photos import photo
from bench.timing import machine, table
from bench.torch_loaders import processor_seconds

SIZE, BATCH = (224, 224), 32
LOADERS = ("ours", "ours, threads", "Pillow", "torchvision.io", "webdataset")


def write(count: int, folder: Path) -> None:
    photos = [photo(seed) for seed in range(min(count, 64))]
    photos = [photos[i % len(photos)] for i in range(count)]
    schema = {"image": "bytes", "label": "int64"}
    with tfs.ShardedWriter(f"{folder}/train", num_shards=4, schema=schema) as writer:
        for label, data in enumerate(photos):
            writer.write({"image": data, "label": label})
    with tarfile.open(folder / "all.tar", "w") as tar:
        for label, data in enumerate(photos):
            for suffix, held in (("jpg", data), ("cls", str(label).encode())):
                info = tarfile.TarInfo(f"{label:08d}.{suffix}")
                info.size = len(held)
                tar.addfile(info, io.BytesIO(held))


class Encoded:
    """Encoded images in memory, as a map-style dataset."""

    def __init__(self, photos: list[bytes], decode: Any) -> None:
        self._photos, self._decode = photos, decode

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self._decode(self._photos[index]), index


def by_pillow(data: bytes) -> Any:
    import torch
    from PIL import Image

    picture = Image.open(io.BytesIO(data)).convert("RGB")
    return torch.from_numpy(np.array(picture.resize(SIZE[::-1], Image.Resampling.BILINEAR)))


def by_torchvision(data: bytes) -> Any:
    import torch
    import torchvision  # type: ignore[import-not-found]
    from torchvision.transforms.v2 import functional  # type: ignore[import-not-found]

    pixels = torchvision.io.decode_jpeg(torch.frombuffer(bytearray(data), dtype=torch.uint8))
    return functional.resize(pixels, list(SIZE), antialias=True)


def batches(loader: str, folder: str, count: int) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    if loader.startswith("ours"):
        from tfio_store.torch import TFRecordIterable

        threads = loader.endswith("threads")
        dataset = TFRecordIterable(f"{folder}/train", batch_size=BATCH, images={"image": SIZE})
        for batch in DataLoader(dataset, batch_size=None, num_workers=0 if threads else count):
            yield batch["image"]
        return
    if loader == "webdataset":
        import webdataset

        found: Any = webdataset.WebDataset([f"{folder}/all.tar"] * count, shardshuffle=False)
        found = found.to_tuple("jpg", "cls").map_tuple(by_pillow, int).batched(BATCH)
        for images, _ in webdataset.WebLoader(found, batch_size=None, num_workers=count):
            yield images
        return
    schema = {"image": "bytes"}
    photos = tfs.decode_examples(tfs.RecordSource(f"{folder}/train")[:], schema)["image"].tolist()
    decode = by_pillow if loader == "Pillow" else by_torchvision
    for images, _ in DataLoader(Encoded(photos, decode), BATCH, num_workers=count):
        yield images


def one(loader: str, folder: str, count: int) -> None:
    """In a process of its own, on so many cores."""
    import torch

    import tfio_store.image
    import tfio_store.torch  # noqa: F401

    if loader == "torchvision.io":
        by_torchvision(photo(0))
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    busy, start, seen = processor_seconds(), time.perf_counter(), 0
    for images in batches(loader, folder, count):
        seen += len(images)
    taken = time.perf_counter() - start
    print(json.dumps({"speed": seen / taken, "busy": (processor_seconds() - busy) / seen}))


def run(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.images", "--one", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def loads(module: str) -> bool:
    """Whether it is there, and goes with this PyTorch."""
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True)
    if done.returncode:
        print(f"without {module}: {done.stderr.decode().strip().splitlines()[-1]}")
    return done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one[0], given.one[1], int(given.one[2]))
        return
    peers = {"torchvision.io": "torchvision", "webdataset": "webdataset"}
    loaders = [name for name in LOADERS if loads(peers.get(name, "torch"))]
    print(machine(), "load", *os.getloadavg(), flush=True)
    lines: list[list[str]] = []
    with tempfile.TemporaryDirectory() as folder:
        write(given.count, Path(folder))
        for cores in (1, 2):
            found: dict[str, list[dict[str, float]]] = {name: [] for name in loaders}
            for _ in range(given.rounds):
                for name in loaders:
                    found[name].append(run(name, folder, str(cores)))
            for name in loaders:
                speed = statistics.median(each["speed"] for each in found[name])
                busy = statistics.median(each["busy"] for each in found[name])
                lines.append([f"{name}, {cores}", f"{speed:,.0f}", f"{busy * 1e6:,.0f}"])
                print(*lines[-1], flush=True)
    print(machine(), "load", *os.getloadavg())
    head = ["loader, workers or threads", "images/s", "processor µs an image"]
    print(table("JPEGs of 500 x 375 to batches of 224 x 224", head, lines))


if __name__ == "__main__":
    main()

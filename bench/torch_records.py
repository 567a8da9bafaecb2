"""The same records as TFRecords, tar files and MDS, for `bench.torch_loaders`."""

from __future__ import annotations

import io
import json
import sys
import tarfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from tfio_store.dali import write_idx

SHARDS = 8
SCALARS = [f"i{k}" for k in range(5)] + [f"f{k}" for k in range(5)]

Row = dict[str, Any]


def columns(what: str, count: int) -> dict[str, Any]:
    values = np.random.default_rng(1)
    if what == "rows":
        made: dict[str, Any] = {n: values.integers(0, 1000, count) for n in SCALARS[:5]}
        return made | {n: values.random(count).astype(np.float32) for n in SCALARS[5:]}
    if what == "tokens":
        return {"tokens": values.integers(0, 50_000, (count, 512))}
    sizes = values.integers(90_000, 110_000, count).tolist()
    images = [b"\xff\xd8\xff" + values.bytes(size) for size in sizes]
    return {"image": images, "label": np.arange(count)}


def rows(table: dict[str, Any], shard: int) -> Iterator[Row]:
    """Every eighth row."""
    count = len(next(iter(table.values())))
    for i in range(shard, count, SHARDS):
        yield {name: column[i] for name, column in table.items()}


def write(what: str, count: int, folder: Path) -> None:
    """The same records in all formats."""
    made = columns(what, count)
    tfs.write_table(made, f"{folder}/tfrecord/train", num_shards=SHARDS)
    with open(folder / "one.tfrecord", "wb") as one:  # which its workers share by an index
        for file in sorted((folder / "tfrecord").glob("train-*.tfrecord")):
            one.write(file.read_bytes())
    write_idx(f"{folder}/one.tfrecord", f"{folder}/one.idx")
    (folder / "tar").mkdir()
    for shard in range(SHARDS):
        with tarfile.open(folder / "tar" / f"{shard}.tar", "w") as tar:
            for number, row in enumerate(rows(made, shard)):
                for suffix, data in files(what, row):
                    info = tarfile.TarInfo(f"{number:08d}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    kinds = {
        "rows": {name: "int64" if name[0] == "i" else "float32" for name in SCALARS},
        "tokens": {"tokens": "ndarray:int64:512"},
        "images": {"image": "bytes", "label": "int64"},
    }[what]
    with streaming().MDSWriter(out=str(folder / "mds"), columns=kinds) as writer:
        for shard in range(SHARDS):
            for row in rows(made, shard):
                writer.write(row)


def files(what: str, row: Row) -> list[tuple[str, bytes]]:
    """A record in a tar file."""
    if what == "rows":
        plain = {name: value.item() for name, value in row.items()}
        return [("json", json.dumps(plain).encode())]
    if what == "tokens":
        memory = io.BytesIO()
        np.save(memory, row["tokens"])
        return [("npy", memory.getvalue())]
    return [("jpg", row["image"]), ("cls", str(row["label"]).encode())]


def streaming() -> Any:
    """mosaicml-streaming, without the packages of which it needs names for its own datasets."""
    names = {
        "transformers.models.auto.tokenization_auto": "AutoTokenizer",
        "transformers.feature_extraction_utils": "BatchFeature",
        "transformers.tokenization_utils_base": "BatchEncoding",
        "torchvision.datasets": "VisionDataset CIFAR10",
        "torchvision.transforms.functional": "to_tensor",
    }
    for module, held in names.items():
        parts = module.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:end]), types.ModuleType(parts[end - 1]))
        for name in held.split():
            setattr(sys.modules[module], name, type(name, (), {}))
    import streaming as found

    return found

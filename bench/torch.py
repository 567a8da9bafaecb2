"""``make bench-torch``: from storage to tensors in the training process, by two workers.

The same records as TFRecords for this library and for tfrecord (vahidk's), as tar files for
webdataset, and as MDS for mosaicml-streaming, local and in a bucket. tfrecord reads local files
only. Images are not decoded: that takes as long in every loader. They come as tensors of uint8.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import types
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tfio_store as tfs
from bench import turns
from bench.data import FLOATS, INTS, scalars
from bench.timing import table
from tfio_store.dali import write_idx

WORKERS, SHARDS = 2, 8
BATCH = {"rows": 1024, "images": 32}
COUNTS = {"rows": 2_000_000, "images": 8_000}
TITLES = {"rows": "rows of 10 scalars", "images": "images of 100 KB"}
Row = dict[str, Any]


@dataclass(frozen=True)
class Work(turns.Work):
    shuffle: bool = False
    backend: str = "fsspec"

    @property
    def name(self) -> str:
        backend = self.backend if self.endpoint and self.loader == "tfio_store" else ""
        how = [self.loader, backend, "shuffled" * self.shuffle]
        return ", ".join(filter(None, [self.where, *how]))


# --- loaders ----------------------------------------------------------------------------


def ours(work: Work) -> Generator[Any, None, None]:
    from torch.utils.data import DataLoader

    from tfio_store.torch import TFRecordIterable

    image: dict[str, Any] = {"image": tfs.Feature("uint8", (None,), raw=True), "label": "int64"}
    dataset = TFRecordIterable(
        f"{work.folder}/tfrecord/train",
        batch_size=BATCH[work.what],
        schema=image if work.what == "images" else None,
        shuffle=work.shuffle,
        storage=tfs.Storage(turns.options(work.endpoint), backend=work.backend),
    )
    for batch in DataLoader(dataset, batch_size=None, num_workers=WORKERS):
        yield batch["image"].rows() if work.what == "images" else batch


def by_tfrecord(work: Work) -> Generator[Any, None, None]:
    from tfrecord.torch.dataset import TFRecordDataset

    names = {"image": "byte", "label": "int"}
    if work.what == "rows":
        names = dict.fromkeys(INTS, "int") | dict.fromkeys(FLOATS, "float")
    place = f"{work.folder}/tfrecord/one"
    yield from loaded(work, TFRecordDataset(f"{place}.tfrecord", f"{place}.idx", names))


def by_webdataset(work: Work) -> Generator[Any, None, None]:
    import webdataset
    from torch.utils.data import default_collate

    urls = [f"{work.folder}/tar/{n}.tar" for n in range(SHARDS)]
    if work.endpoint:
        import s3fs

        fs = s3fs.S3FileSystem(**turns.options(work.endpoint))
        urls = [f"pipe:curl -s '{fs.sign(url)}'" for url in urls]
    found = webdataset.WebDataset(urls, shardshuffle=False, empty_check=False)
    size, images = BATCH[work.what], work.what == "images"
    if images:
        found = found.to_tuple("jpg", "cls").batched(size, collation_fn=list)
    else:
        found = found.decode().to_tuple("json").batched(size, collation_fn=default_collate)
    for batch in webdataset.WebLoader(found, batch_size=None, num_workers=WORKERS):
        yield as_tensors([row[0] for row in batch]) if images else batch


def by_streaming(work: Work) -> Generator[Any, None, None]:
    place = {"local": f"{work.folder}/mds"}
    if work.endpoint:
        keys = turns.options(work.endpoint)
        os.environ |= {
            "S3_ENDPOINT_URL": work.endpoint,
            "AWS_ACCESS_KEY_ID": keys["key"],
            "AWS_SECRET_ACCESS_KEY": keys["secret"],
        }
        place = {"remote": f"{work.folder}/mds", "local": tempfile.mkdtemp(dir="/dev/shm")}
    kind = streaming().StreamingDataset
    yield from loaded(work, kind(**place, batch_size=BATCH[work.what], shuffle=work.shuffle))
    if work.endpoint:
        shutil.rmtree(place["local"])


def loaded(work: Work, dataset: Any) -> Iterator[Any]:
    """The batches of a loader of PyTorch's."""
    from torch.utils.data import DataLoader

    images = work.what == "images"
    options = {"collate_fn": images_of} if images else {}
    for batch in DataLoader(dataset, BATCH[work.what], num_workers=WORKERS, **options):
        yield as_tensors(batch) if images else batch


def images_of(batch: list[Row]) -> list[bytes]:
    return [row["image"] for row in batch]


def as_tensors(images: list[bytes]) -> list[Any]:
    import torch

    return [torch.frombuffer(image, dtype=torch.uint8) for image in images]


READ: dict[str, Callable[[Work], Generator[Any, None, None]]] = {
    "tfio_store": ours,
    "tfrecord": by_tfrecord,
    "webdataset": by_webdataset,
    "streaming": by_streaming,
}


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


# --- records ----------------------------------------------------------------------------


def columns(what: str, count: int) -> dict[str, Any]:
    if what == "rows":
        return scalars(count)
    values = np.random.default_rng(1)
    sizes = values.integers(90_000, 110_000, count).tolist()
    images = [b"\xff\xd8\xff" + values.bytes(size) for size in sizes]
    return {"image": images, "label": np.arange(count)}


def rows(made: dict[str, Any], shard: int) -> Iterator[Row]:
    """Every eighth row."""
    count = len(next(iter(made.values())))
    for i in range(shard, count, SHARDS):
        yield {name: column[i] for name, column in made.items()}


def in_tar(what: str, row: Row) -> Row:
    if what == "rows":
        return {"json": {name: value.item() for name, value in row.items()}}
    return {"jpg": row["image"], "cls": int(row["label"])}


def write(what: str, count: int, folder: Path) -> None:
    """The same records in all formats."""
    import webdataset

    made = columns(what, count)
    tfs.write_table(made, f"{folder}/tfrecord/train", num_shards=SHARDS)
    with open(folder / "tfrecord/one.tfrecord", "wb") as one:  # which its workers share by an index
        for file in sorted((folder / "tfrecord").glob("train-*.tfrecord")):
            one.write(file.read_bytes())
    write_idx(f"{folder}/tfrecord/one.tfrecord", f"{folder}/tfrecord/one.idx")
    (folder / "tar").mkdir()
    for shard in range(SHARDS):
        with webdataset.TarWriter(f"{folder}/tar/{shard}.tar") as tar:
            for number, row in enumerate(rows(made, shard)):
                tar.write({"__key__": f"{number:08d}"} | in_tar(what, row))
    kinds = {"image": "bytes", "label": "int64"}
    if what == "rows":
        kinds = dict.fromkeys(INTS, "int64") | dict.fromkeys(FLOATS, "float32")
    with streaming().MDSWriter(out=str(folder / "mds"), columns=kinds) as writer:
        for shard in range(SHARDS):
            for row in rows(made, shard):
                writer.write(row)


# --- measuring --------------------------------------------------------------------------


def size(batch: Any) -> int:
    if isinstance(batch, tuple) or (isinstance(batch, list) and isinstance(batch[0], dict)):
        batch = batch[0]
    return len(next(iter(batch.values())) if isinstance(batch, dict) else batch)


def one(work: Work) -> None:
    """In a process of its own. What a loader imports takes no part of the time."""
    import s3fs  # noqa: F401
    import tfrecord.torch  # noqa: F401
    import torch
    import webdataset  # noqa: F401

    import tfio_store.torch  # noqa: F401

    streaming()
    torch.set_num_threads(1)
    turns.child(lambda: READ[work.loader](work), size)


def works_on(what: str, folder: str, endpoint: str) -> list[Work]:
    if not endpoint:
        found = [Work(loader, what, folder) for loader in READ]
        return [*found, Work("tfio_store", what, folder, shuffle=True)]
    backends = ("obstore", "fsspec")
    found = [Work("tfio_store", what, folder, endpoint, backend=each) for each in backends]
    return [*found, *(Work(loader, what, folder, endpoint) for loader in [*READ][2:])]


def main() -> None:
    title = f"To tensors in the training process, {WORKERS} workers"
    for what, lines in turns.measure("bench.torch", COUNTS, write, works_on):
        print(table(title, [TITLES[what], *turns.COLUMNS], lines), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(Work(**json.loads(sys.argv[2])))
    main()

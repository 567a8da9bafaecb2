"""``make bench-torch``: from storage to tensors in the training process, by two workers.

The same records as TFRecords for this library and for tfrecord (vahidk's), as tar files for
webdataset, and as MDS for mosaicml-streaming. Each loader runs in a process of its own, and the
speed is that of its first epoch, from the loader's start to its last batch, or of the first seconds
(``--seconds``) of a longer one. The bucket is Ceph's
gateway on this machine, behind a proxy that makes each request wait 30 ms and gives each connection
80 MB/s. tfrecord reads local files only.

The store and its proxy take their share of the cores. So the table tells the processor time of each
loader too, with its workers: without waiting for cores, that is the limit.

Memory is what the process and its workers hold at most, beyond what a process holds that has
imported the same, in a run of its own. What they share is counted once (PSS).

Images are not decoded: that takes as long in every loader. They come as tensors of uint8.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

import tfio_store as tfs
from bench.timing import machine, table
from bench.torch_records import SCALARS, SHARDS, Row, streaming, write
from tests.servers.ceph import KEY, SECRET, ceph
from tests.servers.shaping_proxy import shaped

WORKERS = 2
SHAPE: dict[str, float] = {"ttfb_ms": 30, "bandwidth": 80e6}
BATCH = {"rows": 1024, "tokens": 256, "images": 32}
NBYTES = {"rows": 100, "tokens": 1100, "images": 100_000}
"""About what a record of each kind takes."""
MIB = {"rows": 200, "tokens": 200, "images": 800}
LOADERS = ("tfio_store", "tfrecord", "webdataset", "streaming")


@dataclass(frozen=True)
class Work:
    """One loader over one kind of records. ``endpoint``: of S3; "" for local files."""

    loader: str
    what: str
    folder: str
    endpoint: str = ""
    shuffle: bool = False
    backend: str = "fsspec"

    @property
    def name(self) -> str:
        backend = self.backend if self.endpoint and self.loader == "tfio_store" else ""
        how = [self.loader, backend, "shuffled" * self.shuffle]
        return ", ".join(filter(None, ["S3" if self.endpoint else "local", self.what, *how]))

    @property
    def options(self) -> dict[str, Any] | None:
        if not self.endpoint:
            return None
        return {"endpoint_url": self.endpoint, "key": KEY, "secret": SECRET}


def ours(work: Work) -> Generator[Any, None, None]:
    from torch.utils.data import DataLoader

    from tfio_store.torch import TFRecordIterable

    image: dict[str, Any] = {"image": tfs.Feature("uint8", (None,), raw=True), "label": "int64"}
    dataset = TFRecordIterable(
        f"{work.folder}/tfrecord/train",
        batch_size=BATCH[work.what],
        schema=image if work.what == "images" else None,
        shuffle=work.shuffle,
        storage=tfs.Storage(work.options, backend=work.backend),
    )
    for batch in DataLoader(dataset, batch_size=None, num_workers=WORKERS):
        yield batch["image"].rows() if work.what == "images" else batch


def by_tfrecord(work: Work) -> Generator[Any, None, None]:
    from tfrecord.torch.dataset import TFRecordDataset
    from torch.utils.data import DataLoader

    names = {
        "rows": {name: "int" if name[0] == "i" else "float" for name in SCALARS},
        "tokens": {"tokens": "int"},
        "images": {"image": "byte", "label": "int"},
    }[work.what]
    dataset = TFRecordDataset(f"{work.folder}/one.tfrecord", f"{work.folder}/one.idx", names)
    options = {"collate_fn": images_of_rows} if work.what == "images" else {}
    found = DataLoader(dataset, BATCH[work.what], num_workers=WORKERS, **options)
    for batch in found:
        yield as_tensors(batch) if work.what == "images" else batch


def by_webdataset(work: Work) -> Generator[Any, None, None]:
    import webdataset
    from torch.utils.data import default_collate

    size = BATCH[work.what]
    if work.endpoint:
        import s3fs

        fs = s3fs.S3FileSystem(**work.options or {})
        bucket = work.folder.removeprefix("s3://")
        urls = [f"pipe:curl -s '{fs.sign(f'{bucket}/tar/{n}.tar')}'" for n in range(SHARDS)]
    else:
        urls = [f"{work.folder}/tar/{n}.tar" for n in range(SHARDS)]
    found = webdataset.WebDataset(urls, shardshuffle=False, empty_check=False)
    if work.what == "images":
        found = found.to_tuple("jpg", "cls").batched(size, collation_fn=list)
    else:
        found = found.decode().to_tuple("json" if work.what == "rows" else "npy")
        found = found.batched(size, collation_fn=default_collate)
    for batch in webdataset.WebLoader(found, batch_size=None, num_workers=WORKERS):
        yield as_tensors([row[0] for row in batch]) if work.what == "images" else batch


def by_streaming(work: Work) -> Generator[Any, None, None]:
    from torch.utils.data import DataLoader

    kind = streaming().StreamingDataset
    size = BATCH[work.what]
    if work.endpoint:
        os.environ |= {
            "S3_ENDPOINT_URL": work.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }
        place = {"remote": f"{work.folder}/mds", "local": tempfile.mkdtemp(dir="/dev/shm")}
    else:
        place = {"local": f"{work.folder}/mds"}
    dataset = kind(**place, batch_size=size, shuffle=work.shuffle)
    options = {"collate_fn": images_of_rows} if work.what == "images" else {}
    found = DataLoader(dataset, size, num_workers=WORKERS, **options)
    for batch in found:
        yield as_tensors(batch) if work.what == "images" else batch
    if work.endpoint:
        subprocess.run(["rm", "-rf", place["local"]], check=True)


def images_of_rows(batch: list[Row]) -> list[bytes]:
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


# --- measuring --------------------------------------------------------------------------


class Peak(threading.Thread):
    """The most memory that this process and its children hold."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.nbytes = 0
        self._ended = threading.Event()

    def run(self) -> None:
        while not self._ended.wait(0.1):
            self.nbytes = max(self.nbytes, self.held())

    @staticmethod
    def held() -> int:
        me, total = psutil.Process(), 0
        for process in (me, *me.children(recursive=True)):
            try:
                total += process.memory_full_info().pss
            except psutil.Error:  # it has ended
                continue
        return total

    def end(self) -> None:
        self._ended.set()
        self.join()


def records_in(work: Work, batch: Any) -> int:
    if work.what == "images":
        return len(batch)
    if isinstance(batch, list | tuple):
        batch = batch[0]
    return len(next(iter(batch.values())) if isinstance(batch, dict) else batch)


def processor_seconds() -> float:
    """Of this process, and of those that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def one(work: Work, most: float, *, weigh: bool) -> None:
    """In a process of its own. Only ``weigh`` looks at memory, which takes processor time."""
    import s3fs  # noqa: F401 - what a loader imports takes no part of the time
    import tfrecord.torch  # noqa: F401
    import torch
    import webdataset  # noqa: F401

    import tfio_store.torch  # noqa: F401

    streaming()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    before, peak = Peak.held(), Peak()
    if weigh:
        peak.start()
    busy, start = processor_seconds(), time.perf_counter()
    count, taken = 0, 0.0
    with closing(READ[work.loader](work)) as batches:  # its workers end, and their time counts
        for batch in batches:
            count += records_in(work, batch)
            taken = time.perf_counter() - start
            if taken > most:
                break
    if weigh:
        peak.end()
    busy = processor_seconds() - busy
    found = {"speed": count / taken, "records": count, "nbytes": peak.nbytes - before}
    print(json.dumps(found | {"whole": taken <= most, "busy": busy / count}))


def run(work: Work, most: float, *, weigh: bool = False) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.torch_loaders", "--one", json.dumps(asdict(work))]
    command += ["--seconds", str(most), *(["--weigh"] if weigh else [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise RuntimeError(f"{work}: {done.stderr[-2000:]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def works_on(what: str, folder: str, endpoint: str) -> list[Work]:
    if not endpoint:
        found = [Work(loader, what, folder) for loader in LOADERS]
        return [*found, Work("tfio_store", what, folder, shuffle=True)]
    peers = [Work(loader, what, folder, endpoint) for loader in LOADERS[2:]]
    ours = [
        Work("tfio_store", what, folder, endpoint, shuffle, backend)
        for backend in ("obstore", "fsspec")
        for shuffle in (False, True)
    ]
    return [*ours, *peers]


def measure(works: list[Work], rounds: int, count: int, most: float) -> list[list[str]]:
    """The lines of one kind of records: the loaders take turns."""
    found: dict[Work, list[dict[str, float]]] = {work: [] for work in works}
    held = {work: run(work, most, weigh=True)["nbytes"] for work in works}
    for _ in range(rounds):
        for work in works:
            found[work].append(run(work, most))
    speeds = {w: statistics.median(each["speed"] for each in found[w]) for w in works}
    lines = []
    for work in works:
        for each in found[work]:
            if each["whole"]:  # some leave out a last batch
                assert count * 0.98 <= each["records"] <= count * 1.02, (work, each, count)
        busy = statistics.median(each["busy"] for each in found[work])
        times = speeds[works[0]] / speeds[work]
        lines.append(
            [work.name, f"{speeds[work]:,.0f}", f"{times:.1f}", f"{busy * 1e6:,.0f}",
             f"{held[work] / 2**20:.0f}"]
        )  # fmt: skip
        print(*lines[-1], flush=True)
    return lines


def upload(folder: Path, endpoint: str, bucket: str) -> None:
    import s3fs

    fs = s3fs.S3FileSystem(endpoint_url=endpoint, key=KEY, secret=SECRET)
    fs.mkdir(bucket)
    for name in ("tfrecord", "tar", "mds"):
        fs.put(f"{folder}/{name}/", f"{bucket}/{name}/", recursive=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, help="data of each kind; default 200, of images 800")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10, help="the most for an epoch")
    parser.add_argument("--kinds", nargs="+", default=list(BATCH))
    parser.add_argument("--weigh", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(Work(**json.loads(given.one)), given.seconds, weigh=given.weigh)
        return
    lines: list[list[str]] = []
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as top,
        ceph() as endpoint,
        shaped(endpoint, **SHAPE) as proxy,
    ):
        for what in given.kinds:
            folder = Path(top, what)
            folder.mkdir()
            count = (given.mib or MIB[what]) * 2**20 // NBYTES[what]
            write(what, count, folder)
            upload(folder, endpoint, f"bench-{what}")
            for place, address in ((str(folder), ""), (f"s3://bench-{what}", proxy.endpoint)):
                works = works_on(what, place, address)
                lines += measure(works, given.rounds, count, given.seconds)
    print(machine(), "load", *os.getloadavg())
    head = ["", "records/s", "times slower", "processor µs a record", "memory, MiB"]
    print(table(f"To tensors in the training process, {WORKERS} workers", head, lines))


if __name__ == "__main__":
    main()

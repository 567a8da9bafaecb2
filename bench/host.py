"""``make bench-host BASE=commit``: how one process fills the machine at hand.

Each part reads one kind of data through the doors that its users take, on 1, 2, 4 … n cores, beside
what the machine allows and beside peers that are installed. Each figure is the median of its
rounds; a run is a process of its own that may use so many cores. The first run of a process warms
it up and is not counted. With ``BASE``, another commit of this tree takes turns with it.

local: records in large batches, all checksums taken. The limit is `pread` by as many threads as
cores; "readers" are as many readers, each in a thread. bucket: the same from a store of several
processes that share the cores (`bench.fast_store`); the limit is obstore's own ranges. columns: 10
scalars a row; the limit is the same rows already in memory. torch: these rows in batches of 1,024
tensors. pictures: JPEGs of 500 x 375 to 224 x 224; the limit is the decoder alone, at the same
scale and without resizing. loop: small steps in Python while they are fed: the share of their own
speed that they keep, without the waiting. gpu: ResNet-50, fed with JPEGs; the limit is one batch
again and again. gil: how long a reader holds Python's lock to read a GiB, as py-spy sees it; on
however many cores, no process reads more than the inverse. A thread that is stopped for another one
while it holds the lock counts too.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import itertools
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):  # run as a script: PYTHONPATH says whose tfio_store it measures
    del sys.path[0]

HERE = FOLDER.parent
SIZES = {"100 B": 100, "1 kB": 1000, "120 kB": 120_000}
PIECE = 4 << 20
GIB = float(1 << 30)
ROW = 170
"""Bytes of a record of 10 scalars."""
BATCH, SIDE = 1024, 224
PICTURES, PICTURES_A_CORE = 64, 768
WORKERS = {"no workers": 0, "one worker": 1}
PIXELS: dict[str, Any] = {"images": {"image": (SIDE, SIDE)}}
GPU_BATCH, LOOP_STEPS = 256, 600

Rates: TypeAlias = "dict[str, float]"
"""What is done in a second, by row."""

Place: TypeAlias = "tuple[str, dict[str, Any]]"


class Run:
    """What a part reads: ``folder``, which ``endpoint`` serves, on so many ``cores``."""

    def __init__(self, folder: str, endpoint: str, cores: int) -> None:
        self.folder, self.endpoint, self.cores = folder, endpoint, cores

    def files(self, name: str) -> list[Path]:
        return sorted(Path(self.folder, "bench").glob(f"{name}-*.tfrecord"))

    def nbytes(self, name: str) -> int:
        return sum(path.stat().st_size for path in self.files(name))

    def place(self, name: str, bucket: bool = False, backend: str = "auto") -> Place:
        """A dataset's URL, and the options of its storage."""
        if not bucket:
            return f"{self.folder}/bench/{name}", {}
        import tfio_store as tfs

        options = {"endpoint_url": self.endpoint, "key": "bench", "secret": "bench-secret"}
        return f"s3://bench/{name}", {"storage": tfs.Storage(options, backend=backend)}


def rate(amount: float, call: Callable[[], object], *, warm: bool = True) -> float:
    """So much is done in a second by the second call."""
    if warm:
        call()
    begin = time.perf_counter()
    call()
    return amount / (time.perf_counter() - begin)


def drain(source: str, share: tuple[int, int] | None = None, **options: Any) -> None:
    import tfio_store as tfs

    reader = tfs.RecordReader(source, **options)
    with reader if share is None else reader.shard(*share) as reader:
        deque(reader.batches(), 0)


def in_threads(works: Sequence[Callable[[], object]]) -> None:
    with ThreadPoolExecutor(len(works)) as pool:
        list(pool.map(lambda work: work(), works))


# --- the parts ---------------------------------------------------------------------------------


def local(run: Run) -> Rates:
    """GB/s."""
    found = {}
    for name in SIZES:
        gb = run.nbytes(kind(name)) / 1e9
        url, _ = run.place(kind(name))
        found[f"{name}, pread"] = rate(gb, partial(preads, run.files(kind(name)), run.cores))
        found[f"{name}, RecordReader"] = rate(gb, partial(drain, url))
        shares = [partial(drain, url, (i, run.cores)) for i in range(run.cores)]
        found[f"{name}, readers"] = rate(gb, partial(in_threads, shares))
        found |= tensorflow_records(name, run.files(kind(name)), gb)
    return found


def preads(files: list[Path], count: int) -> None:
    """All bytes of the files, read by so many threads."""
    pieces = [(path, at) for path in files for at in range(0, path.stat().st_size, PIECE)]
    pieces.reverse()

    def work() -> None:
        buffer = bytearray(PIECE)
        with contextlib.suppress(IndexError):  # none is left
            while True:
                path, at = pieces.pop()
                descriptor = os.open(path, os.O_RDONLY)
                os.preadv(descriptor, [buffer], at)
                os.close(descriptor)

    in_threads([work] * count)


def tensorflow_records(name: str, files: list[Path], gb: float) -> Rates:
    """Batches by TensorFlow's own reader, and by ours in its place."""
    if importlib.util.find_spec("tensorflow") is None:
        return {}
    import numpy as np
    import tensorflow as tf

    import tfio_store as tfs

    paths, many = [str(path) for path in files], tf.data.AUTOTUNE
    size = max(16, (1 << 20) // SIZES[name])
    theirs = tf.data.TFRecordDataset(paths, num_parallel_reads=many).batch(size).prefetch(many)
    ours = tfs.TFRecordDataset(paths, batch_size=size)

    def reduce(dataset: Any) -> None:
        dataset.reduce(np.int64(0), lambda count, _: count + 1)

    return {
        f"{name}, tf.data": rate(gb, partial(reduce, theirs)),
        f"{name}, TFRecordDataset": rate(gb, partial(reduce, ours)),
    }


def bucket(run: Run) -> Rates:
    """GB/s."""
    found = {}
    for name in ("1 kB", "120 kB"):
        gb = run.nbytes(kind(name)) / 1e9
        if importlib.util.find_spec("obstore"):
            found[f"{name}, obstore's ranges"] = rate(gb, partial(obstore_ranges, run, kind(name)))
        for backend in ("auto", "fsspec"):
            url, options = run.place(kind(name), True, backend)
            found[f"{name}, RecordReader, {backend}"] = rate(gb, partial(drain, url, **options))
    return found


def obstore_ranges(run: Run, name: str) -> None:
    """All bytes of the objects, read by its synchronous ranges."""
    import obstore
    from obstore.store import S3Store

    store = S3Store(
        "bench",
        endpoint=run.endpoint,
        access_key_id="bench",
        secret_access_key="bench-secret",
        region="us-east-1",
        client_options={"allow_http": True},
        virtual_hosted_style_request=False,
    )
    ranges = [
        (path.name, start, min(start + 2 * PIECE, path.stat().st_size))
        for path in run.files(name)
        for start in range(0, path.stat().st_size, 2 * PIECE)
    ]

    def read(name: str, start: int, stop: int) -> int:
        return len(obstore.get_range(store, name, start=start, end=stop))

    with ThreadPoolExecutor(max(8, run.cores)) as pool:
        list(pool.map(read, *zip(*ranges, strict=True)))


def columns(run: Run) -> Rates:
    """Millions of rows a second."""
    rows = run.nbytes("scalars") / ROW / 1e6
    found = {"in memory, decode_examples": rate(rows, decoded(run))}
    for where in ("local", "bucket"):
        place = run.place("scalars", where == "bucket")
        found[f"{where}, batches of a loader"] = flow(partial(loaded, place, 0, 1 << 16)) / 1e6
        if importlib.util.find_spec("pyarrow"):
            found[f"{where}, iter_tables"] = rate(rows, partial(tables, place))
        if importlib.util.find_spec("tensorflow"):
            found[f"{where}, TFRecordDataset"] = rate(rows, partial(tensors, place))
    return found


def decoded(run: Run) -> Callable[[], object]:
    """Decodes all rows, which are in memory, in as many threads as cores."""
    import tfio_store as tfs

    place = run.place("scalars")
    with tfs.RecordReader(place[0]) as reader:
        held = list(reader.batches())
    schema: Any = tfs.info(place[0]).schema

    def work() -> None:
        with ThreadPoolExecutor(run.cores) as pool:
            list(pool.map(lambda each: tfs.decode_examples(each, schema) and None, held))

    return work


def loaded(place: Place, workers: int, size: int, **options: Any) -> Iterator[Any]:
    from torch.utils.data import DataLoader

    from tfio_store.torch import TFRecordIterable

    dataset = TFRecordIterable(place[0], **place[1], batch_size=size, **options)
    yield from DataLoader(dataset, batch_size=None, num_workers=workers)


def flow(call: Callable[[], Iterator[Any]], most: float = math.inf) -> float:
    """Rows a second of the second call, behind its first batch: workers begin and end."""
    for _ in range(2):
        begin = end = count = 0.0
        for batch in call():
            end = time.perf_counter()
            count += len(next(iter(batch.values()))) if begin else 0
            begin = begin or end
            if count >= most:
                break
    return count / (end - begin)


def tables(place: Place) -> None:
    import tfio_store as tfs

    deque(tfs.iter_tables(place[0], **place[1]), 0)


def tensors(place: Place) -> None:
    import numpy as np

    import tfio_store as tfs

    url, options = place
    schema = tfs.info(url, **options).schema
    dataset = tfs.TFRecordDataset(url, **options, batch_size=BATCH, schema=schema)
    dataset.reduce(np.int64(0), lambda count, _: count + 1)


def torch(run: Run) -> Rates:
    """Millions of rows a second."""
    local, bucket = run.place("scalars"), run.place("scalars", True)
    rows = {"no workers": (local, 0), "bucket, no workers": (bucket, 0), "one worker": (local, 1)}
    return {name: flow(partial(loaded, *given, BATCH)) / 1e6 for name, given in rows.items()}


def pictures(run: Run) -> Rates:
    """Thousands of images a second."""
    import simplejpeg

    import tfio_store as tfs

    place = run.place("pictures")
    with tfs.RecordReader(place[0]) as reader:
        schema: Any = tfs.info(place[0]).schema
        found = [tfs.decode_examples(each, schema)["image"] for each in reader.batches()]
    most = PICTURES_A_CORE * run.cores
    images = [image for column in found for image in column.tolist()][:most]

    def alone() -> None:
        def one(image: bytes) -> None:
            simplejpeg.decode_jpeg(image, min_height=SIDE, min_width=SIDE, min_factor=1)

        def several(some: list[bytes]) -> None:
            for image in some:
                one(image)

        with ThreadPoolExecutor(run.cores) as pool:
            list(pool.map(several, [images[at : at + 16] for at in range(0, len(images), 16)]))

    rates = {"the decoder alone": rate(len(images) / 1e3, alone)}
    for name, workers in WORKERS.items():
        call = partial(loaded, place, workers, BATCH // 16, **PIXELS)
        rates[name] = flow(call, len(images)) / 1e3
    return rates


def loop(run: Run) -> Rates:
    """The share of its own speed that a loop of small steps keeps."""
    import torch

    from tfio_store.torch import TFRecordIterable

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    names = [f"{kind}{k}" for kind in "if" for k in range(5)]

    def step(batch: dict[str, Any]) -> float:
        begin = time.perf_counter()
        inputs = torch.stack([batch[name].float() for name in names], 1)
        loss = model(inputs).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return time.perf_counter() - begin

    found = {}
    for where in ("local", "bucket"):
        url, options = run.place("scalars", where == "bucket")
        dataset = TFRecordIterable(url, **options, batch_size=BATCH)
        one = next(iter(dataset))
        several: list[list[float]] = [[], [], []]
        for turn in range(9):  # the same, fed, fed: in turns
            source = iter([one] * LOOP_STEPS) if turn % 3 == 0 else iter(dataset)
            several[turn % 3] += [
                step(batch) for batch, _ in zip(source, range(LOOP_STEPS), strict=False)
            ]
            del source
        alone, fed = statistics.mean(several[0]), statistics.mean(several[1] + several[2])
        found[f"{where}, fed: of alone"] = alone / fed
    return found


def gpu(run: Run) -> Rates:
    """Images a second that ResNet-50 trains on."""
    import torch
    import torchvision  # type: ignore[import-not-found]

    if not torch.cuda.is_available():
        return {}
    torch.backends.cudnn.benchmark = True
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    place = run.place("pictures")

    def step(images: Any, labels: Any) -> None:
        images = images.cuda(non_blocking=True).permute(0, 3, 1, 2)
        images = images.to(torch.bfloat16).div_(255)
        with torch.autocast("cuda", torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels.cuda(non_blocking=True))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    def steps(source: Iterator[Any]) -> float:
        count, begin = 0, 0.0
        for batch in source:
            if len(batch["image"]) < GPU_BATCH:
                break
            step(batch["image"], batch["label"])
            if not begin:  # the first one waits for the pipeline
                torch.cuda.synchronize()
                begin = time.perf_counter()
            else:
                count += GPU_BATCH
        torch.cuda.synchronize()
        return count / (time.perf_counter() - begin)

    one = next(loaded(place, 0, GPU_BATCH, **PIXELS))
    one = {name: value.pin_memory() for name, value in one.items()}
    steps(iter([one] * 10))
    found = {"one batch again and again": steps(iter([one] * 60))}
    for name, workers in WORKERS.items():
        found[name] = steps(loaded(place, workers, GPU_BATCH, **PIXELS))
    return found


RATE, SECONDS = 400, 6


def gil(run: Run) -> Rates:
    """Seconds for a GiB."""
    spy = shutil.which("py-spy", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    kinds = [*map(kind, SIZES), "scalars"] if spy else []
    ways = itertools.product(kinds, (False, True))
    return {
        f"{name}, {'bucket' if far else 'local'}": held(spy, run, name, far) for name, far in ways
    }


def held(spy: str | None, run: Run, name: str, far: bool) -> float:
    again = f"again(Run({run.folder!r}, {run.endpoint!r}, 0), {name!r}, {far})"
    command = [sys.executable, "-c", f"from bench.host import *; {again}"]
    with (
        tempfile.NamedTemporaryFile() as samples,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader,
    ):
        assert spy is not None
        assert reader.stdout is not None
        reader.stdout.readline()
        looks = ["--gil", "--nonblocking", "--rate", str(RATE), "--duration", str(SECONDS)]
        out = ["--format", "raw", "--output", samples.name, "--pid", str(reader.pid)]
        subprocess.run([spy, "record", *looks, *out], check=True, capture_output=True)
        gib = float(reader.stdout.read())
        seen = Path(samples.name).read_text(encoding="utf-8").splitlines()
    return sum(int(line.rpartition(" ")[2]) for line in seen) / RATE / SECONDS / gib


def again(run: Run, name: str, far: bool) -> None:
    """Read for a while, the scalars as tensors in batches, and say how many GiB a second."""
    from tfio_store.torch import TFRecordIterable

    url, options = run.place(name, far)
    tensors = partial(TFRecordIterable, url, batch_size=BATCH, **options)
    read = partial(drain, url, **options) if name != "scalars" else lambda: deque(tensors(), 0)
    read()
    print("begins", flush=True)
    begun, times = time.monotonic(), 0
    while time.monotonic() < begun + SECONDS + 2:
        read()
        times += 1
    print(times * run.nbytes(name) / GIB / (time.monotonic() - begun), flush=True)
    os._exit(0)


PARTS: dict[str, Callable[[Run], Rates]] = {
    "local": local,
    "bucket": bucket,
    "columns": columns,
    "torch": torch,
    "pictures": pictures,
    "loop": loop,
    "gpu": gpu,
    "gil": gil,
}
NEEDS = {
    "torch": "torch",
    "columns": "torch",
    "pictures": "simplejpeg",
    "loop": "torch",
    "gpu": "torchvision",
    "gil": "torch",
}
UNITS = {
    "local": "GB/s of records",
    "bucket": "GB/s of records",
    "columns": "millions of rows/s",
    "torch": "millions of rows/s",
    "pictures": "thousands of images/s",
    "loop": "share of its speed",
    "gpu": "images/s",
    "gil": "s under Python's lock for a GiB",
}


# --- data, turns, tables -----------------------------------------------------------------------


def kind(name: str) -> str:
    return name.replace(" ", "")


def write(folder: str, mib: int) -> None:
    """The data of all parts: raw shards."""
    import tfio_store as tfs
    from bench.data import photo, scalars

    def put(name: str, records: Any, **options: Any) -> None:
        with tfs.ShardedWriter(f"{folder}/bench/{name}", num_shards=16, **options) as writer:
            writer.write_batch(records)

    for name, size in SIZES.items():
        record = os.urandom(size // 2) + bytes(size - size // 2)
        put(kind(name), [record] * ((mib << 20) // (size + 16)))
    rows = scalars((mib << 20) // ROW)
    put("scalars", tfs.encode_examples(rows), schema={k: str(v.dtype) for k, v in rows.items()})
    with contextlib.suppress(ImportError):
        photos = [photo(seed) for seed in range(PICTURES)]
        number = 24 * mib
        made = {"image": [photos[i % PICTURES] for i in range(number)], "label": range(number)}
        made["label"] = [i % 1000 for i in range(number)]
        put("pictures", tfs.encode_examples(made), schema={"image": "bytes", "label": "int64"})


def child(root: Path, part: str, *arguments: str) -> Rates:
    ran = subprocess.run(
        [sys.executable, __file__, "--part", part, *arguments],
        env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if ran.returncode:
        print(f"{part} {arguments}: {ran.stderr[-1500:]}", flush=True)
        return {}
    found: Rates = json.loads(ran.stdout.splitlines()[-1])
    return found


def on_cores(part: str, folder: str, endpoint: str, cores: int) -> None:
    """In a process of its own."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    print(json.dumps(PARTS[part](Run(folder, endpoint, cores))))


def doublings(most: int) -> list[int]:
    return [*(1 << k for k in range(most.bit_length()) if 1 << k < most), most]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", nargs="?", default="", help="a commit, or another built checkout")
    usual = ",".join(part for part in PARTS if part != "gil")
    parser.add_argument("--only", default=usual, help="some of these, or gil, by commas")
    parser.add_argument("--cores", help="numbers of cores, by commas. Default: 1, 2, 4 … all")
    parser.add_argument("--mib", type=int, default=512, help="data of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        part, folder, endpoint, cores = given.part
        on_cores(part, folder, endpoint, int(cores))
        return
    from bench.compare import checkout
    from bench.fast_store import fast_store
    from bench.timing import machine, table

    roots = {"": HERE, **({" before": checkout(given.base)} if given.base else {})}
    numbers = [int(number) for number in (given.cores or "").split(",") if number]
    numbers = numbers or doublings(len(os.sched_getaffinity(0)))
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    print(machine(), "load", *os.getloadavg(), flush=True)
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        write(folder, given.mib)
        with fast_store(folder, processes=max(1, max(numbers) // 2)) as endpoint:
            for part in given.only.split(","):
                if importlib.util.find_spec(NEEDS.get(part, "tfio_store")) is None:
                    print(f"without {part}: {NEEDS[part]} is not installed")
                    continue
                found: dict[str, dict[int, list[float]]] = {}
                for _ in range(given.rounds):
                    for cores in numbers if part not in ("gpu", "gil") else [max(numbers)]:
                        for name, root in roots.items():
                            rates = child(root, part, folder, endpoint, str(cores))
                            for row, value in rates.items():
                                by_cores = found.setdefault(row + name, {})
                                by_cores.setdefault(cores, []).append(value)
                rows = [
                    [row, *(_cell(by_cores.get(cores)) for cores in numbers)]
                    for row, by_cores in found.items()
                ]
                print(
                    table(f"{part}: {UNITS[part]}", ["cores", *map(str, numbers)], rows), flush=True
                )


def _cell(values: list[float] | None) -> str:
    return "" if not values else f"{statistics.median(values):.3g}"


if __name__ == "__main__":
    main()

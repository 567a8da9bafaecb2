"""Iterators whose store does not answer: they hand out what they have, and dropping one waits for
nobody."""

from __future__ import annotations

import contextlib
import gc
import gzip
import random
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.web import Handler, Web, web_server
from tests.support.framed import framed
from tests.support.long import first
from tests.tf.run_program import run

tf = pytest.importorskip("tensorflow")

from tfio_store.tf.dataset.stages import STAYS_IN_PLACE  # noqa: E402

pytestmark = pytest.mark.tensorflow

MIB = 1 << 20
RECORDS = [random.Random(i).randbytes(MIB // 16) for i in range(24 * 16)]

THREADS = 1 if STAYS_IN_PLACE else 4
"""Of TensorFlow's, which the tests leave it. What waits may not hold the last one."""

PROGRAM = """
import gc, threading, urllib.request, warnings
import fsspec.asyn
warnings.simplefilter("ignore")
gc.disable()
tf.config.threading.set_inter_op_parallelism_threads(ARGS["threads"])

def drop():
    retry = tfs.Retry(timeout=3600)
    storage = tfs.Storage(ARGS["options"].pop("storage_options", None), retry=retry)
    options = {"storage": storage, "memory_budget": 8 << 20, **ARGS["options"]}
    iterator = iter(tfs.TFRecordDataset(ARGS["url"], **options))
    next(iterator)
    while urllib.request.urlopen(ARGS["endpoint"] + "/hold").read() != b"held":
        next(iterator)
    cycle = [iterator]
    cycle.append(cycle)

drop()
if ARGS["thread"] == "loop":
    collected = threading.Event()
    fsspec.asyn.get_loop().call_soon_threadsafe(lambda: (gc.collect(), collected.set()))
    collected.wait()
else:
    gc.collect()
print("dropped")
"""

COLLECTING = """
import gc, threading, time
from tfio_store.tf.dataset import runtime
gc.disable()
read_on = runtime._read_on
begun, dropped, collected = (threading.Event() for _ in range(3))

def collecting(*arguments):
    if begun.is_set():
        dropped.wait()
        gc.collect()
        collected.set()
    time.sleep(0.05)  # more is read when the first is there
    return read_on(*arguments)

runtime._read_on = collecting

def drop():
    iterator = iter(tfs.TFRecordDataset(ARGS["path"], **ARGS["options"]))
    next(iterator)
    begun.set()
    cycle = [iterator]
    cycle.append(cycle)

drop()
dropped.set()
collected.wait()
gc.collect()
print("collected")
"""

FIRST = """
import os, warnings
warnings.simplefilter("ignore")
tf.config.threading.set_inter_op_parallelism_threads(ARGS["threads"])
storage = tfs.Storage(ARGS["options"].pop("storage_options", None), retry=tfs.Retry(timeout=3600))
next(iter(tfs.TFRecordDataset(ARGS["url"], storage=storage, **ARGS["options"])))
print("first", flush=True)
os._exit(0)
"""


class Hold:
    """Keeps requests back."""

    def __init__(self) -> None:
        self.waiting = 0
        self.for_good = False
        self.changed = threading.Condition()

    def wait(self) -> None:
        """A moment, so that some requests are on their way all the time; or for good."""
        with self.changed:
            self.waiting += 1
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.for_good, timeout=0.5)
            self.changed.wait_for(lambda: not self.for_good)
            self.waiting -= 1

    def begin(self) -> bool:
        """Keep back for good what is kept back now. False: that is nothing."""
        with self.changed:
            self.for_good = self.changed.wait_for(lambda: self.waiting > 0, timeout=2)
            self.changed.notify_all()
            return self.for_good

    def end(self) -> None:
        with self.changed:
            self.for_good = False
            self.changed.notify_all()


class Hanging(Handler):
    """Sends nothing of the rest of a file any more, once it was asked for /hold."""

    hold: Hold

    def answer(self, *, head: bool) -> None:
        if self.path == "/hold":
            self.send(200, b"held" if self.hold.begin() else b"", {}, head=False)
            return
        if not head and not self.headers.get("Range", "bytes=0-").startswith("bytes=0-"):
            self.hold.wait()
        with contextlib.suppress(BrokenPipeError):
            super().answer(head=head)


@pytest.fixture
def hold() -> Hold:
    return Hold()


@pytest.fixture
def web(hold: Hold) -> Iterator[Web]:
    with web_server(type("Hanging", (Hanging,), {"hold": hold})) as found:
        yield found
        hold.end()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("files")
    with tfs.ShardedWriter(str(folder / "set"), num_shards=2, compression="GZIP") as writer:
        writer.write_batch(RECORDS)
    raw = framed(RECORDS)
    made = {f"/{path.name}": path.read_bytes() for path in Path(folder).iterdir()}
    return made | {"/raw": raw, "/raw.gz": gzip.compress(raw, 1)}


@pytest.mark.parametrize(
    ("name", "options", "thread"),
    first(
        4,
        [
            ("raw", {}, "main"),
            ("raw.gz", {"batch_size": 16}, "loop"),
            ("set", {"batch_size": 16, "shuffle": "32 records"}, "loop"),
            ("set", {"num_parallel_reads": 2}, "main"),
            ("raw.gz", {"num_parallel_reads": 2}, "main"),
            ("raw.gz", {"shuffle": "32 records", "on_corrupt": "skip"}, "loop"),
            ("set", {}, "loop"),
            ("set", {"batch_size": 16}, "main"),
        ],
    ),
    ids=str,
)
def test_who_drops_an_iterator_waits_for_nobody(
    web: Web, files: dict[str, bytes], name: str, options: dict[str, Any], thread: str
) -> None:
    web.files.update(files)
    url = f"{web.endpoint}/{name}"
    found = run(
        PROGRAM,
        timeout=120,
        url=url,
        endpoint=web.endpoint,
        options=options,
        thread=thread,
        threads=THREADS,
    )
    assert found == "dropped\n"


@pytest.mark.parametrize("bridge", ["on", "off"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 16}], ids=str)
def test_the_collector_meets_an_iterator_in_the_thread_that_reads_for_it(
    tmp_path: Path, files: dict[str, bytes], options: dict[str, Any], bridge: str
) -> None:
    path = tmp_path / "raw.gz"
    path.write_bytes(files["/raw.gz"])
    env = {"TFIO_STORE_TF_BRIDGE": bridge}
    found = run(COLLECTING, env=env, timeout=60, path=str(path), options=options)
    assert found == "collected\n"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 16},
        pytest.param(
            {"num_parallel_reads": 2},
            marks=pytest.mark.skipif(not STAYS_IN_PLACE, reason="an interleave waits for all"),
        ),
    ],
    ids=str,
)
def test_what_has_come_is_handed_out_while_a_store_does_not_send_the_rest(
    web: Web, hold: Hold, files: dict[str, bytes], options: dict[str, Any]
) -> None:
    hold.for_good = True
    web.files.update(files)
    assert run(FIRST, url=f"{web.endpoint}/set", options=options, threads=THREADS) == "first\n"


@pytest.fixture
def damaged(tmp_path: Path) -> Iterator[str]:
    """A file whose last record is damaged, while the collector does not run."""
    path = tmp_path / "damaged"
    path.write_bytes(framed([b"a record"] * 100)[:-1] + b"x")
    gc.disable()
    yield str(path)
    gc.enable()


def read_to_the_error(dataset: Any, step: Any) -> weakref.ref[Any]:
    iterator = iter(dataset)
    with contextlib.suppress(tf.errors.DataLossError):
        while True:
            step(iterator)
    return weakref.ref(iterator)


@pytest.mark.parametrize("step", [next, lambda iterator: iterator.get_next()], ids=["next", "get"])
@pytest.mark.parametrize("options", [{}, {"batch_size": 16}], ids=str)
def test_an_iterator_ends_with_its_error_and_waits_for_no_collection(
    damaged: str, options: dict[str, Any], step: Any
) -> None:
    dataset = tfs.TFRecordDataset(damaged, **options)
    assert all(read_to_the_error(dataset, step)() is None for _ in range(3))


def test_a_cache_that_an_error_left_is_as_tensorflow_leaves_it(
    damaged: str, tmp_path: Path
) -> None:
    """It is not written by somebody for ever: AlreadyExistsError."""

    def kinds(make: Any) -> list[str]:
        dataset = make(damaged).cache(str(tmp_path / make.__module__))
        found = []
        for _ in range(3):
            try:
                found.append(f"{len(list(dataset))} records")
            except tf.errors.OpError as error:
                found.append(type(error).__name__)
        return found

    assert kinds(tfs.TFRecordDataset) == kinds(tf.data.TFRecordDataset)

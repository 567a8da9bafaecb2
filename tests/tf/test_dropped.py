"""Iterators that are dropped while their store does not answer: nobody waits for it."""

from __future__ import annotations

import contextlib
import gzip
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.web import Handler, Web, web_server
from tests.support.framed import framed
from tests.tf.run_program import run

tf = pytest.importorskip("tensorflow")

pytestmark = pytest.mark.tensorflow

MIB = 1 << 20
RECORDS = [random.Random(i).randbytes(MIB // 16) for i in range(24 * 16)]

PROGRAM = """
import gc, threading, urllib.request, warnings
import fsspec.asyn
warnings.simplefilter("ignore")
gc.disable()

def drop():
    retry = tfs.Retry(timeout=3600)
    options = {"retry": retry, "memory_budget": 8 << 20, **ARGS["options"]}
    iterator = iter(tfs.TFRecordDataset(ARGS["url"], **options))
    next(iterator)
    urllib.request.urlopen(ARGS["endpoint"] + "/hangs").read()
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


class Hanging(Handler):
    """Sends the beginning of each file and 5 MiB of the rest, and then nothing until it is let go.
    Answers /hangs when it sends nothing."""

    asked = 0
    waits: threading.Event
    let_go: threading.Event

    def answer(self, *, head: bool) -> None:
        if self.path == "/hangs":
            self.waits.wait()
            self.send(200, b"", {}, head=False)
            return
        if not head and self.is_too_much():
            self.waits.set()
            self.let_go.wait()
        with contextlib.suppress(BrokenPipeError):
            super().answer(head=head)

    def is_too_much(self) -> bool:
        first, last = map(int, self.headers.get("Range", "=0-0").partition("=")[2].split("-"))
        type(self).asked += last + 1 - first
        return first > 0 and self.asked > 5 * MIB


@pytest.fixture
def web() -> Iterator[Web]:
    events = {"waits": threading.Event(), "let_go": threading.Event()}
    with web_server(type("Hanging", (Hanging,), events)) as found:
        yield found
        events["let_go"].set()


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
    [
        ("raw", {}, "main"),
        ("raw.gz", {"batch_size": 16}, "loop"),
        ("raw.gz", {"num_parallel_reads": 2}, "main"),
        ("raw.gz", {"shuffle": "32 records", "on_corrupt": "skip"}, "loop"),
        ("set", {}, "loop"),
        ("set", {"batch_size": 16}, "main"),
        ("set", {"batch_size": 16, "shuffle": "32 records"}, "loop"),
        pytest.param(
            "set",
            {"num_parallel_reads": 2},
            "main",
            # an interleave of TensorFlow 2.16 waits for what its inner iterators have begun
            marks=pytest.mark.skipif(tf.__version__.startswith("2.16."), reason="not in 2.16"),
        ),
    ],
    ids=str,
)
def test_who_drops_an_iterator_waits_for_nobody(
    web: Web, files: dict[str, bytes], name: str, options: dict[str, Any], thread: str
) -> None:
    web.files.update(files)
    url = f"{web.endpoint}/{name}"
    found = run(
        PROGRAM, timeout=300, url=url, endpoint=web.endpoint, options=options, thread=thread
    )
    assert found == "dropped\n"

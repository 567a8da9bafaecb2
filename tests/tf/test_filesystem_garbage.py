"""Garbage of TensorFlow's that asks a store in its last moment: its collector waits for nothing.

The garbage collector may run in the thread that does all requests. A writer of summaries that it
meets there is flushed and closed; an iterator waits for the threads that read for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.tf.run_program import run

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

BEGIN = """
import contextlib, gc, logging, threading
from concurrent.futures import ThreadPoolExecutor, thread as executors
import fsspec.asyn
from tensorflow.core.util import event_pb2
from tests.support.slow_filesystem import SlowFileSystem
logging.basicConfig(format="%(message)s", stream=sys.stdout)
SlowFileSystem.folder = ARGS["folder"]
tfs.register_filesystem("slow")
gc.disable()

def train(writer):
    writer.set_as_default()
    tf.summary.scalar("loss", 1.0, step=1)
    writer.flush()
    tf.summary.scalar("loss", 0.5, step=2)

def leave_writer():
    # the thread that trained has ended, and has not flushed what it wrote last
    writer = tf.summary.create_file_writer("slow://logs")
    thread = threading.Thread(target=train, args=[writer])
    thread.start()
    thread.join()
    cycle = [writer]
    cycle.append(cycle)

def on_the_loop():
    done = threading.Event()
    fsspec.asyn.get_loop().call_soon_threadsafe(lambda: (gc.collect(), done.set()))
    done.wait()

def by_a_thread_of_ours():
    from tfio_store.storage.threads import pool
    pool().submit(gc.collect).result()

def inside_a_lock():
    with executors._global_shutdown_lock:
        gc.collect()

def steps():
    [path] = tf.io.gfile.glob("slow://logs/*")
    events = [event_pb2.Event.FromString(found.numpy()) for found in tf.data.TFRecordDataset(path)]
    return [event.step for event in events if event.summary.value]

"""
WRITER = f"{BEGIN}\nleave_writer()"

COLLECTS = ["on_the_loop", "by_a_thread_of_ours", "inside_a_lock"]


@pytest.mark.parametrize("collect", COLLECTS)
def test_a_writer_of_summaries_is_flushed_and_closed(tmp_path: Path, collect: str) -> None:
    code = f"{WRITER}\n{collect}()\nprint(steps())"
    assert run(code, folder=str(tmp_path)) == "[1, 2]\n"


def test_what_it_had_is_there_when_the_program_has_ended(tmp_path: Path) -> None:
    """Though its last upload takes a while."""
    run(f"{WRITER}\nSlowFileSystem.seconds = 1\non_the_loop()", folder=str(tmp_path), fresh=True)
    assert run(f"{BEGIN}\nprint(steps())", folder=str(tmp_path)) == "[1, 2]\n"


def test_what_was_lost_is_told_once(tmp_path: Path) -> None:
    code = f"""{WRITER}
SlowFileSystem.refuses = True
on_the_loop()
print(steps())
"""
    said = run(code, folder=str(tmp_path)).splitlines()
    assert len(said) == 2, said
    assert said[0].startswith("slow://logs/events.out.tfevents.")
    assert "what is new in it was lost: " in said[0]
    assert "Permission denied" in said[0]
    assert said[1] == "[1]"


@pytest.mark.parametrize("reads", ["in the middle of a file", "at the beginning of many"])
def test_an_iterator_whose_reads_are_under_way(tmp_path: Path, reads: str) -> None:
    """Destroying it waits for a thread that waits for bytes, which only the loop can bring."""
    with tfs.TFRecordWriter(str(tmp_path / "data")) as writer:
        writer.write_batch([bytes(100_000)] * (200 if reads == "in the middle of a file" else 1))
    code = f"""{BEGIN}
from tfio_store.tf.filesystem import watch
watch.PATIENCE, watch.NAP = 0.5, 0.1

def leave_iterator():
    SlowFileSystem.seconds = 0.2
    iterator = iter(tf.data.TFRecordDataset(["slow://data"] * 1000).prefetch(100_000))
    cycle = [iterator, next(iterator)]
    cycle.append(cycle)
    while not SlowFileSystem.flying:
        pass

leave_iterator()
SlowFileSystem.seconds = 10  # what is asked now is under way until the loop goes on
on_the_loop()
SlowFileSystem.seconds = 0
print(len(list(tf.data.TFRecordDataset("slow://data"))))
"""
    *told, count = run(code, folder=str(tmp_path), fresh=True).splitlines()
    assert count in ("1", "200")
    # nothing where the last read ended before its iterator did
    assert ["given up" in line for line in told] in ([True], [])

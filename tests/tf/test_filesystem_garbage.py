"""Garbage of TensorFlow's that asks a store in its last moment: its collector waits for nothing.

The garbage collector may run in the thread that does all requests. A writer of summaries that it
meets there is flushed and closed; an iterator waits for the threads that read for it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tfio_store as tfs
from tests.tf.run_program import run
from tfio_store.storage.resolve import open_store

pytest.importorskip("tensorflow")
pytestmark = pytest.mark.tensorflow

BEGIN = """
import contextlib, gc, logging, threading
from concurrent.futures import ThreadPoolExecutor, thread as executors
import fsspec.asyn
from tensorflow.core.util import event_pb2
from tests.support.slow_filesystem import SlowFileSystem
from tfio_store.tf.garbage import wait_until_destroyed
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
    wait_until_destroyed()
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


def test_what_is_left_to_do_behind_a_failure_is_not_told_again(tmp_path: Path) -> None:
    """A finalizer leaves the end of a file to a thread after its last write has failed."""
    from tfio_store.tf.filesystem.files import WriteFile

    path = tmp_path / "a folder is there"
    (path / "below").mkdir(parents=True)
    store, at = open_store(str(path))
    file = WriteFile(store, at, str(path), append=False)
    file.put_off(lambda: file.write(b"lost"))
    with pytest.raises(OSError, match="directory"):
        file.catch_up()
    file.put_off(lambda: file.finish(b""))
    file.catch_up()
    with pytest.raises(OSError, match="an earlier write to it failed"):
        file.do(lambda: file.write(b"more"))


@pytest.mark.parametrize("reads", ["in the middle of a file", "at the beginning of many"])
def test_an_iterator_whose_reads_are_under_way(tmp_path: Path, reads: str) -> None:
    """Destroying it waits for a thread that waits for bytes, which only the loop can bring."""
    with tfs.TFRecordWriter(str(tmp_path / "data")) as writer:
        writer.write_batch([bytes(100_000)] * (200 if reads == "in the middle of a file" else 1))
    code = f"""{BEGIN}
from tfio_store.tf import garbage
garbage.PATIENCE, garbage.NAP = 0.5, 0.1

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


@pytest.mark.parametrize("where", ["the loop", "the thread that waits"])
def test_a_writer_that_is_collected_while_another_is_made(tmp_path: Path, where: str) -> None:
    """TensorFlow makes a writer inside the lock by which it destroys one."""
    code = f"""{WRITER}
import faulthandler
faulthandler.dump_traceback_later(60, exit=True)
from tfio_store.tf.filesystem.host import Host
request, create = SlowFileSystem._request, Host.stat

async def collecting(self):
    gc.collect()
    await request(self)

def stat(self, url):
    gc.collect()
    return create(self, url)

if {where == "the loop"}:
    SlowFileSystem._request = collecting
else:
    Host.stat = stat
again = tf.summary.create_file_writer("slow://others")
with again.as_default():
    tf.summary.scalar("loss", 1.0, step=1)
again.close()
print(steps(), len(tf.io.gfile.glob("slow://others/*")))
"""
    assert run(code, folder=str(tmp_path)) == "[1, 2] 1\n"


@pytest.mark.parametrize("collect", COLLECTS)
def test_garbage_goes_to_a_thread_and_nothing_else_does(tmp_path: Path, collect: str) -> None:
    code = f"""{BEGIN}
from tensorflow.python.ops import gen_resource_variable_ops as ops
from tensorflow.python.ops.resource_variable_ops import EagerResourceDeleter
destroyed, destroy = [], ops.destroy_resource_op

def destroy_resource_op(*args, **named):
    destroyed.append(threading.current_thread().daemon)
    destroy(*args, **named)

ops.destroy_resource_op = destroy_resource_op
def resource():
    handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[])
    return EagerResourceDeleter(handle, handle.device)

cycle = [resource()]
cycle.append(cycle)
del cycle
{collect}()
wait_until_destroyed()
resource()
print(destroyed)
"""
    assert run(code, folder=str(tmp_path)) == "[True, False]\n"

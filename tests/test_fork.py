"""A forked child ends, and nothing of its parent's has changed: not a file, not an upload."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.place import Place

PROGRAM = """
import json, os, sys, tempfile
import tfio_store as tfs
from tfio_store.storage import open_store
KIND, URL, OPTIONS, HOWS = sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
RECORDS = [bytes([i % 251]) * 50_000 for i in range(400)]

class Spooled:
    def __init__(self):
        self.store, self.path = open_store(URL + "/object", OPTIONS)
    def __enter__(self):
        self.output = self.store.open_output(self.path)
        return self
    def write_batch(self, records):
        for record in records:
            self.output.write(record[:30_001])
    def __exit__(self, kind, error, traceback):
        self.output.commit() if error is None else self.output.abort()

def writer():
    if KIND == "record":
        return tfs.TFRecordWriter(URL + "/file", storage_options=OPTIONS)
    if KIND == "gzip":
        return tfs.TFRecordWriter(URL + "/file", "GZIP", storage_options=OPTIONS)
    if KIND == "sharded":
        return tfs.ShardedWriter(URL + "/ds", num_shards=3, storage_options=OPTIONS)
    if KIND == "shuffled":
        return tfs.ShardedWriter(URL + "/ds", num_shards=3, shuffle_seed=1, storage_options=OPTIONS)
    return Spooled()

with writer() as w:
    w.write_batch(RECORDS)
    for how in HOWS:
        pid = os.fork()
        if pid == 0:
            if how == "exit":
                sys.exit(7)
            try:
                w.write_batch(RECORDS)
                w.__exit__(None, None, None)
            except RuntimeError as error:
                sys.exit(7 if "belongs to process" in str(error) else 8)
            sys.exit(9)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    w.write_batch(RECORDS)
if KIND == "output":
    store, path = open_store(URL + "/object", OPTIONS)
    found = bytes(store.read(path, 0, 1 << 30).result())
    assert found == b"".join(record[:30_001] for record in RECORDS + RECORDS)
else:
    name = "/file" if KIND in ("record", "gzip") else "/ds"
    found = list(tfs.RecordReader(URL + name, storage_options=OPTIONS))
    assert sorted(found) == sorted(RECORDS + RECORDS)
"""


def succeeds(program: str, *arguments: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=150)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        pytest.fail(f"hung; stdout: {out}\nstderr: {err[-4000:]}")
    assert process.returncode == 0, f"{out}\n{err[-4000:]}"


@pytest.fixture(params=["local", "s3"])
def forking(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "local":
        return Place(str(tmp_path))
    found: Place = request.getfixturevalue("s3")
    return found


@pytest.fixture(params=["record", "gzip", "sharded", "shuffled", "output"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_child_of_a_writer_ends_or_uses_it(kind: str, forking: Place) -> None:
    options = json.dumps(forking.storage_options)
    succeeds(PROGRAM, kind, forking.url("folder"), options, "exit", "use")


def test_a_child_of_a_spooled_output_ends(tmp_path: Path) -> None:
    """A store of which nothing is known keeps what it is given in a temporary file."""
    succeeds(
        "import tests.servers.place\n" + PROGRAM, "output", f"plain://{tmp_path}/f", "{}", "exit"
    )


JOB = """
import json, os, sys
import tfio_store as tfs
URL, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
with tfs.WriteJob(URL + "/ds", num_shards=2, storage_options=OPTIONS) as job:
    infos = [job.write_shard(0, [b"a"] * 1000)]
    pid = os.fork()
    if pid == 0:
        sys.exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

    def records():
        yield b"b"
        pid = os.fork()
        if pid == 0:
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        yield b"c"

    infos.append(job.write_shard(1, records()))
    job.commit(infos)
assert len(list(tfs.RecordReader(URL + "/ds", storage_options=OPTIONS))) == 1002
"""


def test_a_child_of_a_job_ends(forking: Place) -> None:
    succeeds(JOB, forking.url("folder"), json.dumps(forking.storage_options))


CONNECTED = """
import json, os, sys
from tfio_store.storage import open_store
URL, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
store, path = open_store(URL + "/object", OPTIONS)
store.put(path, b"bytes")
pid = os.fork()
if pid == 0:
    if sys.argv[3] == "use":
        assert store.info(path).size == 5
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
assert store.info(path).size == 5
"""


@pytest.mark.parametrize("how", ["exit", "use"])
@pytest.mark.parametrize("server", ["s3", "gcs", "azure"])
def test_a_child_of_a_process_with_connections_ends(
    server: str, how: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue(server)
    succeeds(CONNECTED, place.url("folder"), json.dumps(place.storage_options), how)


GFILE = """
import json, os, sys
import tensorflow as tf
import tfio_store as tfs
URL, OPTIONS = sys.argv[1], json.loads(sys.argv[2])
tfs.register_filesystem("s3", storage_options=OPTIONS)
file = tf.io.gfile.GFile(URL + "/file", "w")
file.write("one ")
log = tf.io.gfile.GFile(URL + "/log", "w")
log.write("one ")
log.flush()
pid = os.fork()
if pid == 0:
    sys.exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
for each in (file, log):
    each.write("two")
    each.close()
assert tf.io.gfile.GFile(URL + "/file").read() == "one two"
assert tf.io.gfile.GFile(URL + "/log").read() == "one two"
"""


@pytest.mark.tensorflow
def test_a_child_with_files_of_tensorflow_ends(s3: Place) -> None:
    succeeds(GFILE, s3.url("folder"), json.dumps(s3.storage_options))

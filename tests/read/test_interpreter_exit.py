"""A thread that works on when the main thread has ended: what Python starts no more, errors say."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tfio_store.storage.faults import is_transient, named
from tfio_store.storage.threads import Threads

PROGRAM = """
import json, logging, sys, threading
import tfio_store as tfs
{names}
logging.basicConfig(level=logging.INFO)
url, options = sys.argv[1], json.loads(sys.argv[2])

def read():
    list(tfs.RecordReader(url, storage_options=options))

def write():
    with tfs.ShardedWriter(url + "-again", num_shards=2, storage_options=options) as writer:
        writer.write(b"x")

def work():
    threading.main_thread().join()
    try:
        {call}()
    except BaseException as error:
        print(type(error).__name__, error)
    else:
        print("worked")

threading.Thread(target=work).start()
"""


@pytest.mark.parametrize("names", ["", "tfs.RecordReader, tfs.ShardedWriter"])
@pytest.mark.parametrize("call", ["read", "write"])
@pytest.mark.parametrize("kind", ["local", "s3"])
def test_the_error_says_that_the_interpreter_ends(
    kind: str, call: str, names: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = Place(str(tmp_path)) if kind == "local" else request.getfixturevalue(kind)
    url, options = place.url("d"), place.storage_options
    with tfs.ShardedWriter(
        url, num_shards=2, compression="GZIP", storage_options=options
    ) as writer:
        writer.write_batch([b"record"] * 1000)
    program = PROGRAM.replace("{call}", call).replace("{names}", names)
    ran = subprocess.run(
        [sys.executable, "-c", program, url, json.dumps(options)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "RuntimeError" in ran.stdout
    assert "the interpreter is shutting down" in ran.stdout
    assert "failed, the next is in" not in ran.stderr  # no attempt is made again


def test_a_clients_error_that_comes_of_it_is_final() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    dressed = ConnectionError("a client raised an unhandled exception")
    try:
        pool.submit(print)
    except RuntimeError as error:
        dressed.__cause__ = error
    assert is_transient(ConnectionError())
    assert not is_transient(dressed)
    found = named(dressed, "s3://bucket/key")
    assert isinstance(found, RuntimeError)
    assert str(found).startswith("s3://bucket/key: the interpreter is shutting down")
    assert found.__cause__ is dressed


def test_no_more_threads_says_so() -> None:
    pool = Threads(1)
    pool.shutdown()
    with pytest.raises(RuntimeError, match="the interpreter is shutting down"):
        pool.submit(print)

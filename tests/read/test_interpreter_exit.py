"""A thread that works on when the main thread has ended: what Python starts no more, errors say."""

from __future__ import annotations

import ast
import builtins
import gzip
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import tfio_store as tfs
from tests.servers.place import Place
from tests.support.framed import framed
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
        writer.write_batch([b"record"] * 200_000)  # more than the caller's thread reads alone
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


HALF_READ = """
import os, sys
import tfio_store as tfs
os.kept = []  # which Python clears after our modules
for url in sys.argv[1:]:
    reader = tfs.RecordReader(url)
    batches = reader.batches()
    next(batches)
    os.kept += [reader, batches]
os.kept += sys.modules.values()  # so that Python has to clear them
"""


def test_what_is_half_read_ends_without_a_word(tmp_path: Path) -> None:
    records = [b"%06d" % i * 1000 for i in range(5000)]
    (tmp_path / "foreign.gz").write_bytes(gzip.compress(framed(records), 1))
    (tmp_path / "foreign").write_bytes(framed(records))
    with tfs.ShardedWriter(tmp_path / "ours", num_shards=2, compression="GZIP") as writer:
        writer.write_batch(records)
    urls = [str(tmp_path / name) for name in ("foreign.gz", "foreign", "ours")]
    ran = subprocess.run(
        [sys.executable, "-c", HALF_READ, *urls, *urls],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "generator" not in ran.stderr


@pytest.mark.parametrize("room", ["dataset", "read", "records", "storage"])
def test_no_generator_of_readers_yields_where_it_catches_by_name(room: str) -> None:
    """It may be closed when its module's names are gone, which Python tells as a TypeError."""
    found = []
    for path in sorted((Path(tfs.__file__).parent / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Try):
                continue
            caught = [n for h in node.handlers if h.type for n in ast.walk(h.type)]
            names = [name.id for name in caught if isinstance(name, ast.Name)]
            yields = [n for part in node.body for n in ast.walk(part)]
            if any(isinstance(n, ast.Yield | ast.YieldFrom) for n in yields):
                found += [(str(path), node.lineno, n) for n in names if not hasattr(builtins, n)]
    assert not found

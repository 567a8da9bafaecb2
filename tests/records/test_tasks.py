"""Threads of C read and scan files, and leave nothing behind, whatever becomes of their owner."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.cores import framed
from tests.support.threads import in_threads

core = pytest.importorskip("tfio_store.records._core")
RECORDS = [b"first", b"", b"x" * 300_000, *[b"%d" % i * (i % 700) for i in range(3000)]]
NBYTES = sum(len(record) + 16 for record in RECORDS)


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "x").write_bytes(framed(*RECORDS))
    return str(tmp_path / "x")


def begun(path: str) -> Any:
    asked = core.FileScan(path, 0, NBYTES)
    assert asked.begin(4, 2)
    return asked


@pytest.mark.parametrize("patience", [0.0, 0.001, 10.0])
def test_all_that_is_begun_comes(path, patience):
    asked = [begun(path) for _ in range(50)]
    for each in asked:
        assert each.begins(patience) or patience < 1
        assert each.result()[0].batch.tolist() == RECORDS


def test_it_is_done_while_nobody_waits(path):
    asked, deadline = begun(path), time.monotonic() + 10
    while not asked.done() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert asked.done()
    assert asked.begins(0.0)
    assert asked.result()[0].batch.tolist() == RECORDS


def test_a_file_that_ends_before(path):
    asked = core.FileScan(path, 0, NBYTES + 1)
    asked.begin(4, 2)
    assert asked.begins(10.0)
    assert asked.result() is None


def test_many_threads_begin_and_take(path):
    def work(_: int) -> None:
        for _ in range(20):
            asked = begun(path)
            asked.begins(random.choice([0.0, 0.01]))
            assert asked.result()[0].batch.tolist() == RECORDS

    in_threads(work)


def test_what_is_dropped_leaves_nothing(path):
    files = len(os.listdir("/dev/fd"))
    for _ in range(200):
        begun(path)
    deadline = time.monotonic() + 10
    while len(os.listdir("/dev/fd")) > files and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(os.listdir("/dev/fd")) == files


FORKS = """
import os, sys
from tfio_store.records._core import FileScan

path, nbytes = sys.argv[1], int(sys.argv[2])
for turn in range(30):
    asked = [FileScan(path, 0, nbytes) for _ in range(20)]
    for each in asked:
        each.begin(4, 2)
    child = os.fork()
    if not child:
        # what threads of the parent work on at this moment does not come; all else does
        found = [each.result() for each in asked]
        more = FileScan(path, 0, nbytes)
        more.begin(4, 2)
        assert more.result() is not None
        assert sum(each is not None for each in found) >= 16
        os._exit(0)
    assert all(each.result() is not None for each in asked)
    assert os.waitpid(child, 0)[1] == 0
print("good")
"""


def test_forks_in_the_middle(path):
    command = [sys.executable, "-W", "ignore", "-c", FORKS, path, str(NBYTES)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.stdout, ended.stderr) == ("good\n", "")


def test_ctrl_c_reaches_who_waits(tmp_path):
    """Threads of C take no signals, and their owner looks for some while it waits."""
    program = f"""
import os, signal, sys, threading
from tfio_store.records._core import FileScan
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    while True:
        asked = FileScan({str(tmp_path / "x")!r}, 0, 64 << 20)
        asked.begin(2, 2)
        asked.result()
except KeyboardInterrupt:
    print("ended")
"""
    (tmp_path / "x").write_bytes(bytes(64 << 20))
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 0, signal.Signals(-ended.returncode)
    assert (ended.stdout, ended.stderr) == ("ended\n", "")

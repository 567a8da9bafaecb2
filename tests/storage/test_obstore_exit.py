"""A process that used obstore a moment before its end ends all the same."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.servers.place import Place
from tests.support.long import first

PROGRAM = """
import json, sys
from tfio_store.storage import open_store
store, path = open_store(sys.argv[1], json.loads(sys.argv[2]), backend="obstore")
assert bytes(store.read(path, 0, 5).result()) == b"hello"
"""


@pytest.mark.parametrize("count", first(1, [4, 20]))
def test_processes_exit_cleanly(s3: Place, count: int) -> None:
    pytest.importorskip("obstore")
    argv = [sys.executable, "-c", PROGRAM, s3.put("x", b"hello"), json.dumps(s3.storage_options)]

    def run(_: int) -> int:
        return subprocess.run(argv, check=False, timeout=120).returncode

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(count))) == [0] * count

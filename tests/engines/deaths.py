"""Tasks that die, once."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfio_store as tfs
from tests.servers.place import Place

__all__ = ["die", "kill_when_it_waits", "once", "only_clean_sees_it"]


def once(flag: Path, what: Callable[[], object]) -> Callable[[Any], Any]:
    """A function over batches that does ``what`` in one task of all, the first time that one runs,
    and gives the batch back. The file ``flag`` tells that it was done."""

    def through(batch: Any) -> Any:
        try:
            os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return batch
        what()
        return batch

    return through


def die() -> None:
    """As a process does that the kernel kills."""
    os._exit(137)


def kill_when_it_waits(driver: subprocess.Popen[bytes], flag: Path) -> None:
    """End a driver with all that it has begun, once ``flag`` tells that a task of its waits."""
    try:
        give_up = time.monotonic() + 120
        while not flag.exists() and time.monotonic() < give_up:
            assert driver.poll() is None
            time.sleep(0.1)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def only_clean_sees_it(folder: Path, url: str) -> None:
    """What a dead driver left below ``folder/out`` is no dataset, and `clean` removes it."""
    with pytest.raises(FileNotFoundError):
        tfs.RecordReader(url)
    assert Place(str(folder)).names("out") != []
    tfs.clean(url, older_than=0)
    assert Place(str(folder)).names("out") == []

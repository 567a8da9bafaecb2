"""Drivers in processes of their own:
``python -m tests.engines.spark_driver ACT URL FOLDER LOCAL MASTER OPTIONS``.

``LOCAL`` is Spark's folder, and ``FOLDER`` that of marks, which are empty folders. ``ACT``:

``dies``: the second task makes the mark ``waits``, and waits for ever.
``twice``: the last task's first attempt makes the mark ``waits``, and waits for the mark
``committed``. Where Spark has not killed it by then, it goes on, and ends too late.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.engines.spark_session import FASTER_COPIES, spark_session

Batches = Iterator[Any]


def once(folder: str, name: str) -> bool:
    """Whether no process has asked for this before."""
    try:
        (Path(folder) / name).mkdir()
    except FileExistsError:
        return False
    return True


def behind_task(task: int, does: Callable[[], object]) -> Callable[[Batches], Batches]:
    """A step of a query. All rows of the task have gone through it when it ``does``."""

    def step(batches: Batches) -> Batches:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == task:
            does()

    return step


def wait_for_ever(folder: str) -> None:
    if once(folder, "waits"):
        time.sleep(600)


def wait_for_the_commit(folder: str) -> None:
    if once(folder, "waits"):
        give_up = time.monotonic() + 300
        while not (Path(folder) / "committed").exists() and time.monotonic() < give_up:
            time.sleep(0.1)


def main(act: str, url: str, folder: str, local: str, master: str, options: str) -> None:
    def stop() -> None:
        (wait_for_ever if act == "dies" else wait_for_the_commit)(folder)

    with spark_session(Path(local), master, **FASTER_COPIES) as spark:
        frame = spark.range(0, 400, 1, 4).mapInArrow(
            behind_task(1 if act == "dies" else 3, stop), "id bigint"
        )
        writer = frame.write.format("tfio_store").option("storageOptions", options)
        writer.mode("append").save(url)
        if act == "twice":  # an attempt that Spark has not killed ends while Spark still runs
            (Path(folder) / "committed").mkdir()
            time.sleep(3)


if __name__ == "__main__":
    main(*sys.argv[1:])

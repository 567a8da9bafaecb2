"""A driver that dies: ``python -m tests.engines.spark_driver URL FOLDER LOCAL``.

It writes four tasks' rows. The second task makes the mark ``waits``, an empty folder in FOLDER, and
waits for ever. LOCAL is Spark's folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.engines.spark_session import spark_session

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


def main(url: str, folder: str, local: str) -> None:
    with spark_session(Path(local), "local[1]") as spark:
        step = behind_task(1, lambda: wait_for_ever(folder))
        frame = spark.range(0, 400, 1, 4).mapInArrow(step, "id bigint")
        frame.write.format("tfio_store").mode("append").save(url)


if __name__ == "__main__":
    main(*sys.argv[1:])

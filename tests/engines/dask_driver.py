"""A driver that dies: ``python -m tests.engines.dask_driver URL FOLDER``.

It writes partitions by two worker processes. The last one makes the folder ``FOLDER/waits``, and
waits for ever.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import distributed
import pandas as pd

from tfio_store.dask import to_tfrecords

ROWS = 40


def main(url: str, folder: str) -> None:
    def wait_at_the_last(part: Any) -> Any:
        if part["x"].max() == ROWS - 1:
            while not any((Path(folder) / "out").glob("_t-*")):  # what another task has written
                time.sleep(0.05)
            (Path(folder) / "waits").mkdir()
            time.sleep(600)
        return part

    frame = pd.DataFrame({"x": range(ROWS)})
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        parts = dd.from_pandas(frame, npartitions=4)
        to_tfrecords(parts.map_partitions(wait_at_the_last, meta=frame.head(0)), url)


if __name__ == "__main__":
    main(*sys.argv[1:])

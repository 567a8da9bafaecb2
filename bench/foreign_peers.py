"""What `bench.foreign` measures of indexed_gzip and rapidgzip, in a Python that has them.

    python bench/foreign_peers.py STREAM [PLACE...]

Each indexes the file by a pass over it, and then reads 10 kB at each place. It prints JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from typing import Any

RECORD_BYTES = 10_000


def by_indexed_gzip(path: str, index: str) -> Any:
    import indexed_gzip

    if os.path.exists(index):
        return indexed_gzip.IndexedGzipFile(path, index_file=index)
    with indexed_gzip.IndexedGzipFile(path, spacing=1 << 20) as file:
        file.build_full_index()
        file.export_index(index)
    return None


def by_rapidgzip(path: str, index: str) -> Any:
    import rapidgzip

    if os.path.exists(index):
        file = rapidgzip.open(path, parallelization=1)
        file.import_index(index)
        return file
    with rapidgzip.open(path, parallelization=2) as file:
        while file.read(1 << 22):
            pass
        file.export_index(index)
    return None


def main(path: str, places: list[int]) -> None:
    found = {}
    for name, way in (("indexed_gzip", by_indexed_gzip), ("rapidgzip", by_rapidgzip)):
        with tempfile.TemporaryDirectory() as folder:
            index = f"{folder}/index"
            began, busy = time.perf_counter(), time.process_time()
            way(path, index)
            built, took = time.perf_counter() - began, time.process_time() - busy
            with way(path, index) as file:
                began, busy = time.perf_counter(), time.process_time()
                for place in places:
                    file.seek(place)
                    assert len(file.read(RECORD_BYTES)) == RECORD_BYTES
                scattered = time.perf_counter() - began, time.process_time() - busy
            nbytes = os.path.getsize(index)
        found[name] = {"build": [built, took], "scattered": scattered, "index": nbytes}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], [int(place) for place in sys.argv[2:]])

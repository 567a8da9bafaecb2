"""``make bench-reader-memory``: peak memory of reading 4 GiB from Ceph, beside the budget it was
given."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

import s3fs

from bench.timing import table
from tests.servers.ceph import KEY, SECRET, ceph
from tfio_store.records.framing import FrameWriter

READ = """
import sys
import tfio_store as tfs
def peak():  # not getrusage's, which a child inherits
    with open("/proc/self/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024
endpoint, budget, key, secret, backend = sys.argv[1:]
options = {"endpoint_url": endpoint, "key": key, "secret": secret}
before = peak()
storage = tfs.Storage(options, backend=backend)
reader = tfs.RecordReader("s3://bench/part-*", storage=storage, memory_budget=int(budget) << 20)
records = sum(len(batch) for batch in reader.batches())
print(records, round(before), round(peak()))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", type=int, default=8, help="objects of 512 MiB")
    parts = parser.parse_args().parts
    rows = []
    with ceph() as endpoint:
        options = {"endpoint_url": endpoint, "key": KEY, "secret": SECRET}
        fs = s3fs.S3FileSystem(**options, use_listings_cache=False)
        fs.mkdir("bench")
        writer = FrameWriter()
        writer.write_many([os.urandom(10_000)] * ((512 << 20) // 10_016))
        data = bytes(writer.take())
        for part in range(parts):
            fs.pipe_file(f"bench/part-{part}", data)
        for backend in ("fsspec", "obstore"):
            for budget in (64, 256):
                argv = [sys.executable, "-c", READ, endpoint, str(budget), KEY, SECRET, backend]
                done = subprocess.run(argv, capture_output=True, text=True, check=True)
                _, before, peak = done.stdout.split()
                rows.append([backend, str(budget), before, peak, str(int(peak) - int(before))])
    title = f"Peak memory of reading {parts / 2:g} GiB, MiB"
    print(table(title, ["backend", "budget", "after import", "peak", "reading took"], rows))


if __name__ == "__main__":
    main()

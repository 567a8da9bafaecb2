"""``python -m bench.fleet.real``: the model beside processes that read from a server with a limit.

Both have the same limit, the same latency and the same blocks. The server's machine is also that of
its clients, so only what the limit decides is compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import tfio_store as tfs
from bench.fast_store import fast_store, options
from bench.fleet.__main__ import PAGES, fleet
from bench.fleet.store import Bucket
from bench.timing import machine, table

SECONDS = 20.0


def host(url: str, number: int, hosts: int) -> None:
    """Read a share, over and over, until somebody ends this process."""
    while True:
        reader = tfs.RecordReader("s3://bucket/ds/train", storage_options=options(url))
        for _ in reader.shard(number, hosts).batches():
            pass


def real(folder: Path, hosts: int, limit: float) -> Counter[str]:
    """What a server says of so many processes, in its later half."""
    log = folder / f"log-{hosts}"
    with fast_store(folder, wait_ms=30, limit=limit, log=log) as url:
        code = "import sys; from bench.fleet.real import host; "
        code += "host(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
        command = [sys.executable, "-c", code, url]
        readers = [subprocess.Popen([*command, str(n), str(hosts)]) for n in range(hosts)]
        while not log.exists() or not log.stat().st_size:
            time.sleep(0.1)  # they import what they need
        time.sleep(SECONDS)
        failed = sum(one.poll() is not None for one in readers)
        for one in readers:
            one.terminate()
        for one in readers:
            one.wait()
    lines = [json.loads(line) for line in log.read_bytes().splitlines()]
    since = max(line["at"] for line in lines) - SECONDS / 2
    later = Counter("refused" if x["status"] == 503 else "ok" for x in lines if x["at"] > since)
    later["failed"] = failed
    return later


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--hosts", type=int, nargs="*", default=[1, 2, 4, 8])
    given = parser.parse_args()
    rows, bucket = [], Bucket(PAGES)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with tfs.ShardedWriter(str(folder / "bucket/ds/train"), num_shards=8) as writer:
            for _ in range(8 * 50):
                writer.write(bytes(1 << 20))
        for hosts in given.hosts:
            seen = real(folder, hosts, given.limit)
            run = fleet(hosts, seconds=SECONDS, reads=given.limit, bucket=bucket)
            rows.append(
                [
                    str(hosts),
                    f"{seen['ok'] / (SECONDS / 2) / given.limit:.0%}",
                    f"{run.reached(SECONDS / 2):.0%}",
                    f"{seen['refused'] / max(seen['ok'], 1):.2f}",
                    f"{run.refused(SECONDS / 2):.2f}",
                    f"{seen['failed']}",
                    f"{sum(bool(one.fault) for one in run.hosts)}",
                ]
            )
            print(rows[-1], flush=True)
    columns = ["hosts", "of the rate: real", "model", "refused: real", "model", "failed", "model"]
    print(machine(), "", table(f"{given.limit:g} requests a second", columns, rows), sep="\n")


if __name__ == "__main__":
    main()

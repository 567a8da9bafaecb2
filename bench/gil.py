"""``make bench-gil``: for how many seconds a reader holds Python's lock to read a GiB.

No process reads more than the inverse of that in GiB/s, on however many cores. py-spy looks 400
times a second which thread holds the lock. A thread that is stopped for another one while it holds
it counts too, so on a machine that has nothing else to do this is the most that it takes; the
server of the bucket (`bench.fast_store`) is another process on the same cores.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
if sys.path[0] == str(FOLDER):  # run as a script: PYTHONPATH says whose tfio_store it measures
    del sys.path[0]

from bench.host import BATCH, GIB, SIZES, Run, drain, kind, write  # noqa: E402

RATE, SECONDS = 400, 6
COLUMNS = "scalars"
"""The rows that become tensors of PyTorch, in batches; the others stay records."""


def read(run: Run, name: str, bucket: bool) -> None:
    url, options = run.place(name, bucket)
    if name != COLUMNS:
        drain(url, **options)
        return
    from tfio_store.torch import TFRecordIterable

    for _ in TFRecordIterable(url, batch_size=BATCH, **options):
        pass


def child(name: str, folder: str, endpoint: str) -> None:
    """Reads again and again for a while, after a first time, and says how many bytes that were."""
    run = Run(folder, endpoint, 0)
    read(run, name, bool(endpoint))
    print("begins", flush=True)
    begun, nbytes = time.monotonic(), 0
    while time.monotonic() < begun + SECONDS + 2:
        read(run, name, bool(endpoint))
        nbytes += run.nbytes(name)
    print(nbytes / (time.monotonic() - begun), flush=True)
    os._exit(0)


def held(spy: str, name: str, folder: str, endpoint: str) -> float:
    """Seconds for a GiB."""
    command = [sys.executable, "-m", "bench.gil", "--child", name, folder, endpoint]
    with (
        tempfile.NamedTemporaryFile() as samples,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader,
    ):
        assert reader.stdout is not None
        reader.stdout.readline()
        looks = ["--gil", "--nonblocking", "--rate", str(RATE), "--duration", str(SECONDS)]
        out = ["--format", "raw", "--output", samples.name, "--pid", str(reader.pid)]
        subprocess.run([spy, "record", *looks, *out], check=True, capture_output=True)
        rate = float(reader.stdout.read())
        lines = Path(samples.name).read_text(encoding="utf-8").splitlines()
    seen = sum(int(line.rpartition(" ")[2]) for line in lines)
    return seen / RATE / SECONDS * GIB / rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="data of each kind")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child)
        return
    from bench.fast_store import fast_store
    from bench.timing import machine, table

    path = os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()])
    spy = shutil.which("py-spy", path=path)
    if spy is None:
        sys.exit("py-spy is not installed: pip install py-spy")
    memory = "/dev/shm" if Path("/dev/shm").exists() else None
    print(machine(), "load", *os.getloadavg(), flush=True)
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        write(folder, given.mib, pictures=False)
        with fast_store(folder) as endpoint:
            rows = []
            for name in [*map(kind, SIZES), COLUMNS]:
                rounds = range(given.rounds)
                rows.append([name])
                for at in ("", endpoint):
                    found = statistics.median(held(spy, name, folder, at) for _ in rounds)
                    rows[-1].append(f"{found:.3f}")
                print(*rows[-1], flush=True)
    print(table("Seconds under the GIL for a GiB", ["", "local", "bucket"], rows))


if __name__ == "__main__":
    main()

"""``make kills``: the long form, whose result is written to docs/kills.md.

python -m tests.kills [--kills 20] [--epochs 2] [--seed N]
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from pathlib import Path

import tfio_store as tfs
from tests.kills.run import COUNT, killed_and_restored, write
from tests.kills.worker import READERS

HEADER = """\
# Readers that are killed

Written by `make kills`. A process reads shuffled epochs of {count:,} records in three GZIP shards,
in steps of a batch. In a random place it saves where it stands, reads up to 11 steps more, and
kills itself by SIGKILL. The next process goes on from what was saved. In tf.data the batches are
parsed by a schema, and a `tf.train.Checkpoint` is saved; of a `RecordReader` it is `state()` as
JSON. Together the processes must give each record once in each epoch, in the order of a reader that
nobody kills. What a process read after it had saved must be what that reader read there too.

"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--report", type=Path)
    args = parser.parse_args()
    begun, rows = time.monotonic(), []
    for reader in READERS:
        with tempfile.TemporaryDirectory() as folder:
            write(f"{folder}/train")
            told = killed_and_restored(
                reader,
                f"{folder}/train",
                Path(folder),
                kills=args.kills,
                epochs=args.epochs,
                seed=args.seed,
            )
        rows.append(f"| {reader} | {told['kills']} | {told['kept']} | {told['lost']} | 0 | 0 |\n")
        print(rows[-1], end="", flush=True)
    report = HEADER.format(count=COUNT)
    report += f"tfio_store {tfs.__version__}, Python {platform.python_version()}, "
    report += f"{time.strftime('%Y-%m-%d')}, seed {args.seed}, {args.epochs} epochs, in "
    report += f"{(time.monotonic() - begun) / 60:.0f} minutes:\n\n"
    report += "| reader | kills | steps | read again after a kill | records lost | repeated |\n"
    report += "| --- | --- | --- | --- | --- | --- |\n" + "".join(rows)
    if args.report:
        args.report.write_text(report)


if __name__ == "__main__":
    main()

"""``make long ONLY=kills``: readers that are killed, and go on from what they saved.

python -m tests.kills [--kills 20] [--epochs 2] [--seed N]

A process reads shuffled epochs in steps of a batch. In a random place it saves where it stands,
reads up to 11 steps more, and kills itself by SIGKILL. The next process goes on from what was
saved. Together they must give each record once in each epoch, in the order of a reader that nobody
kills. What a process read after it had saved must be what that reader read there too.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.kills.run import killed_and_restored, write
from tests.kills.worker import READERS
from tests.support.evidence import keep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", action="store_true", help="write the row of docs/evidence.md")
    args = parser.parse_args()
    begun = time.monotonic()
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
        print(f"{reader}: {told}", flush=True)
    if args.keep:
        ran = f"{' and '.join(READERS)}, each killed {args.kills} times in {args.epochs} epochs"
        keep("readers killed", time.monotonic() - begun, ran, "nothing")


if __name__ == "__main__":
    main()

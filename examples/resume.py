"""A long job over a dataset that is killed, and goes on where it was: each record counts once.

    python examples/resume.py FOLDER [--kill-at 7000]

Counts the words of 10,000 texts, in a shuffled order. After every 1,000 records the job saves what
it has counted together with the reader's place, in one file. Run it again after it was killed: it
goes on from there, and what it counts in the end is what a run without a stop counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
from collections import Counter
from pathlib import Path

import tfio_store as tfs

TEXTS = 10_000
SAVE_EVERY = 1_000
WORDS = ("shard", "record", "frame", "block", "offset")


def write(url: str) -> None:
    with tfs.ShardedWriter(url, num_shards=4, compression="GZIP") as writer:
        for i in range(TEXTS):
            writer.write(f"{WORDS[i % len(WORDS)]} {WORDS[i * i % len(WORDS)]}".encode())


def save(file: Path, place: dict[str, object], counts: Counter[str]) -> None:
    """Both or neither: a file that is half written never has the name."""
    new = file.with_suffix(".new")
    new.write_text(json.dumps({"place": place, "counts": counts}))
    os.replace(new, file)


def count(url: str, file: Path, *, kill_at: int | None) -> Counter[str]:
    reader = tfs.RecordReader(url).shuffle(seed=1)
    counts: Counter[str] = Counter()
    if file.exists():
        saved = json.loads(file.read_text())
        reader.restore(saved["place"])
        counts.update(saved["counts"])
    before = counts.total() // 2
    print(f"begins at record {before}")
    for done, record in enumerate(reader, before + 1):
        counts.update(record.decode().split())
        if done % SAVE_EVERY == 0:
            save(file, reader.state(), counts)
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kill-at", type=int, help="stop at this record, as a machine that dies")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    url = str(given.folder / "texts")
    with contextlib.suppress(FileExistsError):  # a run before this one wrote all of it
        write(url)
    found = count(url, given.folder / "job.json", kill_at=given.kill_at)
    print(json.dumps(found, sort_keys=True))


if __name__ == "__main__":
    main()

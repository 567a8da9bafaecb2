"""What the processes of a crowd do at one dataset, again and again, until they are told to stop."""

from __future__ import annotations

import faulthandler
import json
import os
import pickle
import random
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tfio_store as tfs
from tests.chaos.content import Version, check_shard, new_writer, records_of
from tests.servers.place import Place

NAME = "ds/train"
KEEP_JOBS = 6


@dataclass(frozen=True)
class Crowd:
    """What all processes know. Picklable."""

    place: Place
    folder: Path
    """Where they note what they did, and leave pickled jobs for each other."""
    codec: str | None
    faulty: bool
    """Whether requests may fail, so that a store's own errors are no surprise."""
    retry: tfs.Retry
    cleaned: bool = True
    """Whether somebody cleans up behind writers that are at work."""

    def options(self) -> dict[str, Any]:
        return {"storage": self.place.storage(retry=self.retry)}

    def url(self) -> str:
        return self.place.url(NAME)

    def writing(self) -> dict[str, Any]:
        return {**self.options(), "compression": self.codec, "memory_budget": 16 << 20}


class Diary:
    """One line of JSON for each thing done, on disk before the next begins."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._last = time.monotonic()

    def note(self, did: str, outcome: str, version: Version = (), told: str = "") -> None:
        last, self._last = self._last, time.monotonic()
        line: dict[str, Any] = {"did": did, "outcome": outcome, "version": version, "told": told}
        line["took"] = self._last - last
        self._file.write(json.dumps(line) + "\n")


def version_of(manifest: tfs.DatasetManifest) -> Version:
    return tuple(shard.name for shard in manifest.shards)


def write(crowd: Crowd, dice: random.Random, if_exists: Any) -> Version:
    writer, shards = new_writer(), dice.choice((1, 1, 2))
    with tfs.ShardedWriter(
        crowd.url(), num_shards=shards, if_exists=if_exists, **crowd.writing()
    ) as made:
        parts = [records_of(writer, shard) for shard in range(shards)]
        for i in range(max(map(len, parts))):
            for shard, part in enumerate(parts):
                if i < len(part):
                    made.write(part[i], key=key_of(shard, shards))
    return version_of(made.manifest)


def key_of(shard: int, shards: int) -> bytes:
    """A key whose records go to this shard."""
    return next(k for n in range(1000) if tfs.crc32c(k := b"%d" % n) % shards == shard)


def append(crowd: Crowd, dice: random.Random) -> Version:
    return write(crowd, dice, "append")


def overwrite(crowd: Crowd, dice: random.Random) -> Version:
    time.sleep(dice.uniform(0, 1.5))  # so that there are appends in between
    return write(crowd, dice, dice.choice(("overwrite", "overwrite", "overwrite", "error")))


def run_job(crowd: Crowd, dice: random.Random) -> Version:
    """A job that others may have a copy of."""
    if_exists: Any = dice.choice(("append", "append", "overwrite"))
    writer, shards = new_writer(), dice.choice((1, 2))
    with tfs.WriteJob(
        crowd.url(), num_shards=shards, if_exists=if_exists, **crowd.writing()
    ) as job:
        infos = [job.write_shard(i, records_of(writer, i)) for i in range(shards)]
        path = crowd.folder / f"{writer}.job"
        path.with_suffix(".new").write_bytes(pickle.dumps((job, infos, writer)))
        path.with_suffix(".new").rename(path)
        time.sleep(dice.uniform(0, 0.2))
        if dice.random() < 0.15:
            return ()
        return version_of(job.commit(infos))


def copy_job(crowd: Crowd, dice: random.Random) -> Version:
    """Take up somebody's job, under way or long over."""
    jobs = sorted(crowd.folder.glob("*.job"), key=lambda path: path.stat().st_mtime)
    for old in jobs[:-KEEP_JOBS]:
        old.unlink()
    time.sleep(dice.uniform(0, 0.3))
    if not jobs:
        return ()
    chosen = dice.choice([jobs[-1], *jobs[-KEEP_JOBS:]])
    job, infos, writer = pickle.loads(chosen.read_bytes())
    does = dice.choice(("commit", "abort", "write", "leave"))
    if does == "commit":
        return version_of(job.commit(infos))
    if does == "abort":
        job.abort()
    elif does == "write":
        job.write_shard(0, records_of(writer, 0))
    else:
        with job:
            pass
    return ()


def clean(crowd: Crowd, dice: random.Random) -> Version:
    time.sleep(dice.uniform(0, 0.5))
    tfs.clean(crowd.url(), older_than=dice.choice((0, 0, 1, 5, 86400)), **crowd.options())
    return ()


def read(crowd: Crowd, dice: random.Random) -> Version:
    """Open the dataset, wait, and read every record of the version that was opened."""
    source = tfs.RecordSource(crowd.url(), **crowd.options())
    time.sleep(dice.choice((0, 0, 0.1, 1)))
    shards, at = source.dataset.shards, 0
    for shard in shards:
        assert shard.records is not None, f"{shard.url}: without a count, so without its manifest"
        check_shard(shard.url, source[at : at + shard.records])
        at += shard.records
    return tuple(shard.url.rpartition("/")[2] for shard in shards)


ROLES: dict[str, Callable[[Crowd, random.Random], Version]] = {
    "append": append,
    "overwrite": overwrite,
    "job": run_job,
    "copy": copy_job,
    "clean": clean,
    "read": read,
}


def expected(did: str, error: Exception, crowd: Crowd) -> bool:
    """Whether an error is one that this role may meet."""
    if crowd.faulty:
        return isinstance(error, OSError)
    if did in ("read", "clean"):
        return False
    if did == "copy" and isinstance(error, FileNotFoundError):
        return True  # the job was aborted, and its shards are gone
    lost = isinstance(error, FileExistsError) and did != "append"
    ended = isinstance(error, OSError) and (crowd.cleaned or did in ("job", "copy"))
    return lost or ended


def live(did: str, crowd: Crowd, seed: int) -> None:
    """The life of one process."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    diary, dice = Diary(crowd.folder / f"{did}-{os.getpid()}.diary"), random.Random(seed)
    while not (crowd.folder / "stop").exists():
        try:
            version = ROLES[did](crowd, dice)
        except Exception as error:
            if expected(did, error, crowd):
                diary.note(did, type(error).__name__)
                continue
            diary.note(did, "BROKEN", told=traceback.format_exc())
            return
        diary.note(did, "done", version)

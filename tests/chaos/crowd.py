"""Appenders, overwriters, jobs and copies of them, cleaners and readers: all at one dataset."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import tfio_store as tfs
from tests.chaos.content import Seen, Version, check_history, check_order
from tests.chaos.faults import LATEST_ARRIVAL
from tests.chaos.roles import NAME, Crowd, live, read
from tests.servers.place import Place
from tfio_store.dataset.folder import Folder

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.chaos.roles", "s3fs", "gcsfs", "adlfs"])

CAST = ("append", "append", "overwrite", "job", "copy", "clean", "read", "read")
PATIENCE = 90.0
"""Seconds in which a process that was told to stop must be through with what it does, where nothing
has taken long. Under load an append makes its requests so slowly, and repeats so many of them, that
it takes as long."""
TIMES = 5
"""As many times the longest that anything took in this run."""

FOREIGN = {
    "ds/notes.txt": b"notes",
    "ds/train-00000-of-00009.tfrecord": b"another program's, under a name like ours",
    "ds/sub/_train.manifest.json": b"{}",
}


def crowd_at(
    direct: Place,
    folder: Path,
    seconds: float,
    *,
    line: Place | None = None,
    retry: tfs.Retry | None = None,
    seed: int = 0,
    codec: str | None = "GZIP",
    tell: Callable[[str], None] = lambda _: None,
) -> Counter[str]:
    """Let them all loose for so long, kill one now and then, and look at what came of it.

    ``line``: the place as they reach it, with faults; what came of it is looked at directly.
    """
    dice = random.Random(seed)
    begin(direct, codec)
    crowd = Crowd(line or direct, folder, codec, line is not None, retry or tfs.Retry())
    cast = {number: (did, start(did, crowd, dice)) for number, did in enumerate(CAST)}
    wait_until_all_act(folder)
    deadline = time.monotonic() + seconds
    kills = 0
    while time.monotonic() < deadline:
        time.sleep(dice.uniform(0.2, 5.0))
        number = dice.choice(list(cast))
        did, process = cast[number]
        process.kill()
        process.join()
        kills += 1
        stop_if_broken(folder)
        cast[number] = did, start(did, crowd, dice)
        tell(f"{deadline - time.monotonic():.0f} s to go, {kills} kills")
    (folder / "stop").touch()
    longest = max((float(str(entry["took"])) for entry in entries(folder)), default=0.0)
    patience = max(PATIENCE, TIMES * longest)
    tell(f"the longest that one thing took: {longest:.0f} s")
    until = time.monotonic() + patience
    for did, process in cast.values():
        process.join(max(until - time.monotonic(), 0))
        hangs = process.is_alive()
        if hangs and process.pid:
            os.kill(process.pid, signal.SIGUSR1)  # it tells where it stands
            process.join(5)
        process.kill()
        process.join()
        assert not hangs, f"{did} did not end within {patience:.0f} s"
    if line is not None:  # a request of one who has given it up may be on its way
        time.sleep(LATEST_ARRIVAL)
    counts = verdict(replace(crowd, place=direct))
    counts["kills"] = kills
    return counts


def wait_until_all_act(folder: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(list(folder.glob("*.diary"))) < len(CAST) and time.monotonic() < deadline:
        time.sleep(0.1)


def start(did: str, crowd: Crowd, dice: random.Random) -> multiprocessing.process.BaseProcess:
    process = CONTEXT.Process(target=live, args=(did, crowd, dice.getrandbits(32)), daemon=True)
    process.start()
    return process


def begin(place: Place, codec: str | None) -> None:
    """A first generation, a copy of its manifest under another name, a neighbour, strangers."""
    from tests.chaos.roles import write

    for name, data in FOREIGN.items():
        place.put(name, data)
    crowd = Crowd(place, Path(), codec, False, tfs.Retry())
    write(crowd, random.Random(1), "error")
    place.put("ds/_alias.manifest.json", place.get("ds/_train.manifest.json"))
    with tfs.ShardedWriter(
        place.url("ds/other"), num_shards=1, storage_options=place.storage_options
    ) as writer:
        writer.write(b"neighbour")


def stop_if_broken(folder: Path) -> None:
    for entry in entries(folder):
        assert entry["outcome"] != "BROKEN", entry["told"]


def entries(folder: Path) -> list[dict[str, object]]:
    found = []
    for path in sorted(folder.glob("*.diary")):
        for line in path.read_text().splitlines():
            try:
                found.append({"who": path.stem, **json.loads(line)})
            except ValueError:
                continue  # the last words of one who was killed
    return found


def verdict(crowd: Crowd) -> Counter[str]:
    """Everybody's story, against each other's and the store's."""
    stop_if_broken(crowd.folder)
    noted = entries(crowd.folder)
    seen = [Seen(str(e["who"]), version) for e in noted if (version := _version(e))]
    seen.append(Seen("before the last clean", read(crowd, random.Random(0))))
    # It may finish what a writer who was killed had decided.
    tfs.clean(crowd.url(), older_than=0, keep_replaced=False, **crowd.options())
    check_history(seen, read(crowd, random.Random(0)))
    for who in {one.who for one in seen if one.who.startswith("read")}:
        check_order([one.version for one in seen if one.who == who])
    check_left(crowd)
    return Counter(f"{e['did']}: {e['outcome']}" for e in noted)


def _version(entry: dict[str, object]) -> Version:
    version = entry["version"]
    assert isinstance(version, list)
    return tuple(version)


def check_left(crowd: Crowd) -> None:
    """After `clean`: the dataset, its neighbours and the strangers, and nothing else of ours."""
    place = crowd.place
    for name, data in FOREIGN.items():
        assert place.get(name) == data, f"{name} was changed"
    for name, records in (("ds/alias", None), ("ds/other", [b"neighbour"])):
        found = list(tfs.RecordReader(place.url(name), **crowd.options()))
        assert records is None or found == records, f"{name} was changed"
    kept = set(FOREIGN)
    for name in ("train", "alias", "other"):
        stored = Folder(*place.open("ds")).manifest(f"_{name}.manifest.json")
        assert stored is not None
        assert stored.manifest is not None
        kept |= {f"ds/_{name}.manifest.json", *(f"ds/{one}" for one in stored.manifest.names())}
    left = set(place.names()) - kept
    assert not left, f"clean left {sorted(left)}"
    store, folder = place.open("ds")
    assert not store.pending_uploads(folder), f"{NAME}: clean left uploads"

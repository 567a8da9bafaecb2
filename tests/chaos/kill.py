"""kill -9 a writing process, again and again, at random moments."""

from __future__ import annotations

import contextlib
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection

from tests.chaos.faults import clean
from tests.chaos.generations import Generation, check, check_objects
from tests.servers.place import Place

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.chaos.kill", "s3fs"])


def kill_writers(
    place: Place, kills: int, *, seed: int = 0, tell: Callable[[str], None] = lambda _: None
) -> Counter[str]:
    """Write generation after generation, each killed at a random moment of its life.

    After each kill the dataset must be the old one or the new one, whole; then `clean` must leave
    nothing but that.
    """
    dice = random.Random(seed)
    current: list[Generation] = []
    counts: Counter[str] = Counter()
    lives: dict[int, float] = {}  # by size, of those that ended by themselves
    number = 0
    while counts["kills"] < kills:
        number += 1
        tried = Generation.draw(number, dice, current)
        patience = lives.get(tried.records, 60.0)
        life = run_and_kill(place, tried, dice.uniform(0, patience) if patience < 60 else 60)
        if life is not None:
            lives[tried.records] = max(life, lives.get(tried.records, 0))
        after = check(place, current, tried)
        left = clean(place)
        settled = check(place, current, tried)  # `clean` finishes a commit that was decided
        counts["commits finished by clean"] += settled != after
        assert after is current or settled is not current, "clean took a commit back"
        after = settled
        counts["uploads that came late"] += cleaned_late(place)
        check_objects(place)
        counts["kills" if life is None else "ended before the kill"] += 1
        counts["new dataset" if after is not current else "old dataset"] += 1
        counts["left objects"] += bool(left.objects)
        counts["left uploads"] += bool(left.uploads)
        current = after if len(after) < 4 else []
        if not current:
            start_over(place)
        tell(f"{counts['kills']} of {kills} kills: {dict(counts)}")
    return counts


def cleaned_late(place: Place) -> bool:
    """Whether a server that is slow made an upload for a request of the dead behind `clean`, which
    another `clean` removes."""
    store, folder = place.open("ds")
    late = bool(list(store.pending_uploads(folder)))
    if late:
        clean(place)
    return late


def start_over(place: Place) -> None:
    for name in place.names():
        store, path = place.open(name)
        store.delete([path])


def run_and_kill(place: Place, generation: Generation, after: float) -> float | None:
    """How long the writer lived if it ended by itself, else None."""
    begun, tell = CONTEXT.Pipe(duplex=False)
    process = CONTEXT.Process(target=live, args=(place, generation, tell))
    process.start()
    begun.recv()
    start = time.monotonic()
    process.join(after)
    if process.exitcode is None:
        process.kill()
        process.join()
        return None
    assert process.exitcode == 0, "the writer failed by itself"
    return time.monotonic() - start


def live(place: Place, generation: Generation, tell: Connection) -> None:
    generation.content()
    store, path = place.open("ds/nothing")
    with contextlib.suppress(FileNotFoundError):
        store.info(path)  # now it is connected, as a process that lives longer is
    tell.send("begun")
    generation.write(place)

"""Writers whose requests are refused, cut off, left waiting, or changed on their way."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import tfio_store as tfs
from tests.chaos.generations import NAME, Generation, check, check_objects
from tests.servers.place import Place

LATEST_ARRIVAL = 8.0
"""Seconds after which the line has delivered or lost every request."""


def write_through_faults(
    direct: Place,
    faulty: Place,
    writers: int,
    *,
    attempts: int,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Counter[str]:
    """Write generations through ``faulty``, and look at what came of it through ``direct``.

    A writer that returns has committed its exact records. One that raises has not, unless it
    says itself that it does not know. Then `clean` must leave nothing but the dataset.
    """
    dice = random.Random(seed)
    current: list[Generation] = []
    counts: Counter[str] = Counter()
    for number in range(writers):
        tried = Generation.draw(number, dice, current)
        failure = write(faulty, tried, attempts)
        after = check(direct, current, tried)
        if failure is None:
            assert after is not current, "a commit that was reported is not there"
            counts["committed"] += 1
        else:
            assert after is current or "not known" in str(failure)
            counts[f"failed: {type(failure).__name__}"] += 1
        left = clean(direct)
        counts["left something to clean"] += bool(left.objects or left.uploads)
        if direct.open("ds")[0].pending_uploads(direct.open("ds")[1]):
            # A request that its client gave up may still be on its way, and begin an upload.
            time.sleep(LATEST_ARRIVAL)
            clean(direct)
            counts["uploads that began after the writer's end"] += 1
        settled = check(direct, current, tried)
        counts["commits finished by clean"] += settled != after
        assert settled is not current or after is current, "clean took a commit back"
        uncertain = failure is None or "not known" in str(failure)
        assert settled is after or uncertain, "clean landed what had failed"
        check_objects(direct)
        current = settled
        tell(f"{number + 1} of {writers} writers: {dict(counts)}")
    return counts


def clean(place: Place) -> tfs.results.Leftovers:
    options: dict[str, Any] = {"older_than": 0, "keep_replaced": False}
    return tfs.clean(place.url(NAME), storage_options=place.storage_options, **options)


def write(place: Place, generation: Generation, attempts: int) -> OSError | None:
    try:
        retry = tfs.Retry(attempts=attempts, base_delay=0.01, timeout=5)
        generation.write(place, storage=place.storage(retry=retry))
    except OSError as failure:
        return failure
    return None

"""Writers whose requests are refused, cut off, left waiting, or changed on their way."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import tfio_store as tfs
from tests.chaos.generations import NAME, Generation, check, check_objects
from tests.servers.place import Place


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
        left = tfs.clean(direct.url(NAME), older_than=0, storage_options=direct.storage_options)
        check_objects(direct)
        counts["left something to clean"] += bool(left.objects or left.uploads)
        current = after
        tell(f"{number + 1} of {writers} writers: {dict(counts)}")
    return counts


def write(place: Place, generation: Generation, attempts: int) -> OSError | None:
    try:
        generation.write(place, retry=tfs.Retry(attempts=attempts, base_delay=0.01, timeout=5))
    except OSError as failure:
        return failure
    return None

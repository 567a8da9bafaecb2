"""Records that tell who wrote them, so that who reads a dataset can tell whether it is whole."""

from __future__ import annotations

import itertools
import random
import secrets
from dataclasses import dataclass

Version = tuple[str, ...]
"""A dataset as it was at one time: the names of its shards."""


def new_writer() -> str:
    return secrets.token_hex(6)


def records_of(writer: str, shard: int) -> list[bytes]:
    """What this writer puts into this shard; the same in every process that asks."""
    dice = random.Random(f"{writer}:{shard}")
    count = dice.choice((1, 3, 40))
    return [
        b"%s:%d:%d:%d:" % (writer.encode(), shard, i, count) + dice.randbytes(dice.randrange(3000))
        for i in range(count)
    ]


def check_shard(name: str, records: list[bytes]) -> None:
    """AssertionError unless these are all the records of one shard of one writer."""
    assert records, f"{name} has no records"
    writer, shard, *_ = records[0].split(b":", 2)
    expected = records_of(writer.decode(), int(shard))
    assert records == expected, f"{name}: not what {writer.decode()} wrote into shard {int(shard)}"


@dataclass(frozen=True)
class Seen:
    """A version, and who saw or made it."""

    who: str
    version: Version


def check_history(seen: list[Seen], last: Version) -> None:
    """AssertionError unless all that was seen is one history that ends in ``last``.

    An overwrite begins a new row of versions, and each append adds to the one before: of two
    versions that begin alike, one begins with the other. An append that was lost would be missing
    in a longer one.
    """
    rows: dict[str, dict[Version, str]] = {}
    for one in [*seen, Seen("the end", last)]:
        rows.setdefault(one.version[0], {})[one.version] = one.who
    for row in rows.values():
        by_length = sorted(row, key=len)
        for shorter, longer in itertools.pairwise(by_length):
            assert longer[: len(shorter)] == shorter, (
                f"{row[shorter]} knows {shorter}, which is no beginning of what "
                f"{row[longer]} knows: {longer}"
            )
    longest = max(rows[last[0]], key=len)
    assert longest == last, f"{rows[last[0]][longest]} knows {longest}, and in the end it is {last}"


def check_order(seen: list[Version]) -> None:
    """AssertionError unless one reader saw versions in the order of a history."""
    gone: set[str] = set()
    for before, after in itertools.pairwise(seen):
        if before[0] == after[0]:
            assert len(before) <= len(after), f"{before} came back after {after}"
        else:
            gone.add(before[0])
        assert after[0] not in gone, f"{after} came back after it was replaced"

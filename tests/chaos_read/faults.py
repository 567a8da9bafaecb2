"""What goes wrong: with the objects before they are read, while they are read, or on the line."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.chaos_read.content import Source
from tests.servers.lying_proxy import LIES, Liar

__all__ = ["LINE", "Fault", "damaged", "draw", "lie"]

LINE = (*LIES, "flipped", "reset", "late")
DAMAGE = ("cut", "cut between records", "flip", "flips", "zeros", "missing")
SET_DAMAGE = ("absurd nbytes", "index flip", "manifest flip", "index missing")


@dataclass
class Fault:
    """``kind`` is "none", "replaced", or one of LINE, DAMAGE and SET_DAMAGE. ``often``: of the
    requests that may be answered wrongly, the share that is. ``quiet``: nobody can tell."""

    kind: str
    often: float = 0.0
    quiet: bool = False
    first: int = field(default=0)
    """The request before which nothing is wrong."""


def draw(dice: random.Random, source: Source, *, line: bool) -> Fault:
    kinds = ["none", "replaced", "replaced", *DAMAGE]
    if source.is_set:
        kinds += SET_DAMAGE
    if line:
        kinds += LINE + LINE
    often = dice.choice([0.02, 0.2, 0.5, 1.0])
    return Fault(dice.choice(kinds), often, first=dice.choice([0, 0, 3, 8]))


def lie(dice: random.Random, fault: Fault, liar: Liar) -> Callable[[], str | None]:
    """What the proxy is to ask before each ranged request."""
    begun, seed = liar.ranged, dice.random()

    def told() -> str | None:
        number = liar.ranged - begun
        often = fault.often / 4 if fault.kind == "flipped" else fault.often
        wrong = number > fault.first and random.Random(f"{seed}:{number}").random() < often
        return fault.kind if wrong else None

    return told if fault.kind in LINE else lambda: None


def damaged(dice: random.Random, fault: Fault, whole: Source) -> Source:
    """The source as it is written, with ``fault.quiet`` set where no reader can tell."""
    objects = dict(whole.objects)
    name = dice.choice(whole.shards)
    data = objects[name]
    if fault.kind in ("cut", "cut between records"):
        at = _cut(dice, fault, whole, data)
        objects[name] = data[:at]
    elif fault.kind in ("flip", "flips", "zeros"):
        objects[name] = _spoilt(dice, fault.kind, data)
    elif fault.kind == "missing":
        del objects[name]
    elif fault.kind in ("index flip", "manifest flip", "index missing", "absurd nbytes"):
        _spoil_metadata(dice, fault.kind, objects)
    return replace(whole, objects=objects)


def _cut(dice: random.Random, fault: Fault, whole: Source, data: bytes) -> int:
    if fault.kind == "cut":
        at = dice.randrange(len(data))
        if whole.form == "raw" and at in _boundaries(whole):
            fault.quiet = True
        fault.quiet = fault.quiet or (at == 0 and not whole.is_set)
        return at
    if whole.form == "raw":
        fault.quiet = True  # it looks whole, and no manifest says otherwise
        return dice.choice(_boundaries(whole))
    # a record's end in a raw shard; nowhere special in a compressed one
    ends = [0]
    for record in whole.records:
        ends.append(ends[-1] + len(record) + 16)
    inside = [end for end in ends if 0 < end < len(data)]
    return dice.choice(inside) if inside else len(data) // 2


def _boundaries(whole: Source) -> list[int]:
    ends = [0]
    for record in whole.records:
        ends.append(ends[-1] + len(record) + 16)
    return ends[:-1]


def _spoilt(dice: random.Random, kind: str, data: bytes) -> bytes:
    spoilt = bytearray(data)
    if kind == "zeros":
        at, size = dice.randrange(len(data)), dice.choice([1, 16, 5_000])
        return bytes(spoilt[:at]) + bytes(len(spoilt[at : at + size])) + bytes(spoilt[at + size :])
    for _ in range(1 if kind == "flip" else dice.randrange(2, 30)):
        spoilt[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(spoilt)


def _spoil_metadata(dice: random.Random, kind: str, objects: dict[str, bytes]) -> None:
    index = next(name for name in objects if name.endswith(".index"))
    manifest = next(name for name in objects if name.endswith(".manifest.json"))
    if kind == "index flip":
        objects[index] = _spoilt(dice, "flip", objects[index])
    elif kind == "manifest flip":
        objects[manifest] = _spoilt(dice, "flip", objects[manifest])
    elif kind == "index missing":
        del objects[index]
    else:
        document = json.loads(objects[manifest])
        shard = dice.choice(document["shards"])
        shard["nbytes"] = dice.choice([0, shard["nbytes"] + 1, 1 << 40, 1 << 62])
        document["nbytes"] = sum(each["nbytes"] for each in document["shards"])
        if dice.random() < 0.7:
            document["index"] = None
        objects[manifest] = json.dumps(document).encode()

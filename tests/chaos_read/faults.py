"""What goes wrong: with the objects before they are read, while they are read, on the line, or in
the folder of a cache."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.chaos_read.content import Source
from tests.servers.lying_proxy import LIES, Liar
from tests.support.indexes import root_bytes

__all__ = ["CACHE", "LINE", "Fault", "damaged", "draw", "lie", "put_foreign_things"]

CACHE = "foreign things in the cache"
LINE = (*LIES, "flipped", "reset", "late")
DAMAGE = ("cut", "cut between records", "flip", "flips", "zeros", "missing")
SET_DAMAGE = (
    "absurd nbytes",
    "index flip",
    "manifest flip",
    "index missing",
    "other shard",
    "shards swapped",
)

INSTEAD = (
    "pipe", "folder", "full folder",
    "to nothing", "to itself", "to a pipe", "to a device", "to a folder",
    "empty", "longer", "shorter", "random", "of another range",
)  # fmt: skip
"""What stands in the place of a range's file: "to …" is a symbolic link."""


@dataclass
class Fault:
    """``kind`` is "none", "replaced", CACHE, or one of LINE, DAMAGE and SET_DAMAGE. ``often``: of
    the requests that may be answered wrongly, the share that is. ``quiet``: nobody can tell."""

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
        kinds += (*LINE, *LINE, CACHE, CACHE)
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


def damaged(dice: random.Random, fault: Fault, whole: Source, other: Source) -> Source:
    """The source as it is written, perhaps with a shard of the ``other`` generation. Sets
    ``fault.quiet`` where no reader can tell."""
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
    elif fault.kind == "other shard":
        objects[name] = other.objects[name]
    elif fault.kind == "shards swapped":
        one, two = whole.shards
        objects[one], objects[two] = objects[two], objects[one]
    elif fault.kind in ("index flip", "manifest flip", "index missing", "absurd nbytes"):
        _spoil_metadata(dice, fault.kind, objects)
    return replace(whole, objects=objects)


def put_foreign_things(dice: random.Random, cache: Path) -> int:
    """Put other things in the place of some of a cache's ranges, and perhaps of folders of them.
    How many."""
    ranges = [path for path in sorted(cache.glob("v1/ranges/*/*/*")) if path.is_file()]
    chosen = [path for path in ranges if dice.random() < dice.choice([0.1, 0.5, 1.0])]
    another = dice.choice(ranges).read_bytes() if ranges else b""
    for path in chosen:
        with contextlib.suppress(OSError):  # who reads drops what is damaged at the same time
            _replace(dice, path, another)
    folders = [path for path in sorted(cache.glob("v1/ranges/*/*")) if not path.is_symlink()]
    folders = [path for path in folders if path.is_dir()]
    if folders and dice.random() < 0.2:
        folder = dice.choice(folders)
        shutil.rmtree(folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # a range may just have been kept there
            dice.choice([_make_pipe, _link_to_itself, _make_file])(folder)
    return len(chosen)


def _replace(dice: random.Random, path: Path, another: bytes) -> None:
    """Put something in the place of a range's file; perhaps what ``another`` one holds."""
    data = path.read_bytes()
    kind = dice.choice(INSTEAD)
    path.unlink()
    if kind == "pipe":
        _make_pipe(path)
    elif kind.endswith("folder") and not kind.startswith("to"):
        path.mkdir()
        if kind.startswith("full"):
            (path / path.name).write_bytes(data)
    elif kind == "to itself":
        _link_to_itself(path)
    elif kind.startswith("to"):
        pipe = path.with_name("pipe")
        if kind == "to a pipe" and not pipe.exists():
            _make_pipe(pipe)
        targets = {"to nothing": "gone", "to a pipe": pipe.name, "to a device": "/dev/zero"}
        path.symlink_to(targets.get(kind, "."))
    else:
        instead = {
            "empty": b"",
            "longer": data + dice.randbytes(dice.randrange(1, 5000)),
            "shorter": data[: int(len(data) * dice.random())],
            "random": dice.randbytes(len(data)),
        }
        path.write_bytes(instead.get(kind, another))


def _make_pipe(path: Path) -> None:
    os.mkfifo(path)


def _link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def _make_file(path: Path) -> None:
    path.write_bytes(b"a file")


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
        row = dice.choice(document["pages"])
        row[8] = dice.choice([0, row[8] + 1, 1 << 40, 1 << 62])
        document["nbytes"] = sum(each[8] for each in document["pages"])
        objects[manifest] = root_bytes(document)

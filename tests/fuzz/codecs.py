"""Hostile metadata in bulk: manifests, pages, block tables, claims, text indexes, names.

A case is one seed.

python -m tests.fuzz.codecs [--seconds 60] [--seed N]

A decoder answers with the named error, or with a value that encodes and decodes to itself.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import struct
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tfio_store.dataset.block_tables import BlockTable, ShardInfo, decode_table, encode_table
from tfio_store.dataset.checks import check_name
from tfio_store.dataset.container import HEADER_BYTES, container, section_crc
from tfio_store.dataset.header_walk import format_idx, parse_idx
from tfio_store.dataset.manifest import DatasetManifest, Fingerprint
from tfio_store.dataset.names import DatasetNames
from tfio_store.dataset.pages import Pages
from tfio_store.dataset.shard_page import (
    IndexObject,
    Listed,
    PageRef,
    decode_page,
    encode_page,
)
from tfio_store.errors import ManifestError
from tfio_store.records.framing import crc32c
from tfio_store.write.claim import Claim, Proposal, read_claim

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

PIECES = (
    "{name}", "{shard}", "{shard:05d}", "{num_shards}", "{num_shards:05d}", "{shard!r}", "{}", "{{",
    "}", "-", "-of-", ".tfrecord", "train", "_", ".", "/", "..", "~", "[", "]", "*", "?", " ", "\n",
    "\0", "\\", "%2e", "\ud800", "#", ":", "é", "\U0001f600", "\u202e", "0", "00000", "a" * 60,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, 1e308, 2**31, 2**63 - 1, 2**63, 2**64, -(2**63), "", "x",
    "NaN", "../x", "0" * 8, "ffffffff", [], {}, [1], {"a": 1}, ["x", "x"], [[[[]]]],
)  # fmt: skip


def _table(*rows: list[int]) -> BlockTable:
    arrays = [np.array(row, np.int64) for row in rows]
    return BlockTable(arrays[0], arrays[-2], arrays[-1])


SHARDS = (
    ShardInfo("train-0", 100, 7, 0xDEADBEEF, _table([0, 60, 100], [0, 600, 900], [0, 3, 7])),
    ShardInfo("train-1", 50, 1, 1),
    ShardInfo("train-2", 9, 2, 3, _table([0, 5, 9], [0, 1, 2])),
)
STARTS = np.array([0, 20, 0, 16, 32], np.uint32)
POSITIONED = ShardInfo("train-0", 95, 5, 1, replace(_table([0, 40, 95], [0, 2, 5]), starts=STARTS))
TABLES = {shard.name: encode_table(shard) for shard in SHARDS if shard.blocks is not None}
_LISTED = [
    Listed(
        replace(shard, blocks=None),
        0 if shard.blocks is None else 2,
        sum(len(TABLES.get(one.name, b"")) for one in SHARDS[:i]),
        len(TABLES.get(shard.name, b"")),
    )
    for i, shard in enumerate(SHARDS)
]
PAGE = encode_page(_LISTED)
WHOLE = container([*TABLES.values(), PAGE])
_INDEX = IndexObject("_train.index", len(WHOLE))
_REF = PageRef(
    _INDEX, len(WHOLE) - len(PAGE), len(PAGE), section_crc(PAGE), _INDEX, HEADER_BYTES,
    decode_page(PAGE).totals,
)  # fmt: skip
ROOT = DatasetManifest(Pages([_REF], None, raw=False, streams=1), "GZIP", schema={"x": "float"})


class _OnePage:
    """A folder in which every object is the index of `ROOT`."""

    def begin_range(self, name: str, start: int, stop: int) -> Future[BytesLike]:
        done: Future[BytesLike] = Future()
        done.set_result(WHOLE[start:stop])
        return done

    def url(self, name: str) -> str:
        return name

    def pages_now(self) -> tuple[PageRef, ...]:
        return ()


SHARD = Fingerprint("train-00000-of-00004.tfrecord", 100, 0xDEADBEEF)
CLAIM = Claim("0123456789ab", DatasetNames("train", 4), landing=(SHARD,))
COMMITTING = replace(
    CLAIM, state="committing", by="0123", proposal=Proposal("etag", ROOT.to_bytes(), (SHARD,))
)
IDX = format_idx(np.array([0, 17, 40], np.int64), 60)


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Some bytes changed, taken out, put in or doubled."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(5):
            case 0:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del out[at : at + rng.choice((1, 2, 8, 40))]
            case 2:
                out[at:at] = rng.randbytes(rng.choice((1, 4, 8)))
            case 3:
                out[at : at + 8] = struct.pack("<q", rng.choice((0, -1, 1, 2**62, 2**63 - 1, 100)))
            case 4:
                out[at:at] = out[at : at + rng.choice((1, 8, 24))]
    return bytes(out)


def mutate_document(rng: random.Random, document: Any) -> Any:
    """A value somewhere in a JSON document replaced, removed or added."""
    place = document
    while isinstance(place, (dict, list)) and place:
        key = rng.choice(list(place) if isinstance(place, dict) else range(len(place)))
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.7:
            place = inner
            continue
        if rng.random() < 0.15:
            del place[key]
        else:
            value = rng.choice(VALUES) if rng.random() < 0.6 else text(rng)
            place[key] = copy.deepcopy(value)  # another change may go into it
        break
    return document


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    if rng.random() < 0.4:
        return mutate_bytes(rng, data)
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 2))):
        mutate_document(rng, document)
    return json.dumps(document).encode()


def mutate_root(rng: random.Random, data: bytes) -> bytes:
    """A root that lies, mostly with a CRC32C that is right."""
    if rng.random() < 0.1:
        return mutate_json(rng, data)
    document = json.loads(data)
    del document["crc32c"]
    body = mutate_json(rng, json.dumps(document).encode()).rstrip(b"}")
    return body + b', "crc32c": "%08x"}' % crc32c(body)


def text(rng: random.Random) -> str:
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))


def fuzz_table(rng: random.Random) -> None:
    shard = rng.choice([SHARDS[0], SHARDS[2], POSITIONED])
    body = mutate_bytes(rng, encode_table(shard)[:-4])
    try:
        found = decode_table(body + struct.pack("<I", crc32c(body)), shard)
    except ValueError:
        return
    again = decode_table(encode_table(replace(shard, blocks=found)), shard)
    assert again == found
    assert (found.offsets[-1], found.records[-1]) == (shard.nbytes, shard.records)


def fuzz_page(rng: random.Random) -> None:
    body = mutate_bytes(rng, PAGE[:-4])
    try:
        found = decode_page(body + struct.pack("<I", crc32c(body)))
    except ValueError:
        return
    listed = [found[i] for i in range(len(found))]
    again = decode_page(encode_page(listed))
    assert [again[i] for i in range(len(again))] == listed
    assert again.totals == found.totals


def fuzz_root(rng: random.Random) -> None:
    """A root, behind which lies the index that it means."""
    data = mutate_root(rng, ROOT.to_bytes())
    try:
        found = DatasetManifest.from_bytes(data, folder=_OnePage())
        assert DatasetManifest.from_bytes(found.to_bytes()) == found
        shards = list(found.shards)
    except ManifestError:
        return
    assert sum(shard.records for shard in shards) == found.records
    assert all(check_name(name) for name in found.names())


def fuzz_claim(rng: random.Random) -> None:
    data = mutate_json(rng, rng.choice((CLAIM, COMMITTING)).to_bytes())
    found = read_claim(data, "train", plain=rng.random() < 0.5)
    if found is not None:
        check_names(found.names)
        again = read_claim(found.to_bytes(), "train", plain=found.plain)
        assert repr(again) == repr(found)  # where NaN is NaN


def fuzz_idx(rng: random.Random) -> None:
    data = mutate_bytes(rng, IDX)
    try:
        frames = parse_idx(data, nbytes=60, path="x.idx")
    except ManifestError:
        return
    assert (parse_idx(format_idx(frames, 60), nbytes=60, path="x.idx") == frames).all()


def fuzz_names(rng: random.Random) -> None:
    template = text(rng) if rng.random() < 0.5 else "{name}" + text(rng) + "{shard:05d}" + text(rng)
    name = rng.choice(("train", "a-b", "é", text(rng)))
    try:
        names = DatasetNames(name, rng.choice((None, 1, 16, 10**6)), template)
    except ValueError:
        return
    check_names(names)


def check_names(names: DatasetNames) -> None:
    """What names promise: each shard has its own, and is known again with and without a tag."""
    tag = "0123456789ab"
    numbers = [0, 3, 99_999] if names.num_shards is None else [0, names.num_shards - 1]
    plain = {n: names.shard(n, None) for n in numbers if n >= 0}
    assert len(set(plain.values())) == len(plain)
    for number, name in plain.items():
        assert names.is_plain_shard(name)
        assert check_name(name) == name
        assert names.tag_of(name) == ""
        assert names.tag_of(names.shard(number, tag)) == tag
        attempt = names.attempt(number, tag)
        assert names.tag_of(attempt) == tag
        assert names.shard_of(attempt) == name
        assert not names.is_plain_shard(attempt)
    assert names.tag_of(names.index(tag)) == names.tag_of(names.claim(tag)) == tag
    assert names.tag_of(names.manifest) is None


KINDS: tuple[Callable[[random.Random], None], ...] = (
    fuzz_claim, fuzz_idx, fuzz_names, fuzz_table, fuzz_page, fuzz_root,
)  # fmt: skip


def run_case(seed: int) -> None:
    """One case; a failure names its seed."""
    rng = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    try:
        kind(rng)
    except Exception as error:
        raise AssertionError(
            f"{kind.__name__}: python -m tests.fuzz.codecs --seed {seed}"
        ) from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--first", type=int, default=time.time_ns(), help="the first case's seed")
    parser.add_argument("--seed", type=int, help="this case alone")
    args = parser.parse_args()
    if args.seed is not None:
        run_case(args.seed)
        return
    end = time.monotonic() + args.seconds
    first = seed = args.first
    while time.monotonic() < end:
        run_case(seed)
        seed += 1
    print(f"number_of_executed_units: {seed - first}")


if __name__ == "__main__":
    main()

"""Slices and partitions are shared out, evened and resharded as whole datasets are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfio_store as tfs
from tests.support.indexes import all_long


def items(count: int) -> list[bytes]:
    rng = np.random.default_rng(3)
    return [b"%d:" % i + rng.bytes(int(n)) for i, n in enumerate(rng.integers(0, 700, count))]


@pytest.fixture(
    params=[(long, codec, kind) for long in (0, 1) for codec in (None, "GZIP") for kind in "sp"],
    ids=str,
)
def part(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Any, list[bytes]]:
    """A slice that cuts blocks, or a partition; and its records."""
    long, codec, kind = request.param
    if long:
        all_long(monkeypatch)
    url = f"{tmp_path}/train"
    with tfs.ShardedWriter(url, num_shards=3, block_bytes=4096, compression=codec) as writer:
        writer.write_batch(items(503))
    if kind == "p":
        found = tfs.partitions(url, num_partitions=2)[1]
        return found, list(found.reader())
    return tfs.slice(url, "50:453"), list(tfs.RecordReader(url))[50:453]


def reader(source: Any, shuffle: bool) -> tfs.RecordReader:
    found = tfs.RecordReader(source)
    return found.shuffle(1, window=1) if shuffle else found


@pytest.mark.parametrize("shuffle", [False, True])
def test_even_shares(part: tuple[Any, list[bytes]], shuffle: bool) -> None:
    source, whole = part
    for even, each in (("drop", len(whole) // 4), ("pad", -(-len(whole) // 4))):
        shares = [list(reader(source, shuffle).shard(i, 4, even=even)) for i in range(4)]
        assert [len(share) for share in shares] == [each] * 4
        given = {record for share in shares for record in share}
        assert given <= set(whole)
        assert len(given) == min(4 * each, len(whole))


@pytest.mark.parametrize("shuffle", [False, True])
def test_the_rest_of_an_epoch_for_another_number(
    part: tuple[Any, list[bytes]], shuffle: bool
) -> None:
    source, whole = part
    given, states = [], []
    for i in range(2):
        share = reader(source, shuffle).shard(i, 2)
        each = iter(share)
        given += [next(each) for _ in range(30 + 50 * i)]
        states.append(json.loads(json.dumps(share.state())))
    for i, state in enumerate(tfs.reshard_state(states, 3)):
        share = reader(source, shuffle).shard(i, 3)
        share.restore(state)
        given += share
    assert sorted(given) == sorted(whole)

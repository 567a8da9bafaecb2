"""Shards as few bytes, to be sent to other processes of this version. No I/O.

A block of a table takes three numbers of eight bytes. Packed are the differences between blocks,
which are alike, each byte of them beside the same byte of the others: what is alike goes by zlib,
and about four bytes of a block stay, and four of its sum. The places of single records are left
out.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from tfio_store.dataset.block_tables import BlockTable
from tfio_store.dataset.inflate.checkpoints import Checkpoints
from tfio_store.dataset.listed_shards import ShardVersion
from tfio_store.dataset.shards import Shard, Shards
from tfio_store.records.arrays import Int64Array
from tfio_store.storage import Version


def pack_shards(shards: Shards) -> bytes:
    """Bytes from which `unpack_shards` makes the same shards, without the places of their
    records."""
    facts = [
        (s.url, s.nbytes, s.compression, s.records, s.crc32c, s.version.known, s.secret_url)
        for s in shards
    ]
    tables = [shard.blocks for shard in shards]
    known = [table for table in tables if table is not None]
    packed = [table for table in known if table.raw_offsets is not table.offsets]
    heads = [None if table is None else _head(table) for table in tables]
    columns = (
        _planes([table.offsets for table in known]),
        _planes([table.raw_offsets for table in packed]),
        _planes([table.records for table in known]),
        b"".join(t.sums.astype("<u4").tobytes() for t in known if t.sums is not None),
    )
    points = [_points(table) for table in tables]
    return zlib.compress(pickle.dumps((facts, heads, columns, points)))


def unpack_shards(data: bytes) -> Shards:
    """The shards of `pack_shards`."""
    facts, heads, columns, points = pickle.loads(zlib.decompress(data))
    tables = map(_with_points, _tables(heads, columns), points)
    return Shards(
        Shard(url, nbytes, codec, records, next(tables), crc, ShardVersion(*known), secret)
        for url, nbytes, codec, records, crc, known, secret in facts
    )


def _head(table: BlockTable) -> tuple[Any, ...]:
    raw = None if table.raw_offsets is table.offsets else int(table.raw_offsets[0])
    summed = table.sums is not None
    return len(table), int(table.offsets[0]), raw, *table.bounds, summed


def _points(table: BlockTable | None) -> tuple[Any, ...] | None:
    """The checkpoints that `_with_points` adds to a table again."""
    points = None if table is None else table.checkpoints
    if points is None:
        return None
    wide = (points.bits, points.stops, points.seeds)
    starts = [(max(len(array) - 1, 0), int(array[0]) if len(array) else 0) for array in wide]
    narrow = (points.skips.astype("<u4").tobytes(), points.crcs.astype("<u4").tobytes())
    return (
        _planes(wide),
        starts,
        len(points),
        narrow,
        points.address,
        points.end,
        points.version.etag,
    )


def _with_points(table: BlockTable | None, packed: tuple[Any, ...] | None) -> BlockTable | None:
    if table is None or packed is None:
        return table
    planes, starts, count, narrow, address, end, etag = packed
    bits, stops, seeds = _running(planes, starts)
    skips, crcs = (np.frombuffer(data, "<u4").astype(np.uint32) for data in narrow)
    version = Version(etag)
    points = Checkpoints(bits[:count], stops[:count], skips, crcs, seeds, address, end, version)
    return replace(table, checkpoints=points)


def _tables(
    heads: Sequence[tuple[Any, ...] | None], columns: tuple[Any, Any, Any, bytes]
) -> Iterator[BlockTable | None]:
    known = [head for head in heads if head is not None]
    offsets = _running(columns[0], [(n, first) for n, first, *_ in known])
    raw = _running(columns[1], [(n, first) for n, _, first, *_ in known if first is not None])
    records = _running(columns[2], [(n, 0) for n, *_ in known])
    sums, at_sum = np.frombuffer(columns[3], "<u4").astype(np.uint32), 0
    for head in heads:
        if head is None:
            yield None
            continue
        count, _, first, whole, before, behind, summed = head
        at = next(offsets)
        inflated = at if first is None else next(raw)
        mine = sums[at_sum : at_sum + count + 1] if summed else None
        at_sum += count + 1 if summed else 0
        yield BlockTable(at, inflated, next(records), None, before, behind, whole, mine)


def _planes(arrays: Sequence[Int64Array]) -> tuple[int, bytes]:
    """The differences within each array: how many bytes each takes, and these bytes: the lowest of
    all first."""
    steps = np.concatenate([np.zeros(0, np.int64), *map(np.diff, arrays)])
    width = max(1, (int(steps.max(initial=0)).bit_length() + 7) // 8)
    return width, steps.astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width].T.tobytes()


def _running(planes: tuple[int, bytes], starts: Sequence[tuple[int, int]]) -> Iterator[Int64Array]:
    """The arrays that `_planes` packed, of so many steps from these first numbers on."""
    width, data = planes
    low = np.frombuffer(data, np.uint8).reshape(width, -1).T
    wide = np.zeros((len(low), 8), np.uint8)
    wide[:, :width] = low
    steps = wide.view("<i8").ravel().astype(np.int64)
    stops = accumulate((count for count, _ in starts), initial=0)
    for (_, first), (begin, stop) in zip(starts, pairwise(stops), strict=True):
        yield np.append(first, first + np.cumsum(steps[begin:stop], dtype=np.int64))

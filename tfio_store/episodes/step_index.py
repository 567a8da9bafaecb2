"""How many steps each episode has, and where its record lies: a small object beside the dataset.

It is made by one pass that reads a few bytes of each record (`tfio_store.episodes.sparse`), or by
the writer. It says of which versions of the shards it is, and of others it is not taken. It is a
container (see `tfio_store.dataset.container`) of these sections::

    "shards"            JSON: per shard its name, nbytes, records, etag, and whether starts follow
    "steps" per shard   i64 starts[records]   the offset of each record's frame, if the shard is raw
                        u32 steps[records]
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tfio_store.dataset.container import (
    HEADER_BYTES,
    check_header,
    container,
    payload_of,
    section,
    sections,
)
from tfio_store.dataset.folder import Folder
from tfio_store.dataset.header_walk import block_table, codec_of, is_remote
from tfio_store.dataset.model import Dataset, Shard, Shards, hold_versions
from tfio_store.episodes.features import Leaf
from tfio_store.episodes.sparse import Ranges, UnusualError, count_values, find_first
from tfio_store.errors import (
    ManifestError,
    Reason,
    SchemaError,
)
from tfio_store.example.codec import decode_examples
from tfio_store.read.reader import RecordReader
from tfio_store.records.arrays import Int64Array
from tfio_store.records.damage import IN_HEADER, damaged
from tfio_store.records.framing import FRAME_OVERHEAD, HEADER_BYTES as FRAME_HEADER, walk
from tfio_store.storage import Storage
from tfio_store.storage.threads import mapped

_SHARDS, _STEPS = b"shards", b"steps"
_LOCAL_CHUNK, _REMOTE_CHUNK = 4 << 10, 64 << 10
_SHARDS_AT_ONCE = 16
_MOST_BYTES = 4 << 30


@dataclass(frozen=True, slots=True)
class ShardSteps:
    """The episodes of one shard: their steps, and where their frames begin, if it is raw."""

    name: str
    nbytes: int
    etag: str | None
    steps: Int64Array
    starts: Int64Array | None = None


def index_name(split: str) -> str:
    """The name of a split's index."""
    return f"_{split}.steps"


def encode_index(shards: Sequence[ShardSteps]) -> bytes:
    """The bytes of an index."""
    described = [
        {
            "name": shard.name,
            "nbytes": shard.nbytes,
            "records": len(shard.steps),
            "etag": shard.etag,
            "starts": shard.starts is not None,
        }
        for shard in shards
    ]
    parts = [section(_SHARDS, json.dumps(described).encode())]
    for shard in shards:
        starts = b"" if shard.starts is None else shard.starts.astype("<i8").tobytes()
        parts.append(section(_STEPS, starts, shard.steps.astype("<u4").tobytes()))
    return container(parts)


def decode_index(data: bytes, *, url: str) -> list[ShardSteps]:
    """The shards of an index. ManifestError for what is none, or contradicts itself."""
    try:
        check_header(data)
        description, *steps = sections(memoryview(data)[HEADER_BYTES:])
        shards = json.loads(bytes(payload_of(description, _SHARDS)))
        return [_decoded(*each) for each in zip(shards, steps, strict=True)]
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        raise ManifestError(f"{url}: is no index of steps: {error}") from error


def _decoded(told: dict[str, Any], data: memoryview) -> ShardSteps:
    records, nbytes, etag = int(told["records"]), int(told["nbytes"]), told["etag"]
    body, raw = payload_of(data, _STEPS), told["starts"] is True
    if records < 0 or len(body) != records * (12 if raw else 4):
        raise ValueError(f"its {len(body)} bytes are not those of {records} records")
    if etag is not None and not isinstance(etag, str):
        raise ValueError("an etag is no text")
    steps = np.frombuffer(body, "<u4", records, 8 * records if raw else 0).astype(np.int64)
    starts = None
    if raw:
        starts = np.frombuffer(body, "<i8", records).astype(np.int64)
        _check_starts(starts, steps, nbytes)
    return ShardSteps(str(told["name"]), nbytes, etag, steps, starts)


def _check_starts(starts: Int64Array, steps: Int64Array, nbytes: int) -> None:
    lengths = np.diff(np.append(starts, nbytes))
    if (len(starts) and starts[0] != 0) or (not len(starts) and nbytes):
        raise ValueError("the first record does not begin at byte 0")
    if (starts < 0).any() or (lengths < FRAME_OVERHEAD).any():
        raise ValueError("its records overlap, or end behind the file")
    if (steps > lengths).any():  # a step takes a byte of each list at least
        raise ValueError("an episode has more steps than bytes")


def load_index(
    dataset: Dataset, folder: Folder | None, split: str, leaves: Sequence[Leaf], *, save: bool
) -> tuple[Dataset, list[ShardSteps]]:
    """The index of a dataset: the saved one if it is of these versions of the shards, or a new one,
    which is saved. And the dataset, with the places of the records of its raw shards."""
    hold_versions(dataset)
    for where, name in _places(dataset, folder, split):
        with contextlib.suppress(ManifestError, OSError):
            stored = where.read(name)
            if stored is None:
                continue
            found = decode_index(stored[0], url=where.url(name))
            if _are_of(found, dataset):
                return _with_places(dataset, found), found
    made = _made(dataset, leaves)
    if save:
        _save(dataset, folder, split, made)
    return _with_places(dataset, made), made


def _are_of(shards: Sequence[ShardSteps], dataset: Dataset) -> bool:
    """Whether the index is of these versions of the shards. False for an unknown version."""
    if len(shards) != len(dataset.shards):
        return False
    for i, steps in enumerate(shards):
        shard = dataset.shard(i)
        same = steps.name == shard.url.rpartition("/")[2] and steps.nbytes == shard.nbytes
        known = shard.version.etag is not None and steps.etag == shard.version.etag
        if not same or not known or shard.records not in (None, len(steps.steps)):
            return False
    return True


def _save(dataset: Dataset, folder: Folder | None, split: str, made: Sequence[ShardSteps]) -> None:
    """Beside the dataset, or else in the cache. Where neither can be written to, nowhere: the next
    process makes it again."""
    if any(shard.etag is None for shard in made):
        return  # later it would be unknown of which version it is
    data = encode_index(made)
    for where, name in _places(dataset, folder, split):
        try:
            if where != folder:
                Path(where.path).mkdir(parents=True, exist_ok=True)
            where.put(name, data)
            return
        except (OSError, NotImplementedError, ValueError):
            continue


def _places(dataset: Dataset, folder: Folder | None, split: str) -> Iterator[tuple[Folder, str]]:
    """Where an index may lie, and under which name."""
    if folder is not None:
        yield folder, index_name(split)
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    store, path = Storage().open(root / "tfio_store" / "steps")
    yield Folder(store, path), _cache_name(dataset)


def _cache_name(dataset: Dataset) -> str:
    """By where the shards lie and which they are."""
    digest = hashlib.sha256()
    for i in range(len(dataset.shards)):
        shard = dataset.shard(i)
        digest.update(f"{shard.url}\0{shard.nbytes}\0{shard.version.etag}\0".encode())
    return f"{digest.hexdigest()}.steps"


def _with_places(dataset: Dataset, shards: Sequence[ShardSteps]) -> Dataset:
    if dataset.shards.long:
        return dataset
    known = {}
    for i, steps in enumerate(shards):
        shard = dataset.shard(i)
        if steps.starts is not None and (shard.blocks is None or shard.blocks.starts is None):
            table = block_table(steps.starts, shard.nbytes, record_positions=True)
            known[i] = shard.known(compression=None, records=len(steps.steps), blocks=table)
    return dataset.with_shards(known)


def _made(dataset: Dataset, leaves: Sequence[Leaf]) -> list[ShardSteps]:
    counted = [leaf for leaf in leaves if len(leaf.levels) == 1 and leaf.width and not leaf.dynamic]
    if not counted:
        raise ValueError(
            "no feature of the steps shows their number: each is a sequence in each step, or of a "
            "shape that varies"
        )
    numbers = range(len(dataset.shards))
    at_once = _SHARDS_AT_ONCE if any(is_remote(dataset.shard(i).url) for i in numbers) else 1
    return list(mapped(lambda i: steps_of(dataset, i, counted), numbers, at_once))


def steps_of(dataset: Dataset, number: int, counted: Sequence[Leaf]) -> ShardSteps:
    """The episodes of one shard.

    CorruptRecordError, TruncatedRecordError: a header is damaged. SchemaError: a record does not
    hold the steps that the features say. ManifestError: there are more or fewer records than the
    dataset says.
    """
    shard = dataset.shard(number)
    starts = None
    if codec_of(dataset, number) is None and not shard.is_part:
        steps, starts = _walked(dataset, number, counted)
        if shard.records not in (None, len(steps)):
            raise ManifestError(
                f"{shard.url}: holds {len(steps)} records where its dataset says {shard.records}"
            )
    else:
        steps = _read(dataset, number, counted)
    name = shard.url.rpartition("/")[2]
    return ShardSteps(name, shard.nbytes, shard.version.etag, steps, starts)


def _walked(
    dataset: Dataset, number: int, counted: Sequence[Leaf]
) -> tuple[Int64Array, Int64Array]:
    """From header to header of a raw shard, and into each record as far as the first feature that
    shows the steps."""
    shard = dataset.shard(number)
    store, path = dataset.open(number)
    chunk = _REMOTE_CHUNK if is_remote(shard.url) else _LOCAL_CHUNK
    ranges = Ranges(store, path, shard.nbytes, shard.version, chunk=chunk)
    by_key = {leaf.key: leaf for leaf in counted}
    steps: list[int] = []
    starts: list[int] = []
    at = 0
    while at < shard.nbytes:
        stop = _frame_end(ranges, shard, at)
        steps.append(_steps_in(ranges, shard, at, stop, by_key, len(steps)))
        starts.append(at)
        at = stop
    return np.array(steps, np.int64), np.array(starts, np.int64)


def _frame_end(ranges: Ranges, shard: Shard, at: int) -> int:
    header = ranges.near(at, at + FRAME_HEADER)
    if len(header) < FRAME_HEADER:
        raise damaged(Reason.TRUNCATED, IN_HEADER, path=shard.url, offset=at)
    # a limit that nothing reaches: a header's CRC and the file's end say enough
    offsets, end, fault = walk(header, start=0, max_record_bytes=1 << 62)
    if fault is not None or not len(offsets):
        raise damaged(Reason.LENGTH_CRC, path=shard.url, offset=at)
    if at + end > shard.nbytes:
        raise damaged(Reason.TRUNCATED, path=shard.url, offset=at)
    return at + end


def _steps_in(
    ranges: Ranges, shard: Shard, start: int, stop: int, by_key: dict[str, Leaf], record: int
) -> int:
    first, last = start + FRAME_HEADER, stop - (FRAME_OVERHEAD - FRAME_HEADER)
    try:
        found = find_first(ranges, first, last, by_key)
        if found is None:
            return 0
        leaf, values = by_key[found[0]], count_values(ranges, found[1])
    except UnusualError:
        return _counted([ranges.exactly(first, last)], by_key.values(), shard, record)[0]
    if values % (leaf.width or 1):
        raise _odd(leaf, values, shard, record)
    return values // (leaf.width or 1)


def _odd(leaf: Leaf, values: int, shard: Shard, record: int) -> SchemaError:
    """The error of so many values, which are not whole steps."""
    reason = f"holds {values} values, which are not of shape {leaf.shape}"
    return SchemaError(reason, feature=leaf.name, record=record, path=shard.url)


def _read(dataset: Dataset, number: int, counted: Sequence[Leaf]) -> Int64Array:
    """The steps of a compressed shard, all of which has to be read."""
    shard = dataset.shard(number)
    steps: list[int] = []
    alone = Dataset(Shards([shard]), dataset.storage)
    for batch in RecordReader(alone).batches():
        steps += _counted(batch, counted, shard, len(steps))
    return np.array(steps, np.int64)


def _counted(records: Any, counted: Iterable[Leaf], shard: Shard, first: int) -> list[int]:
    """The steps of whole records, by the first feature that has values."""
    leaves = list(counted)
    columns = decode_examples(
        records, {leaf.key: (leaf.wire, (None,)) for leaf in leaves}, strings="batch"
    )
    most = np.zeros(len(columns[leaves[0].key]), np.int64)
    for leaf in leaves:
        values = columns[leaf.key].row_lengths
        odd = np.flatnonzero(values % (leaf.width or 1))
        if len(odd):
            raise _odd(leaf, int(values[odd[0]]), shard, first + int(odd[0]))
        most = np.maximum(most, values // (leaf.width or 1))
    return [int(n) for n in most]

"""Blocks of files that came without an index: found by walking from header to header."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import START_BYTES, BlockTable, are_cheap, relative_starts
from tfio_store.dataset.inflate.index import checkpointed
from tfio_store.dataset.model import Dataset, Limits, Shard
from tfio_store.errors import (
    DataLossError,
    ManifestError,
    Reason,
    RecordTooLargeError,
)
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compression import detect
from tfio_store.records.damage import HEAD_BYTES, IN_HEADER, damaged
from tfio_store.records.framing import (
    FRAME_OVERHEAD,
    HEADER_BYTES,
    walk,
    walk_file,
)
from tfio_store.records.texts import warn
from tfio_store.storage import Store
from tfio_store.storage.faults import naming
from tfio_store.storage.local import LocalStore
from tfio_store.storage.read_ahead import Fetch, ReadAhead, split_range
from tfio_store.storage.threads import mapped

# Text index files as DALI's and vahidk's ``tfrecord2idx`` write them: ``offset size`` of each
# frame, line by line.
#
# They come from outside, and may belong to another file. So they are checked.


def format_idx(frames: Int64Array, nbytes: int) -> bytes:
    """Write the text for a file of ``nbytes`` bytes whose frames begin at the offsets
    ``frames``."""
    sizes = np.diff(np.append(frames, nbytes))
    return "".join(f"{at} {size}\n" for at, size in zip(frames, sizes, strict=True)).encode()


def parse_idx(data: bytes, *, nbytes: int, path: str) -> Int64Array:
    """int64 [n_records]: frame offsets. ManifestError unless the frames fill a file of
    ``nbytes``."""
    try:
        rows = [tuple(map(int, line.split())) for line in data.decode("ascii").splitlines() if line]
        table = np.array(rows, np.int64).reshape(-1, 2)
    except (ValueError, OverflowError) as error:
        raise ManifestError(f"{path}: a line is not 'offset size': {error}") from error
    starts, sizes = table[:, 0], table[:, 1]
    if (sizes < FRAME_OVERHEAD).any() or (sizes > nbytes).any():
        raise ManifestError(f"{path}: gives a record a size that no record of this file has")
    ends = np.cumsum(sizes)
    if not np.array_equal(starts, ends - sizes) or (ends[-1] if len(ends) else 0) != nbytes:
        raise ManifestError(
            f"{path}: its frames do not fill the file's {nbytes} bytes; write it anew"
        )
    return np.ascontiguousarray(starts)


BLOCK_BYTES = 1 << 20
"""A block ends with the record that makes it at least this long, before compression."""

_SHARDS_AT_ONCE = 8
_FEW_BYTES = 1 << 20
"""Threads for local files of so many bytes would take longer to start than to work."""
_MAGIC_BYTES = 512


def index_raw_shards(
    dataset: Dataset,
    limits: Limits,
    *,
    instead: str | None = None,
    starts_bytes: int = 0,
) -> Dataset:
    """The dataset with the blocks of every raw shard known, and no shard's compression "auto".

    Reads the headers of raw shards that have no block table: on a remote store that is reading
    the shard, unless its records are larger than what one request brings. A warning names more
    than the memory budget of that; and where the caller says what it does ``instead``, it is
    not done, and the dataset comes back as it was.
    Compressed streams stay as they are, unless they have an index of checkpoints. ``starts_bytes``:
    how much memory the starts of records may take in all; without it they are forgotten.

    Raises:
        CorruptRecordError, TruncatedRecordError: a header is damaged. Nobody looks at the data's
        CRCs. RecordTooLargeError: a header claims more than the limit. ManifestError: a
        shard holds another number of records than its manifest says.
    """
    missing = [
        i
        for i in dataset.shards.without_blocks()
        if dataset.shards[i].compression in ("auto", None)
    ]
    if not missing:
        return dataset
    long = _warn_of_long_walk([dataset.shards[i] for i in missing], limits.memory_budget, instead)
    if long and instead is not None:
        return dataset
    total = sum(dataset.shards[i].nbytes for i in missing)
    alone = total <= _FEW_BYTES and not any(is_remote(dataset.shards[i].url) for i in missing)
    workers = 1 if alone else min(_SHARDS_AT_ONCE, len(missing))
    share = limits._replace(memory_budget=limits.memory_budget // workers)
    room = starts_bytes / max(1, total)

    def look(index: int) -> Shard:
        positions = None if starts_bytes else False
        shard = indexed_shard(dataset, index, share, record_positions=positions)
        return _within(shard, room * shard.nbytes)

    return dataset.with_shards(dict(zip(missing, mapped(look, missing, workers), strict=True)))


def _within(shard: Shard, room: float) -> Shard:
    """The shard without the starts of its records, if these take more than ``room`` bytes."""
    table = shard.blocks
    if table is None or table.starts is None or START_BYTES * len(table.starts) <= room:
        return shard
    return shard.known(blocks=table.without_starts())


def _warn_of_long_walk(shards: list[Shard], memory_budget: int, instead: str | None) -> bool:
    """Whether it takes long to walk the headers of these shards. Warns if it does."""
    remote = [shard.nbytes for shard in shards if is_remote(shard.url)]
    if sum(remote) <= memory_budget:
        return False
    walked = "are read whole to find their blocks, in each process that needs them"
    warn(
        f"{sum(remote) >> 20} MiB in {len(remote)} remote files have no index, and "
        f"{instead or walked}. Write an index with tfio_store.build_index"
        + ("" if instead is None else ", or allow for reading them by a larger memory_budget=")
    )
    return True


def is_remote(url: str) -> bool:
    """Whether reading is worth many requests at once."""
    return "://" in url and not url.startswith(("file://", "memory://"))


def codec_of(dataset: Dataset, index: int) -> str | None:
    """A shard's codec. Its first bytes decide, if it is not known yet."""
    shard = dataset.shard(index)
    if shard.compression != "auto":
        return shard.compression
    store, path = dataset.open(index)
    head = store.read(path, 0, min(_MAGIC_BYTES, shard.nbytes), etag=shard.version)
    return detect(head.result())


def indexed_shard(
    dataset: Dataset, index: int, limits: Limits, *, record_positions: bool | None = False
) -> Shard:
    """A shard with its codec, and its blocks if it is raw. Raises as `index_raw_shards`."""
    shard = dataset.shards[index]
    store, path = dataset.open(index)
    codec = codec_of(dataset, index)
    if codec is not None:
        return checkpointed(dataset, shard.known(compression=codec))
    walker = walked(store, path, shard, limits)
    frames = walker.offsets()
    table = block_table(frames, shard.nbytes, record_positions=record_positions)
    return shard.known(compression=None, records=len(frames), blocks=table)


_IDX_LINE = 64
"""A line of an index file has fewer bytes: two numbers."""


def with_idx(dataset: Dataset, idx: Sequence[str]) -> Dataset:
    """The dataset, with the blocks that text index files list: one file for each of its raw shards.

    ManifestError where a file is not of its shard. ValueError where there are more or fewer files
    than shards.
    """
    if isinstance(idx, str) or len(idx) != len(dataset.shards):
        raise ValueError(f"idx= takes a list of {len(dataset.shards)} files, one for each shard")
    known = {}
    for i, (url, shard) in enumerate(zip(idx, dataset.shards, strict=True)):
        store, path = dataset.storage.open(url)
        # a line of two numbers for each record, and a record takes bytes of its shard
        data, _ = store.get(path, most=_IDX_LINE * (shard.nbytes // FRAME_OVERHEAD + 1))
        frames = parse_idx(data, nbytes=shard.nbytes, path=store.url(path))
        table = block_table(frames, shard.nbytes, record_positions=None)
        known[i] = shard.known(compression=None, records=len(frames), blocks=table)
    return dataset.with_shards(known)


def block_table(
    frames: Int64Array, nbytes: int, *, record_positions: bool | None = False
) -> BlockTable:
    """Blocks of a raw shard: ``frames`` are the byte offsets of its frames, ``nbytes`` its size.

    ``record_positions``: whether it knows where each record begins. None: if that is cheap.
    """
    records = [0]
    while records[-1] < len(frames):
        start = int(frames[records[-1]])
        records.append(int(np.searchsorted(frames[1:], start + BLOCK_BYTES)) + 1)
    cuts = np.array(records, np.int64)
    offsets = frame_bounds(frames, nbytes, cuts)
    if record_positions is None:
        record_positions = are_cheap(nbytes, len(frames))
    starts = relative_starts(frames, offsets, cuts) if record_positions else None
    return BlockTable(offsets, offsets, cuts, starts)


def frame_bounds(frames: Int64Array, nbytes: int, cuts: Int64Array) -> Int64Array:
    """The byte offsets of the frames ``cuts``, where len(frames) stands for the end of the file."""
    bounds = np.full(len(cuts), nbytes, np.int64)
    inside = cuts < len(frames)
    bounds[inside] = frames[cuts[inside]]
    return bounds


def walked(store: Store, path: str, shard: Shard, limits: Limits) -> HeaderWalker:
    """A walker that has seen every frame of a raw file. Raises as `index_raw_shards`."""
    walker, nbytes = HeaderWalker(store.url(path), limits.max_record_bytes), shard.nbytes
    if isinstance(store, LocalStore):
        with store.descriptor(path, etag=shard.version) as descriptor:
            # the loop below meets what is missing behind the file's end
            walker.feed_file(descriptor, min(nbytes, os.fstat(descriptor).st_size))
    while walker.next_header < nbytes:
        _walk_from(store, path, shard, walker, limits.memory_budget)
    walker.end(nbytes)
    if shard.records not in (None, walker.count):
        raise ManifestError(
            f"{walker.url}: holds {walker.count} records where its manifest says {shard.records}"
        )
    return walker


def _walk_from(store: Store, path: str, shard: Shard, walker: HeaderWalker, budget: int) -> None:
    """Walk on through consecutive ranges until the next header lies far behind what is read."""
    start, nbytes = walker.next_header, shard.nbytes
    ranges: Iterator[Fetch[None]] = (
        Fetch(store, path, begin, end, None, end - begin, shard.version)
        for begin, end in split_range(start, nbytes, store.range_bytes)
    )
    with closing(ReadAhead(ranges, budget=budget)) as ahead:
        for fetch, data in ahead:
            walker.feed(fetch.start, memoryview(data))
            if fetch.stop == nbytes:
                walker.finish()
            if walker.next_header > fetch.stop + store.range_bytes:
                return


class HeaderWalker:
    """Takes consecutive bytes, and knows where the next header lies."""

    def __init__(self, url: str, max_record_bytes: int) -> None:
        self.url = url
        self.next_header = 0
        self.last_frame = 0
        self._max = max_record_bytes
        self._found: list[Int64Array] = []
        self._cut = b""
        """The beginning of a header that the last piece cut."""
        self._sums: Int64Array | None = None

    def feed(self, start: int, data: memoryview) -> None:
        if self._cut:
            missing = HEADER_BYTES - len(self._cut)
            header, at = self._cut + data[:missing], start - len(self._cut)
            self._cut = b""
            self._walk(at, memoryview(header), 0)
        if start <= self.next_header < start + len(data):
            self._walk(start, data, self.next_header - start)

    def feed_file(self, descriptor: int, nbytes: int) -> None:
        """All of a local file at once."""
        with naming(self.url):
            offsets, self.next_header, fault, self._sums = walk_file(
                descriptor, nbytes, max_record_bytes=self._max
            )
        self._found.append(offsets)
        self.last_frame = int(offsets[-1]) if len(offsets) else 0
        if fault is not None or self.next_header < nbytes:
            header = os.pread(descriptor, HEAD_BYTES, self.next_header)
            if fault is not None:
                self._fail(fault, memoryview(header))
            self._cut = header
            self.finish()

    def _walk(self, start: int, data: memoryview, at: int) -> None:
        offsets, end, fault = walk(data, start=at, max_record_bytes=self._max)
        if len(offsets):
            self._found.append(offsets + start)
            self.last_frame = start + int(offsets[-1])
        self.next_header = start + end
        if fault is not None:
            self._fail(fault, data[end:])
        if end < len(data):
            self._cut = bytes(data[end:])

    def _fail(self, fault: str, at: memoryview) -> None:
        if fault == "too_large":
            length = int.from_bytes(at[:8], "little")
            raise RecordTooLargeError(
                path=self.url, offset=self.next_header, length=length, limit=self._max
            )
        raise self._damaged(Reason.LENGTH_CRC, None, at)

    def finish(self) -> None:
        if self._cut:
            raise self._damaged(Reason.TRUNCATED, IN_HEADER, self._cut)

    def _damaged(self, kind: Reason, reason: str | None, at: BytesLike) -> DataLossError:
        at_first = None if self.next_header else at
        return damaged(kind, reason, path=self.url, offset=self.next_header, head=at_first)

    def end(self, nbytes: int) -> None:
        """Say that the data ends here. TruncatedRecordError if that is inside a record."""
        self.finish()
        if self.next_header > nbytes:
            raise damaged(Reason.TRUNCATED, path=self.url, offset=self.last_frame)

    @property
    def count(self) -> int:
        """How many frames were found since `take_count`."""
        return sum(map(len, self._found))

    def take_count(self) -> int:
        """How many frames were found since this was last asked. Their offsets are forgotten."""
        found = self.count
        self._found.clear()
        return found

    @property
    def sums(self) -> Int64Array | None:
        """int64 [n_records + 1]: the sum of the records before each frame, and of all, as
        `BlockTable` has it. Only of a file that was seen at once."""
        whole = self._sums is not None and len(self._sums) == self.count + 1
        return self._sums if whole else None

    def offsets(self) -> Int64Array:
        """int64 [n_records]: the byte offset of every frame."""
        return np.concatenate(self._found) if self._found else np.zeros(0, np.int64)

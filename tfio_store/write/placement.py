"""Decides which shard each record goes to: in turn, by key, by size, or at random."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer as BytesLike

from tfio_store.errors import Reason
from tfio_store.records.damage import SPILLED, damaged
from tfio_store.records.framing import FRAME_OVERHEAD, FrameWriter, RecordBatch, crc32c, scan
from tfio_store.storage.threads import Owner
from tfio_store.write.records import (
    Run,
    encoded,
    is_of_bytes,
    record_nbytes,
    runs,
    sizes,
    strided,
    write_run,
)

if TYPE_CHECKING:
    from tfio_store.dataset.names import RollOver
    from tfio_store.write.progress import Tally
    from tfio_store.write.shard_stream import ShardStream


ShardFor = Callable[[Any], int]


class InRuns:
    """A ``shard_for`` that gives each shard the next of equal runs of records, so that their order
    stays. Whole runs are placed at once. Records beyond those that were counted go to the last
    shard."""

    def __init__(self, records: int, num_shards: int) -> None:
        self._ends = [-(-records * shard // num_shards) for shard in range(1, num_shards)]
        self._done = 0

    def __call__(self, record: object) -> int:
        self._done += 1
        return bisect_right(self._ends, self._done - 1)

    def cut(self, run: Run) -> Iterator[tuple[int, Run]]:
        """The run in parts, and the shard of each."""
        start = 0
        while start < len(run):
            shard = bisect_right(self._ends, self._done)
            room = len(run) - start
            if shard < len(self._ends):
                room = min(room, self._ends[shard] - self._done)
            yield shard, run[start : start + room]
            start, self._done = start + room, self._done + room


def push(stream: ShardStream, tally: Tally) -> None:
    """Hand a full block on."""
    tally.count(stream.frames)
    stream.push()
    tally.report()


class FixedShards:
    """A known number of shards, all open.

    A key's hash decides a record's shard, or else ``shard_for(record)`` does, or else the next
    shard in turn takes it.
    """

    def __init__(
        self,
        streams: list[ShardStream],
        shard_for: ShardFor | None,
        block_bytes: int,
        tally: Tally,
    ) -> None:
        self.streams = streams
        self._writes = [stream.frames.write for stream in streams]
        self._shard_for = shard_for
        self._block_bytes = block_bytes
        self._tally = tally
        self._next = 0

    def write(self, record: Any, key: BytesLike | None) -> None:
        shard = following = self._next
        if self._shard_for is not None or key is not None:
            shard = self._chosen(record, key)
        else:
            following = (shard + 1) % len(self._writes)
        try:
            waiting = self._writes[shard](record)
        except TypeError:
            if not isinstance(record, Mapping):
                raise
            waiting = self._writes[shard](encoded(record))
        self._next = following
        if waiting >= self._block_bytes:
            push(self.streams[shard], self._tally)

    def write_run(self, run: Run) -> None:
        if isinstance(self._shard_for, InRuns):
            for shard, part in self._shard_for.cut(run):
                if write_run(self.streams[shard].frames, part) >= self._block_bytes:
                    push(self.streams[shard], self._tally)
            return
        if self._shard_for is not None:
            for record in run:
                self.write(record, None)
            return
        count = len(self.streams)
        for first in range(min(count, len(run))):
            stream = self.streams[(self._next + first) % count]
            if write_run(stream.frames, strided(run, first, count)) >= self._block_bytes:
                push(stream, self._tally)
        self._next = (self._next + len(run)) % count

    def finish(self) -> None:
        """Every record is in its shard already."""

    def _chosen(self, record: Any, key: BytesLike | None) -> int:
        if key is not None:
            return crc32c(key) % len(self.streams)
        assert self._shard_for is not None
        shard = self._shard_for(record)
        if not 0 <= shard < len(self.streams):
            raise ValueError(
                f"shard_for must give 0 to {len(self.streams) - 1}, and gave {shard!r}"
            )
        return shard


class RollingShards:
    """Shards that are opened one after the other, each when the one before is full."""

    def __init__(
        self,
        open_stream: Callable[[int], ShardStream],
        on_full: Callable[[ShardStream], None],
        limits: RollOver,
        block_bytes: int,
        tally: Tally,
    ) -> None:
        self._open_stream = open_stream
        self._on_full = on_full
        self._limits = limits
        self._block_bytes = block_bytes
        self._tally = tally
        self.streams = [open_stream(0)]
        self._nbytes = 0
        self._records = 0

    def write(self, record: Any, key: BytesLike | None) -> None:
        if key is not None:
            raise ValueError("key needs num_shards; shards that roll over are filled in order")
        if type(record) is not bytes and isinstance(record, Mapping):
            record = encoded(record)
        nbytes = record_nbytes(record) + FRAME_OVERHEAD
        if self._records and self._limits.full(self._nbytes + nbytes, self._records + 1):
            self._roll()
        stream = self.streams[-1]
        if stream.frames.write(record) >= self._block_bytes:
            push(stream, self._tally)
        self._nbytes += nbytes
        self._records += 1

    def write_run(self, run: Run) -> None:
        if isinstance(run, list) and not is_of_bytes(run):
            run = [encoded(record) if isinstance(record, Mapping) else record for record in run]
        ends = np.cumsum(sizes(run) + FRAME_OVERHEAD)
        start = 0
        while start < len(run):
            stop = self._stop(ends, start)
            if stop > start:
                self._write(
                    run[start:stop], int(ends[stop - 1] - (ends[start - 1] if start else 0))
                )
            else:
                self._roll()
            start = stop

    def finish(self) -> None:
        """Every record is in its shard already."""

    @property
    def is_empty(self) -> bool:
        """Whether no record came."""
        return len(self.streams) == 1 and not self._records

    def _stop(self, ends: np.ndarray[Any, np.dtype[np.int64]], start: int) -> int:
        """Up to which record of the run the open shard has room. At least one record fits."""
        stop = len(ends)
        if self._limits.max_bytes is not None:
            before = int(ends[start - 1]) if start else 0
            room = self._limits.max_bytes - self._nbytes
            stop = int(np.searchsorted(ends, before + room, side="right"))
        if self._limits.max_records is not None:
            stop = min(stop, start + self._limits.max_records - self._records)
        return max(stop, start + 1 if self._records == 0 else start)

    def _write(self, run: Run, nbytes: int) -> None:
        stream = self.streams[-1]
        if write_run(stream.frames, run) >= self._block_bytes:
            push(stream, self._tally)
        self._nbytes += nbytes
        self._records += len(run)

    def _roll(self) -> None:
        full = self.streams[-1]
        self._tally.count(full.frames)
        self._on_full(full)
        self._tally.report()
        self.streams.append(self._open_stream(len(self.streams)))
        self._nbytes = self._records = 0


# Shards with records in a random order: a uniform permutation of all written records.


_DRAWN_AT_ONCE = 1 << 16


class Extent(NamedTuple):
    """A stretch of the spill file."""

    offset: int
    nbytes: int


@contextmanager
def _naming_the_disk() -> Iterator[None]:
    """The file has no name. So an error names its folder, and how to choose another."""
    try:
        yield
    except OSError as error:
        folder = tempfile.gettempdir()
        raise OSError(
            error.errno,
            f"{error.strerror}: shuffle_seed= keeps all records in a temporary file in this "
            "folder; name one with more room by the environment variable TMPDIR",
            folder,
        ) from error


class ShuffledShards:
    """Each record goes to a shard drawn at random, and each shard's records are permuted. Together
    that is a uniform permutation. Meanwhile the records lie in a temporary local file. It has no
    name, so no crash leaves it behind. Writing the shards out takes memory for one of them,
    uncompressed. The same seed and records give the same shards.
    """

    def __init__(
        self, streams: list[ShardStream], seed: int, block_bytes: int, tally: Tally
    ) -> None:
        self._owner = Owner()
        self.streams = streams
        self._shard_dice, self._order_dice = map(
            np.random.default_rng, np.random.SeedSequence(seed).spawn(2)
        )
        self._drawn: npt.NDArray[np.int64] = np.empty(0, np.int64)
        self._block_bytes = block_bytes
        self._tally = tally
        self._waiting = FrameWriter(block_bytes)
        self._spilled: list[list[Extent]] = [[] for _ in streams]
        self._spill = tempfile.TemporaryFile(prefix="tfio_store-", buffering=0)  # noqa: SIM115
        self._end = 0

    def __del__(self) -> None:
        if hasattr(self, "_spill"):
            self._spill.close()

    def write(self, record: Any, key: BytesLike | None) -> None:
        if key is not None:
            raise ValueError("key can't be had with shuffle_seed: shards are drawn at random")
        self.write_run([record])

    def write_run(self, run: Run) -> None:
        # Blocks of several shards' size, so that each shard's share is worth a write of its own.
        if write_run(self._waiting, run) >= self._block_bytes * min(len(self.streams), 16):
            self._distribute()

    def _distribute(self) -> None:
        self._owner.check("the writer")  # a child shares the file's position with its parent
        batch = scan(self._waiting.take(), verify=False).batch
        shards = self._draw(len(batch))
        frames = FrameWriter()
        for shard in np.unique(shards):
            frames.write_batch(batch.take(np.flatnonzero(shards == shard)))
            self._append(int(shard), frames.take())

    def _draw(self, count: int) -> npt.NDArray[np.int64]:
        """Draw the shards of the next records. Runs of any size give the same shards."""
        while len(self._drawn) < count:
            more = self._shard_dice.integers(len(self.streams), size=_DRAWN_AT_ONCE)
            self._drawn = np.concatenate([self._drawn, more])
        drawn, self._drawn = self._drawn[:count], self._drawn[count:]
        return drawn

    def _append(self, shard: int, data: memoryview) -> None:
        self._spilled[shard].append(Extent(self._end, len(data)))
        self._end += len(data)
        with _naming_the_disk():
            while len(data):
                data = data[self._spill.write(data) :]

    def finish(self) -> None:
        """Write every shard out."""
        if self._waiting.records:
            self._distribute()
        for stream, extents in zip(self.streams, self._spilled, strict=True):
            batch = self._read(extents)
            order = self._order_dice.permutation(len(batch))
            for run in runs(batch.take(order), self._block_bytes):
                if write_run(stream.frames, run) >= self._block_bytes:
                    push(stream, self._tally)
        self._spill.close()

    def _read(self, extents: list[Extent]) -> RecordBatch:
        data = bytearray(sum(extent.nbytes for extent in extents))
        view, position = memoryview(data), 0
        for offset, nbytes in extents:
            self._spill.seek(offset)
            position += self._spill.readinto(view[position : position + nbytes]) or 0
        found = scan(data, max_record_bytes=max(len(data), 1))
        if found.fault is not None or found.end != len(data):
            folder = tempfile.gettempdir()
            raise damaged(Reason.CONTENT, SPILLED, path=folder, offset=found.end)
        return found.batch

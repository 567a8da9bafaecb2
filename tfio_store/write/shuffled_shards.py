"""Shards with records in a random order: a uniform permutation of all written records."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tfio_store.errors import CorruptRecordError
from tfio_store.records.framing import FrameWriter, RecordBatch, scan
from tfio_store.storage.process import Owner
from tfio_store.write.placement import push
from tfio_store.write.runs import Run, runs, write_run

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

    from tfio_store.write.progress import Tally
    from tfio_store.write.shard_stream import ShardStream

__all__ = ["ShuffledShards"]

_DRAWN_AT_ONCE = 1 << 16


class Extent(NamedTuple):
    """A stretch of the spill file."""

    offset: int
    nbytes: int


@contextmanager
def _naming_the_disk() -> Iterator[None]:
    """The file has no name. So an error tells its folder, and how to choose another."""
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
            raise CorruptRecordError(
                "what was spilled to a temporary file reads back otherwise; is the disk in order?",
                path=tempfile.gettempdir(),
                offset=found.end,
            )
        return found.batch

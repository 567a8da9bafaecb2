"""A shard on its way to the store: laid out from blocks, written, and made visible."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import (
    BlockTable,
    CrcsArray,
    ShardInfo,
    StartsArray,
    are_cheap,
    crcs_of,
)
from tfio_store.dataset.manifest import Fingerprint
from tfio_store.errors import DataLossError, SchemaError
from tfio_store.example.codec import value_counts
from tfio_store.records.framing import (
    HEADER_BYTES,
    SUMMED_BYTES,
    FrameWriter,
    RecordBatch,
    crc32c,
    crc32c_combine,
    scan,
)
from tfio_store.storage.faults import may_arrive
from tfio_store.write.pipeline import Pipeline, SerialQueue
from tfio_store.write.stored_objects import check_committed, read_back

if TYPE_CHECKING:
    from tfio_store.dataset.folder import Folder
    from tfio_store.example.feature import Feature
    from tfio_store.records.compression import Compressor
    from tfio_store.storage import Output


# Notes where each record of a raw shard begins, block by block as they are written. No I/O.


def check_record_positions(wanted: object, codec: str | None) -> bool | None:
    """The argument ``record_positions`` as a writer of shards with this codec takes it."""
    if wanted is not None and not isinstance(wanted, bool):
        raise TypeError(f"record_positions must be None, True or False, not {wanted!r}")
    if wanted and codec is not None:
        raise ValueError(
            "record_positions: a record of a compressed shard has no bytes of its own; "
            "make blocks small by block_bytes instead"
        )
    return False if codec is not None else wanted


class RecordPositions:
    """The starts of one shard's records. ``wanted`` None: as long as they are cheap beside the
    shard; once they are not, they are given up."""

    def __init__(self, wanted: bool | None) -> None:
        self._wanted = wanted
        self._blocks: list[StartsArray] | None = None if wanted is False else []
        self._crcs: list[CrcsArray] = []
        self._nbytes = 0
        self._records = 0

    def add(self, piece: Piece) -> None:
        """Note the frames of the next block."""
        if self._blocks is None or piece.batch is None:
            return
        self._nbytes += piece.nbytes
        self._records += piece.records
        if self._wanted is None and not are_cheap(self._nbytes, self._records):
            self._blocks, self._crcs = None, []
            return
        frames = piece.batch.offsets - HEADER_BYTES
        if len(frames) and frames[-1] >> 32:
            raise ValueError("a block's last record begins behind its first 4 GiB")
        self._blocks.append(frames.astype(np.uint32))
        self._crcs.append(crcs_of(piece.batch))

    def starts(self) -> StartsArray | None:
        """The block's row in a `BlockTable`."""
        return np.concatenate(self._blocks) if self._blocks else None

    def crcs(self) -> CrcsArray | None:
        """The masked CRCs of the same records."""
        return np.concatenate(self._crcs) if self._crcs else None


@dataclass(frozen=True, slots=True)
class Piece:
    """A block as it is stored, with its counts and checksums for the shard."""

    data: BytesLike
    nbytes: int
    crc32c: int
    raw_nbytes: int
    records: int
    checksum: int
    summed: int
    """That of its records alone, as `scan` has it."""
    batch: RecordBatch | None
    """The records of a raw block."""
    values: Mapping[str, int]
    """How many values each of some lists of numbers has in them. Empty if that can't be said."""


_TWO_THREADS = (
    "two threads wrote at a time, and records may be lost: use a writer in one thread at a time, "
    "or take a lock around write()"
)


def make_piece(
    compressor: Compressor,
    block: BytesLike,
    records: int,
    lists: Mapping[str, Feature] | None = None,
) -> Piece:
    """Compress a block, and count the values of ``lists`` of numbers in it. Touches nothing shared,
    so any thread may do it for any shard."""
    data = compressor.compress(block)
    found = scan(block, verify=False, max_record_bytes=sys.maxsize)
    if len(found.batch) != records:
        raise RuntimeError(_TWO_THREADS)
    return Piece(
        data=data,
        nbytes=memoryview(data).nbytes,
        crc32c=crc32c(data),
        raw_nbytes=memoryview(block).nbytes,
        records=records,
        checksum=compressor.checksum(block),
        summed=found.summed,
        batch=found.batch if compressor.codec is None else None,
        values=_values_in(found.batch, lists),
    )


def _values_in(batch: RecordBatch, lists: Mapping[str, Feature] | None) -> dict[str, int]:
    """Records that are bytes pass unchecked, and may be anything."""
    if not lists:
        return {}
    try:
        return {name: int(each.sum()) for name, each in value_counts(batch, lists).items()}
    except (DataLossError, SchemaError):
        return {}


class ShardLayout:
    """The places of one shard's blocks, which are added in order. ``record_positions``: whether
    those of its records are kept too; see `RecordPositions`. ``lists``: whose values are
    counted."""

    def __init__(
        self,
        compressor: Compressor,
        *,
        record_positions: bool | None = False,
        lists: Mapping[str, Feature] | None = None,
    ) -> None:
        self._compressor = compressor
        self._positions = RecordPositions(record_positions)
        self._checksum = compressor.EMPTY
        self._offsets = [len(compressor.header)]
        self._raw_offsets = [0]
        self._records = [0]
        self._sums = [0]
        self._lists = {} if lists is None else lists
        self._values: Counter[str] = Counter()
        self._all_counted = True
        self.nbytes = len(compressor.header)
        self.crc32c = crc32c(compressor.header)

    @property
    def records(self) -> int:
        return self._records[-1]

    def add(self, piece: Piece) -> BytesLike:
        """The bytes to write for the next block."""
        self._extend(piece.nbytes, piece.crc32c)
        self._positions.add(piece)
        self._offsets.append(self.nbytes)
        self._raw_offsets.append(self._raw_offsets[-1] + piece.raw_nbytes)
        self._records.append(self._records[-1] + piece.records)
        self._sums.append(
            crc32c_combine(self._sums[-1], piece.summed, SUMMED_BYTES * piece.records)
        )
        self._values.update(piece.values)
        self._all_counted &= piece.values.keys() == self._lists.keys()
        self._checksum = self._compressor.add(self._checksum, piece.checksum, piece.raw_nbytes)
        return piece.data

    def end(self) -> bytes:
        """The bytes to write after the last block. They belong to that block in the table."""
        trailer = self._compressor.trailer(self._checksum, empty=len(self._offsets) == 1)
        self._extend(len(trailer), crc32c(trailer))
        self._offsets[-1] = self.nbytes
        return trailer

    def info(self, name: str) -> ShardInfo:
        """The contents of the finished shard."""
        offsets = np.array(self._offsets, np.int64)
        plain = self._compressor.codec is None
        table = BlockTable(
            offsets=offsets,
            raw_offsets=offsets if plain else np.array(self._raw_offsets, np.int64),
            records=np.array(self._records, np.int64),
            starts=self._positions.starts(),
            sums=np.array(self._sums, np.uint32),
            crcs=self._positions.crcs(),
        )
        values = {each: self._values[each] for each in self._lists if self._all_counted}
        return ShardInfo(name, self.nbytes, self.records, self.crc32c, table, values=values)

    def _extend(self, nbytes: int, crc: int) -> None:
        self.crc32c = crc32c_combine(self.crc32c, crc, nbytes)
        self.nbytes += nbytes


# A shard on its way to the store.


class ShardStream:
    """Frames records into blocks, compresses these in parallel, and writes them out in order. All
    methods except `commit` and `info` belong to the caller's thread. If no output is given, an
    upload thread opens one with the first block. So opening many shards waits for no round trip.
    """

    def __init__(
        self,
        name: str,
        pipeline: Pipeline,
        compressor: Compressor,
        open_output: Callable[[], Output],
        *,
        output: Output | None,
        block_bytes: int,
        record_positions: bool | None,
        lists: Mapping[str, Feature],
    ) -> None:
        self.name = name
        self.frames = FrameWriter(block_bytes)
        self._pipeline = pipeline
        self._compressor = compressor
        self._open_output = open_output
        self._output = output
        self._header = compressor.header
        self._etag: str | None = None
        self.may_be_visible = False
        self.ended: Future[None] | None = None
        self._once = threading.Lock()
        self.raw_nbytes = 0
        self._lists = lists
        self._layout = ShardLayout(compressor, record_positions=record_positions, lists=lists)
        self._queue = SerialQueue(pipeline.io)

    def push(self) -> None:
        """Hand over the records that wait in ``frames`` as one block. Waits while the memory budget
        is used up. Raises an earlier failure of any thread.
        """
        records = self.frames.records
        if not records:
            return
        try:
            self._pipeline.reserve(self.frames.nbytes)
            block = self.frames.take()
            self.raw_nbytes += block.nbytes
            how = self._compressor, block, records, self._lists
            make: Callable[[], Piece] = partial(make_piece, *how)
            if self._compressor.codec is not None:
                make = self._pipeline.compute(make).result
            self._queue.submit(partial(self._append, make, block.nbytes))
        except BaseException as error:  # as by Control-C: the block may be lost
            self._pipeline.fail(error)
            raise

    def _append(self, make: Callable[[], Piece], nbytes: int) -> None:
        try:
            if not self._pipeline.failed:
                piece = make()
                self._opened().write(self._layout.add(piece))
        except BaseException as error:
            self._pipeline.fail(error)
        finally:
            self._pipeline.release(nbytes)

    def _opened(self) -> Output:
        if self._output is None:
            self._output = self._open_output()
        header, self._header = self._header, b""
        if header:
            self._output.write(header)
        return self._output

    def then(self, step: Callable[[], None]) -> Future[None]:
        """Do this when the output has taken all blocks pushed so far, unless anything has failed.
        If it fails itself, so does the writer."""
        return self._queue.submit(self._pipeline.step(step))

    def end(self) -> Future[None]:
        """Push what waits, and write the trailer. Done when the output has taken every byte."""
        self._check_alone(self._once.acquire(blocking=False))
        self.push()
        self.ended = self.then(self._end)
        return self.ended

    def check_end(self) -> None:
        """RuntimeError if a record came behind the end."""
        self._check_alone(not self.frames.records)

    def _check_alone(self, alone: bool) -> None:
        if not alone:
            error = RuntimeError(_TWO_THREADS)
            self._pipeline.fail(error)
            raise error

    def _end(self) -> None:
        output = self._opened()
        trailer = self._layout.end()
        if trailer:
            output.write(trailer)

    def commit(self, folder: Folder, *, if_absent: bool, verify: bool) -> None:
        """After `end`: make the object visible, and check that the store holds what was written."""
        layout, path = self._layout, folder.join(self.name)
        try:
            output = self._opened()
            self.may_be_visible = True
            stored = output.commit(if_absent=if_absent, crc32c=layout.crc32c)
            self._etag = stored.etag
            check_committed(folder.store, path, stored, nbytes=layout.nbytes, crc=layout.crc32c)
            if verify and stored.crc32c is None:
                read_back(folder.store, path, nbytes=layout.nbytes, crc=layout.crc32c)
        except BaseException as error:
            self.may_be_visible &= self._etag is not None or may_arrive(error, folder.store)
            raise

    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the shard's object, once the shard has ended."""
        return Fingerprint(self.name, self._layout.nbytes, self._layout.crc32c, self._etag)

    def info(self) -> ShardInfo:
        """The contents of the shard, once it has ended."""
        return self._layout.info(self.name)

    def abort(self) -> Future[None]:
        """Drop the object, after the block under way. The pipeline must have failed."""
        return self._queue.submit(self._abort)

    def _abort(self) -> None:
        if self._output is not None:
            self._output.abort()

"""Lays a shard out from its blocks: header, pieces, trailer, table and CRC. No I/O."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import Buffer as BytesLike

from tfio_store.dataset.block_tables import (
    SUMMED_BYTES,
    BlockTable,
    CrcsArray,
    ShardInfo,
    StartsArray,
    are_cheap,
    crcs_of,
)
from tfio_store.records.framing import HEADER_BYTES, crc32c, crc32c_combine, scan

if TYPE_CHECKING:
    from tfio_store.records.compression import Compressor


__all__ = ["Piece", "ShardLayout", "check_record_positions", "make_piece"]


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

    def add(self, block: BytesLike, records: int) -> None:
        """Note the frames of the next block."""
        if self._blocks is None:
            return
        self._nbytes += memoryview(block).nbytes
        self._records += records
        if self._wanted is None and not are_cheap(self._nbytes, self._records):
            self._blocks, self._crcs = None, []
            return
        batch = scan(block, verify=False, max_record_bytes=sys.maxsize).batch
        frames = batch.offsets - HEADER_BYTES
        if len(frames) and frames[-1] >> 32:
            raise ValueError("a block's last record begins behind its first 4 GiB")
        self._blocks.append(frames.astype(np.uint32))
        self._crcs.append(crcs_of(batch))

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


def make_piece(compressor: Compressor, block: BytesLike, records: int) -> Piece:
    """Compress a block. Touches nothing shared, so any thread may do it for any shard."""
    data = compressor.compress(block)
    return Piece(
        data=data,
        nbytes=memoryview(data).nbytes,
        crc32c=crc32c(data),
        raw_nbytes=memoryview(block).nbytes,
        records=records,
        checksum=compressor.checksum(block),
        summed=scan(block, verify=False, max_record_bytes=sys.maxsize).summed,
    )


class ShardLayout:
    """The places of one shard's blocks, which are added in order. ``record_positions``: whether
    those of its records are kept too; see `RecordPositions`."""

    def __init__(self, compressor: Compressor, *, record_positions: bool | None = False) -> None:
        self._compressor = compressor
        self._positions = RecordPositions(record_positions)
        self._checksum = compressor.EMPTY
        self._offsets = [len(compressor.header)]
        self._raw_offsets = [0]
        self._records = [0]
        self._sums = [0]
        self.nbytes = len(compressor.header)
        self.crc32c = crc32c(compressor.header)

    @property
    def records(self) -> int:
        return self._records[-1]

    def add(self, piece: Piece) -> BytesLike:
        """The bytes to write for the next block."""
        self._extend(piece.nbytes, piece.crc32c)
        self._positions.add(piece.data, piece.records)
        self._offsets.append(self.nbytes)
        self._raw_offsets.append(self._raw_offsets[-1] + piece.raw_nbytes)
        self._records.append(self._records[-1] + piece.records)
        self._sums.append(
            crc32c_combine(self._sums[-1], piece.summed, SUMMED_BYTES * piece.records)
        )
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
        return ShardInfo(name, self.nbytes, self.records, self.crc32c, table)

    def _extend(self, nbytes: int, crc: int) -> None:
        self.crc32c = crc32c_combine(self.crc32c, crc, nbytes)
        self.nbytes += nbytes

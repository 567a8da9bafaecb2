"""Finds records that are there more than once."""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from tfio_store.records.framing import RecordBatch

__all__ = ["Repeats"]

Int64Array = npt.NDArray[np.int64]

_MOST_HASHES = 2 << 20
_MOST_ROWS = 100
_LONG = 64 << 10
"""Records of so many bytes are not copied."""


def _hash(record: memoryview) -> int:
    return hash(blake2b(record, digest_size=16).digest())


class Repeats:
    """Takes batches. Records beyond the first two million count no more."""

    def __init__(self) -> None:
        self._hashes: list[Int64Array] = []
        self._rows: list[Int64Array] = []
        self.records = 0

    def add(self, batch: RecordBatch, rows: Int64Array) -> None:
        if self.records + len(batch) > _MOST_HASHES:
            return
        self.records += len(batch)
        found = (
            hash(batch[i]) if nbytes < _LONG else _hash(batch.view(i))
            for i, nbytes in enumerate(batch.lengths.tolist())
        )
        self._hashes.append(np.fromiter(found, np.int64, len(batch)))
        self._rows.append(rows)

    def found(self) -> tuple[int, list[int]]:
        """How many records are the same as an earlier one; and rows of those that are not
        alone."""
        if not self.records:
            return 0, []
        hashes, rows = np.concatenate(self._hashes), np.concatenate(self._rows)
        _, back, counts = np.unique(hashes, return_inverse=True, return_counts=True)
        again = np.flatnonzero((counts[back] > 1) & (rows >= 0))
        order = np.argsort(-counts[back[again]], kind="stable")[:_MOST_ROWS]
        return len(hashes) - len(counts), rows[again[order]].tolist()

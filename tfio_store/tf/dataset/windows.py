"""Decides which records are shuffled together, and in which batches they come. No TensorFlow.

A *window* is a run of whole batches of the shuffled blocks, of about as many records as
``shuffle=`` asks for. No batch crosses the bounds of a window; the blocks there belong to both
sides. What is left behind the last whole batch is a window of its own, and comes last.

Which blocks lie in which window depends on the seed alone, not on the epoch: workers of tf.data
service that share out the windows must agree on what they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tfio_store.tf.dataset.spans import Int64Array, Spans, cut

__all__ = ["BatchWindows", "window_spans"]


@dataclass(frozen=True, slots=True)
class BatchWindows:
    """Shares out the batches of some records among windows."""

    batches: int
    """Whole ones."""
    per_window: int
    """Batches of each window but the last."""
    rest: int
    """Records behind the last whole batch."""

    @property
    def count(self) -> int:
        """Windows of whole batches."""
        return -(-self.batches // self.per_window)

    @property
    def in_last(self) -> int:
        """Batches of the last of them."""
        return self.batches - (self.count - 1) * self.per_window

    def bounds(self, batch_size: int) -> Int64Array:
        """Record numbers at which windows begin and end, that of the rest included."""
        starts = np.arange(self.count) * self.per_window * batch_size
        whole = self.batches * batch_size
        ends = [whole] if not self.rest else [whole, whole + self.rest]
        return np.append(starts, ends).astype(np.int64)


def window_spans(
    spans: Spans, batch_size: int, blocks: int | Fraction, seed: int
) -> tuple[Spans, BatchWindows]:
    """``spans`` are whole blocks. Windows of about ``blocks`` of them, and their batches."""
    records = spans.records
    total, count = int(records.sum()), len(records)
    wanted = total * blocks // max(1, count)
    windows = BatchWindows(total // batch_size, max(1, wanted // batch_size), total % batch_size)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(count)
    return cut(spans.table[order], windows.bounds(batch_size), spans.files), windows

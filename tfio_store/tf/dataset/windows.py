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
    within: bool = False
    """The rest belongs to the last window, which is not shorter than others. Then the last batch,
    and what `drop_remainder` drops, are not always the same records."""

    @property
    def count(self) -> int:
        """Windows of whole batches; with ``within``, all windows."""
        if self.within:
            batches = self.batches + (self.rest > 0)
            return min(batches, max(1, batches // self.per_window))
        return -(-self.batches // self.per_window)

    @property
    def in_last(self) -> int:
        """Whole batches of the last of them."""
        return self.batches - (self.count - 1) * self.per_window

    def bounds(self, batch_size: int) -> Int64Array:
        """Record numbers at which windows begin and end, that of the rest included."""
        starts = np.arange(self.count) * self.per_window * batch_size
        whole = self.batches * batch_size
        if self.within:
            return np.append(starts, whole + self.rest).astype(np.int64)
        ends = [whole] if not self.rest else [whole, whole + self.rest]
        return np.append(starts, ends).astype(np.int64)


def window_spans(
    spans: Spans, batch_size: int, blocks: int | Fraction, seed: int, *, within: bool = False
) -> tuple[Spans, BatchWindows]:
    """``spans`` are whole blocks. Windows of about ``blocks`` of them, and their batches."""
    records = spans.records
    total, count = int(records.sum()), len(records)
    wanted = total * blocks // max(1, count)
    # what `Dataset.shuffle` mixes, it mixes among no fewer records
    per_window = max(1, -(-wanted // batch_size) if within else wanted // batch_size)
    windows = BatchWindows(total // batch_size, per_window, total % batch_size, within)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(count)
    return cut(spans.table[order], windows.bounds(batch_size), spans.files), windows

"""Whole batches straight from the files, in order or shuffled, each by one call of one op."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.dataset.model import Dataset, Shard
from tfio_store.errors import DataLossError, Reason, RecordTooLargeError
from tfio_store.read.decode import other_records
from tfio_store.records.compression import detect
from tfio_store.records.framing import walk
from tfio_store.storage.cores import cores
from tfio_store.tf.dataset import ops, stages
from tfio_store.tf.dataset.blocks import (
    BlockReader,
    element_count,
    fused_columns,
    in_elements,
    mixed_blocks,
    of_parts,
    parsed,
)
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.spans import (
    MARKS,
    Int64Array,
    Spans,
    batch_spans,
    block_spans,
    cut,
    exact_batch_spans,
    turn_spans,
)
from tfio_store.tf.dataset.stages import MAPS_CAN_END

FEW = 16
"""A shuffled or parsed batch with fewer records may be too small."""

_CALL_BYTES = 16 << 10
"""Bytes that are read in the time of one call."""

_SAMPLE_BYTES = 64 << 10
"""So many bytes of a file show how long its records are."""


def too_small(dataset: Dataset, options: Options, *, shuffled: bool = False) -> bool:
    """Whether batches are so small that a call for each costs more than to put them together."""
    size = options.batch_size
    if size is None:
        return False
    shuffled = shuffled or options.shuffle is not False
    if size >= FEW and (shuffled or options.feature_spec is not None):
        return False
    return size * frame_bytes(dataset) < _CALL_BYTES


def frame_bytes(dataset: Dataset) -> float:
    """The mean length of a frame. Where the records are not counted, the head of the first file
    with any shows it."""
    records = sum(shard.records or 0 for shard in dataset.shards)
    if records:
        return sum(map(_raw_bytes, dataset.shards)) / records
    for index, shard in enumerate(dataset.shards):
        if shard.nbytes:
            store, path = dataset.open(index)
            end = min(shard.nbytes, _SAMPLE_BYTES)
            frames, sampled, _ = walk(store.read(path, 0, end, etag=shard.version).result())
            return sampled / len(frames) if len(frames) else math.inf
    return math.inf


def _raw_bytes(shard: Shard) -> int:
    if shard.blocks is None:
        return shard.nbytes
    return int(shard.blocks.raw_offsets[-1] - shard.blocks.raw_offsets[0])


def raw_local(dataset: Dataset) -> Dataset | None:
    """The dataset, marked as raw, if all its files are raw and local, and read whole. Then batches
    need the place of every frame, and no blocks."""
    found = {}
    for i, shard in enumerate(dataset.shards):
        if shard.is_part:
            return None
        if "://" in shard.url or not (shard.compression is None or _looks_raw(dataset, i)):
            return None
        found[i] = shard.known(compression=None)
    return dataset.with_shards(found)


def _looks_raw(dataset: Dataset, index: int) -> bool:
    if dataset.shards[index].compression != "auto":
        return False
    store, path = dataset.open(index)
    head = store.read(path, 0, 512, etag=dataset.shards[index].version)
    return detect(head.result()) is None


def batch_dataset(dataset: Dataset, options: Options) -> tf.data.Dataset:
    """Batches (or parsed batches) of a dataset that is raw and local, or whose blocks are known."""
    assert options.batch_size is not None
    spans = _spans(dataset, options.batch_size, options)
    count = spans.count
    if options.drop_remainder and int(spans.records.sum()) % options.batch_size:
        count -= 1
    reader = BlockReader(dataset, spans, options, partial=False, marked=True)
    shards, index = options.shard or (1, 0)
    return _batches(reader, stages.marked(range(index, count, shards), reader.mark), options)


def _batches(reader: BlockReader, numbers: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """Each group of ``numbers``, which are marked, a batch."""
    columns = None if options.feature_spec is None else fused_columns(options.feature_spec)
    if columns is not None:
        begun = reader.begun(numbers)
        return reader.examples(begun, columns, calls=reader.parallel(), ends=False)
    found = reader.read(numbers)
    if options.drop_remainder:
        found = found.map(lambda records: tf.ensure_shape(records, [options.batch_size]))
    return parsed(found, options)


def _spans(dataset: Dataset, batch_size: int, options: Options) -> Spans:
    if raw_local(dataset) is not None:
        try:
            return exact_batch_spans(dataset, batch_size, options.limits)
        except (DataLossError, RecordTooLargeError) as error:
            if not dataset.has_blocks:
                raise
            _check_is_cut(dataset, error)
            # by the manifest's blocks, so that reading notices what is missing
    return batch_spans(dataset, batch_size)


def _check_is_cut(dataset: Dataset, error: DataLossError | RecordTooLargeError) -> None:
    """ReplacedError if the file of this error is as long as its manifest says, and still ends
    inside a record: then it is another file, and none of its records may be given."""
    if not isinstance(error, DataLossError) or error.kind is not Reason.TRUNCATED:
        return
    for number, shard in enumerate(dataset.shards):
        if shard.url == error.path:
            store, path = dataset.open(number)
            if store.info(path).size >= shard.nbytes:
                raise other_records(shard.url, 0) from error


# Files in turns, as TensorFlow's ``num_parallel_reads`` reads them.


def takes_turns(dataset: Dataset, options: Options) -> bool:
    """Whether the ops read these files in turns: all counts hold, and memory has room for a block
    of each file that is read at once."""
    parallel_reads: Any = options.parallel_reads
    if not isinstance(parallel_reads, int) or parallel_reads < 1 or not dataset.has_blocks:
        return False
    if options.shuffle is not False or options.settings.skip_corrupt or ops.bridge() != "native":
        return False
    tables = [shard.blocks for shard in dataset.shards if shard.blocks is not None]
    largest = max((int(np.diff(each.raw_offsets).max(initial=0)) for each in tables), default=0)
    return min(parallel_reads, len(tables)) * largest <= options.memory_budget // 4


def turns_dataset(dataset: Dataset, options: Options) -> tuple[tf.data.Dataset, int]:
    """Records (or batches, or parsed batches) of files in turns, and how many there are."""
    count, index = options.shard or (1, 0)
    parallel_reads = options.parallel_reads or 1
    options = replace(options, shard=None)
    blocks = block_spans(dataset)
    per_block = max(1, int(blocks.records.sum()) // max(1, blocks.count))
    size = options.batch_size
    whole = size is not None and not too_small(dataset, options)
    chosen = range(index, len(dataset.shards), count)
    in_group = size if size is not None and whole else per_block
    spans = turn_spans(blocks, chosen, parallel_reads, in_group)
    total = int(spans.spans[:, 2].sum())
    elements = in_elements(total, options)
    # groups that share blocks stay together
    together = max(1, parallel_reads * per_block // in_group)
    reader = BlockReader(dataset, spans, options, partial=not whole, marked=True, together=together)
    groups = elements if whole else spans.count
    numbers = stages.marked(range(groups), reader.mark, together)
    if whole:
        return _batches(reader, numbers, options), elements
    runs = reader.read(stages.in_order(numbers, 1))
    return of_parts(runs, reader.versions, options), elements


# Decides which records are shuffled together, and in which batches they come. No TensorFlow.
#
# A *window* is a run of whole batches of the shuffled blocks, of about as many records as
# ``shuffle=`` asks for. No batch crosses the bounds of a window; the blocks there belong to both
# sides. What is left behind the last whole batch is a window of its own, and comes last.
#
# Which blocks lie in which window depends on the seed alone, not on the epoch: workers of tf.data
# service that share out the windows must agree on what they are.


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
        """Whole batches of the last of them."""
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


# Shuffled batches, parsed or not, each by one call of one op.
#
#     range(n_windows) ─ shuffle ─ begin to fetch ─ zip with seeds ─ batches of each ─ read
#
# No record passes through TensorFlow by itself: a call reads a window's blocks along with the
# calls for the window's other batches, and hands out the batch that its number says. What is saved
# of an iterator are numbers.


_CALLS_PER_CORE = 4
_SEEDS = 1 << 64


def can_shuffle(options: Options) -> bool:
    """Whether an op makes these batches if they are shuffled, and all counts hold."""
    spec = options.feature_spec
    return (
        options.batch_size is not None
        and not options.settings.skip_corrupt
        and ops.bridge() == "native"
        and (spec is None or fused_columns(spec) is not None)
    )


def shuffled_dataset(dataset: Dataset, options: Options) -> tuple[tf.data.Dataset, int | None]:
    """Batches of a dataset whose blocks are all known, and how many there are."""
    assert options.batch_size is not None
    blocks = block_spans(dataset)
    count, index = options.shard or (1, 0)
    mixed, seed = mixed_blocks(blocks, options), (options.seed or 0) % _SEEDS
    spans, windows = window_spans(blocks.share(index, count), options.batch_size, mixed, seed)
    reader = BlockReader(dataset, spans, options, marked=True)
    ends = MAPS_CAN_END and options.deterministic is not False
    spec = options.feature_spec
    found = reader.examples(
        _rows(reader, windows, options, ends=ends),
        None if spec is None else fused_columns(spec),
        calls=_calls(spans, windows, options),
        ends=ends,
    )
    return found, element_count(blocks, options)


def _rows(reader: BlockReader, windows: BatchWindows, options: Options, *, ends: bool) -> Any:
    """int64 [3]: window, which is marked, batch in it, and the window's seed. Without end where a
    map can see the end; see `tfio_store.tf.dataset.stages`."""
    remains = windows.rest > 0 and not options.drop_remainder
    found = stages.numbers(windows.count, replace(options, shard=None), reader.mark)
    rest = [windows.count * MARKS + reader.mark] if remains else []
    found = stages.then(found, rest, ends=ends)

    seeded = tf.data.Dataset.zip((reader.begun(found), stages.seeds(options)))
    sizes = [windows.count, windows.per_window, windows.in_last, reader.mark]
    given = [tf.constant(sizes, tf.int64)]
    return stages.in_place(seeded, _batches_of_window(), given, tf.TensorSpec([3], tf.int64))


@lru_cache(maxsize=1)
def _batches_of_window() -> Any:
    def step(window: tf.Tensor, seed: tf.Tensor, sizes: tf.Tensor) -> tf.Tensor:
        rows = ops.window_rows(window, seed, sizes)
        return tf.data.experimental.to_variant(tf.data.Dataset.from_tensor_slices(rows))

    number = tf.TensorSpec([], tf.int64)
    return stages.concrete(step, number, number, tf.TensorSpec([4], tf.int64))


def _calls(spans: Spans, windows: BatchWindows, options: Options) -> int:
    """Calls at once, whose windows memory has room for: those handed out, and one that is begun."""
    most = options.memory_budget // max(1, spans.largest_group()) - 1
    return max(1, min(_CALLS_PER_CORE * cores(), windows.per_window * most))

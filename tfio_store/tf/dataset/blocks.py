"""The block pipeline: numbers of blocks in, records out.

    range(n_blocks) ─ shuffle ─ begin to fetch ─ read ─ errors in their place ─ records

Every stage is stateless or keeps a few integers. So iterators can be saved, restored and sent
elsewhere at no cost. `tfio_store.tf.dataset.stages` says how they end.

An error must come behind the good records before it, as from TensorFlow's own reader. A map gives
one element for one element. So the read hands over the error beside the records, and a scan raises
it in the next element's turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import tensorflow as tf

from tfio_store.dataset.header_walk import is_remote
from tfio_store.dataset.model import Dataset
from tfio_store.records.texts import warn
from tfio_store.storage.cores import cores
from tfio_store.tf.dataset import ops, stages
from tfio_store.tf.dataset.columns import Columns, columns_of
from tfio_store.tf.dataset.features import (
    SequenceColumns,
    SequenceSpec,
    Spec,
    only_fixed,
    parse_batch,
    parse_record,
    sequence_columns,
)
from tfio_store.tf.dataset.options import Options, Settings
from tfio_store.tf.dataset.record_function import RecordFunction
from tfio_store.tf.dataset.runtime import codec_text
from tfio_store.tf.dataset.spans import Blocks, Spans, block_spans, coarse_block_spans, mark_of
from tfio_store.tf.dataset.stages import (
    map_in_parallel,
    map_in_place,
    map_that_waits,
    map_traced_in_parallel,
)

# Turns runs of records into what the user asked for: records, batches, parsed batches.


def finish(runs: tf.data.Dataset, options: Options, *, single: bool = False) -> tf.data.Dataset:
    """``runs`` are string [n] tensors, or with ``single`` records."""
    spec = options.feature_spec
    records = runs if single else stages.records(runs, shuffled=options.shuffle is not False)
    if options.batch_size is not None:
        # not rebatch: that can't be checkpointed symbolically
        batch = tf.data.Dataset.batch if options.shuffle is False else stages.in_batches
        batches = batch(records, options.batch_size, drop_remainder=options.drop_remainder)
        return parsed(batches, options)
    if spec is None:
        return records
    if not single and only_fixed(spec):
        return runs.interleave(lambda run: _parsed_run(run, spec), cycle_length=1)
    # parsing several Examples at once depends on their neighbours (padding, dense shapes)
    return records.map(
        lambda record: parse_record(record, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )


def _parsed_run(run: tf.Tensor, spec: Spec) -> tf.data.Dataset:
    """Parse the Examples of a run together, in a tenth of the time. If one of them is bad, parse
    one by one, so that those before it arrive."""
    together = tf.data.Dataset.from_tensors(run).map(lambda some: parse_batch(some, spec))
    singly = tf.data.Dataset.from_tensor_slices(run).map(lambda record: parse_record(record, spec))
    found = together.ignore_errors().unbatch().concatenate(singly)
    return found.take(tf.size(run, tf.int64))


def parsed(batches: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """Batches of strings as they are, or as dicts of tensors if there is a feature spec."""
    spec = options.feature_spec
    if spec is None:
        return batches
    return batches.map(
        lambda batch: parse_batch(batch, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=options.deterministic,
    )


FusedColumns: TypeAlias = "Columns | SequenceColumns | RecordFunction"


def fused_columns(spec: Spec) -> FusedColumns | None:
    """The features that the op parses; None where TensorFlow must."""
    if ops.bridge() != "native":
        return None
    if isinstance(spec, RecordFunction):
        return spec
    return sequence_columns(spec) if isinstance(spec, SequenceSpec) else columns_of(spec)


_CALLS_PER_CORE = 4
_IN_FLIGHT_BYTES = 128 << 20
_IN_FLIGHT_MOST = 4096
_WINDOWS = 3


def block_dataset(dataset: Dataset, options: Options) -> tuple[tf.data.Dataset, int | None]:
    """Records (or batches, or parsed batches) of a dataset whose blocks are all known; and their
    number."""
    coarse = options.shuffle is False and options.shard is None
    spans = coarse_block_spans(dataset) if coarse else block_spans(dataset)
    reader = BlockReader(dataset, spans, options, window=math.ceil(mixed_blocks(spans, options)))
    count = element_count(spans, options)
    if options.parallel_reads is None:
        seeds = None if options.shuffle is False else stages.seeds(options)
        numbers = stages.in_order(stages.numbers(reader.count, options), reader.window)
        return of_parts(reader.read(numbers, seeds), reader.versions, options), count
    records = _files_in_turns(reader, spans, options)
    return finish(records, options, single=True), None if options.shard else count


def of_parts(runs: tf.data.Dataset, versions: tf.Tensor, options: Options) -> tf.data.Dataset:
    """Records (or batches, or parsed batches) of ``runs`` as `stages.until_error` takes them."""
    if options.batch_size is None:
        return finish(stages.until_error(runs, versions), options)
    drop = options.drop_remainder
    batches = stages.batches(runs, versions, options.batch_size, drop_remainder=drop)
    return parsed(batches, options)


def _files_in_turns(reader: BlockReader, spans: Spans, options: Options) -> tf.data.Dataset:
    starts = tf.constant(spans.shard_starts)
    shuffled = options.shuffle is not False

    def shard_records(shard: tf.Tensor, seed: tf.Tensor) -> tf.data.Dataset:
        start = starts[shard]
        numbers = tf.range(start, tf.maximum(start, starts[shard + 1]))  # NOTHING has none
        seeds = None
        if shuffled:  # without state: what an interleave is given can't have any
            numbers = tf.random.experimental.stateless_shuffle(numbers, tf.stack([seed, 0]))
            seeds = tf.data.Dataset.counter(seed)
        found = stages.in_order(tf.data.Dataset.from_tensor_slices(numbers), reader.window)
        runs = reader.read(found, seeds)
        return stages.slices(stages.until_error(runs, reader.versions))

    shards = stages.in_order(stages.numbers(spans.files, options), 1)
    chosen = tf.data.Dataset.zip((shards, stages.seeds(options)))
    ends = chosen.map(lambda shard, seed: (shard, seed, tf.where(shard < 0, stages.END, "")))
    chosen = stages.until_error(ends, reader.versions)
    return interleaved(chosen, shard_records, options)


def interleaved(files: tf.data.Dataset, records: Any, options: Options) -> tf.data.Dataset:
    """The records of several files in turns, as TensorFlow's ``num_parallel_reads``."""
    reads = options.parallel_reads
    automatic = reads == tf.data.AUTOTUNE
    return files.interleave(
        records,
        block_length=1,
        deterministic=options.deterministic,
        num_parallel_calls=reads,
        **({} if automatic else {"cycle_length": reads}),
    )


def mixed_blocks(spans: Spans, options: Options) -> Fraction:
    """How many blocks (groups of ``spans``) are mixed: as many as the options say, if memory has
    room for them three times. Some are handed out, late calls still hold the last ones, and the
    next ones are read."""
    nbytes = max(1, spans.mean_group())
    most = max(1, options.memory_budget // (_WINDOWS * nbytes))
    asked = options.window.blocks(spans.count, int(spans.records.sum()), nbytes * spans.count)
    wanted = max(Fraction(1), min(asked, Fraction(spans.count)))
    if wanted > most and options.shuffle is not True:
        warn(
            f"shuffle={options.shuffle!r}: {math.ceil(wanted)} blocks take "
            f"{math.ceil(_WINDOWS * wanted * nbytes) >> 20} MiB: {most} are mixed, which "
            "memory_budget= has room for; pass a larger one"
        )
    return min(wanted, Fraction(most))


class BlockReader:
    """Turns groups of spans into string [n] tensors, and what is wrong behind them: string []."""

    def __init__(
        self,
        dataset: Dataset,
        spans: Spans,
        options: Options,
        *,
        partial: bool = True,
        window: int = 1,
        marked: bool = False,
        together: int = 1,
    ) -> None:
        """``marked`` groups are those of `stages.marked`, so many ``together``."""
        files = [shard.address for shard in dataset.shards]
        codecs = [codec_text(shard) for shard in dataset.shards]
        versions = [shard.version.etag or "" for shard in dataset.shards]
        place_and_files = versions_of(dataset, f"{spans.content} {together}")
        self.mark = mark_of(*place_and_files)
        # make the tensors once: functions capture them, and no call copies them
        self._blocks = Blocks(
            stages.strings(files),
            stages.strings(codecs),
            stages.strings(versions),
            tf.constant(spans.held),
            tf.constant(spans.placed),
            tf.constant(spans.groups),
            tf.constant([self.mark] if marked else [], tf.int64),
        )
        self._spans = spans
        self._settings = replace(options.settings, partial=partial)
        self._options = options
        self._remote = any(map(is_remote, files))
        self._lent = self._remote or any(codecs)
        self.count = spans.count
        self.window = window
        self.versions = stages.strings(place_and_files)

    def read(self, groups: tf.data.Dataset, seeds: tf.data.Dataset | None = None) -> Any:
        """The records of ``groups``, int64 [] or [k]. ``seeds``, int64 [], shuffle the records of
        each. With ``partial`` there are pairs: the second says what is wrong behind the records, or
        that there are no more."""
        blocks, settings = self._blocks, self._settings
        groups = self.begun(groups)
        wanted, rank = groups.element_spec, blocks.groups.shape.rank
        spec = tf.TensorSpec([None], tf.string)
        return map_traced_in_parallel(
            groups if seeds is None else tf.data.Dataset.zip((groups, seeds)),
            _reading(settings, wanted, rank, seeded=seeds is not None),
            list(blocks.tensors),
            (spec, tf.TensorSpec([], tf.string)) if settings.partial else spec,
            self.parallel(),
            deterministic=self._options.deterministic,
        )

    @property
    def places(self) -> list[tf.Tensor]:
        """The table of the blocks, and the spans."""
        return [self._blocks.table, self._blocks.spans]

    def begun(self, elements: tf.data.Dataset, nbytes: int | None = None) -> tf.data.Dataset:
        """The same ``elements``: groups, or tuples that end with groups. They have been fetched if
        that takes a store. Some of those behind are being fetched already: of the elements that
        have so many ``nbytes``, by default their groups'."""
        blocks, settings = self._blocks, self._settings
        if not self._lent:
            return elements

        def done(do: Any) -> Any:
            def step(*parts: tf.Tensor) -> Any:
                same = do(blocks, parts[-1], settings)
                return (*parts[:-1], same) if parts[1:] else same

            return step

        ahead = self._ahead(nbytes or self._spans.mean_group() * self.window)
        begun = map_in_place(elements, done(ops.begin_blocks)).prefetch(ahead)
        return map_that_waits(begun, done(ops.await_blocks)) if self._remote else begun

    def examples(
        self, rows: tf.data.Dataset, columns: FusedColumns | None, *, calls: int, ends: bool
    ) -> tf.data.Dataset:
        """Batches, string [n] or as ``columns`` say. ``rows`` are what `ops.read_examples` wants.
        Behind the last one a -1 may come that ``ends`` it."""
        return self._read_batches(ops.read_examples, rows, columns, calls=calls, ends=ends)

    def picked(
        self, rows: tf.data.Dataset, columns: FusedColumns | None, *, calls: int, ends: bool
    ) -> tf.data.Dataset:
        """As `examples`, of rows that begin with what `ops.read_picked` wants."""
        return self._read_batches(ops.read_picked, rows, columns, calls=calls, ends=ends)

    def _read_batches(
        self,
        op: Callable[..., list[tf.Tensor]],
        rows: tf.data.Dataset,
        columns: FusedColumns | None,
        *,
        calls: int,
        ends: bool,
    ) -> tf.data.Dataset:
        blocks, settings, size = self._blocks, self._settings, self._options.batch_size
        assert size is not None
        attributes = None if columns is None else columns.attributes
        known = size if self._options.drop_remainder else None

        def read(wanted: tf.Tensor, *beside: tf.Tensor) -> Any:
            del beside
            found = op(blocks, wanted, settings, size, attributes)
            if columns is not None:
                return columns.features(found, known)
            found[0].set_shape([known])
            return found[0]

        # an end that overtakes a batch would lose it
        deterministic = True if ends else self._options.deterministic
        return map_in_parallel(rows, read, calls, deterministic=deterministic, ends=ends)

    def parallel(self) -> int:
        """How many calls run at once. Each holds what it reads; as much again waits to be taken.
        They are more than the cores, so that none waits for the slowest."""
        nbytes = max(1, self._spans.largest_group() * self.window)
        most = _CALLS_PER_CORE * cores()
        return max(1, min(most, self._options.memory_budget // (2 * nbytes)))

    def _ahead(self, nbytes: int) -> int:
        """How many elements of so many bytes are fetched before somebody reads them."""
        budget = min(_IN_FLIGHT_BYTES, self._options.memory_budget // 2)
        # what lies here waits for a core only
        most = _IN_FLIGHT_MOST if self._remote else _CALLS_PER_CORE * cores()
        return max(1, min(most, self.count, budget // max(1, nbytes)))


def versions_of(dataset: Dataset, numbers: str) -> list[str]:
    """Where the files lie, and which versions of them are there, for `stages.other_versions`; and
    what ``numbers`` mean in them, since the same records may lie in other blocks. What a manifest
    says of its files is true wherever they lie. Nothing is said of local files without one: a copy
    of a file has another time."""
    crcs = [shard.crc32c for shard in dataset.shards]
    if all(crc is not None for crc in crcs):
        return ["", f"{crcs} {numbers}"]
    etags = [shard.version.etag for shard in dataset.shards]
    if None in etags or not all(is_remote(shard.url) for shard in dataset.shards):
        return ["", ""]
    return [repr([shard.url for shard in dataset.shards]), f"{etags} {numbers}"]


@lru_cache(maxsize=16)
def _reading(settings: Settings, wanted: tf.TensorSpec, rank: int, *, seeded: bool) -> Any:
    """What reads groups, given the tensors of `Blocks`. Traced once, not for each dataset."""

    def step(wanted: tf.Tensor, *given: tf.Tensor) -> Any:
        seed, tensors = (given[0], given[1:]) if seeded else (None, given)
        records, error = ops.read_blocks(Blocks(*tensors), wanted, settings, seed=seed)
        if not settings.partial:
            return records
        return records, tf.where(tf.reduce_all(wanted == stages.NOTHING), stages.END, error)

    texts, rows = tf.TensorSpec([None], tf.string), tf.TensorSpec([None, None], tf.int64)
    bounds = tf.TensorSpec([None] * rank, tf.int64)
    mark = tf.TensorSpec([None], tf.int64)
    seed = [tf.TensorSpec([], tf.int64)] * seeded
    return stages.concrete(step, wanted, *seed, texts, texts, texts, rows, rows, bounds, mark)


def element_count(spans: Spans, options: Options) -> int | None:
    """How many records or batches there are. None where damage may change that."""
    if options.settings.skip_corrupt:
        return None
    records = spans.records
    if options.shard is not None:
        count, index = options.shard
        records = records[index::count]
    return in_elements(int(records.sum()), options)


def in_elements(records: int, options: Options) -> int:
    """So many records as records, or as batches."""
    size = options.batch_size or 1
    return records // size if options.drop_remainder else -(-records // size)

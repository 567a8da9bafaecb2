"""The streaming path, by records or by batches: for files whose blocks or names are not known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from tfio_store.dataset.model import Dataset, look_at
from tfio_store.errors import DataLossWarning, Reason
from tfio_store.records.damage import damaged, ends_before
from tfio_store.records.texts import warn
from tfio_store.storage.cores import cores
from tfio_store.storage.redaction import redacted
from tfio_store.tf.dataset import ops, stages
from tfio_store.tf.dataset.batches import FEW
from tfio_store.tf.dataset.blocks import finish, fused_columns, interleaved, parsed
from tfio_store.tf.dataset.options import Options, Settings
from tfio_store.tf.dataset.stages import MAPS_CAN_END, map_in_parallel, map_in_place

READ_AHEAD = 2
_SHUFFLE_RECORDS = 10_000
_SCAN_BYTES = 1 << 20
_SCANS = 64
_BEGIN = (0, 0, -1)
_BUFFER_BYTES = 256 << 10
"""The number that `tf.data.TFRecordDataset` takes if no other is asked for."""


def plain_dataset(name: tf.Tensor, codec: Any) -> tf.data.Dataset:
    """A file's records, or those of several, by TensorFlow's own reader."""
    variant = tf.raw_ops.TFRecordDataset(
        filenames=name, compression_type=codec, buffer_size=_BUFFER_BYTES
    )
    return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))


def records_of(names: tf.Tensor, codec: Any, options: Options) -> tf.data.Dataset:
    """The records of a file, string [], or of files, string [n], in their order. Each pass finds
    out whether TensorFlow's own reader gives the same. Otherwise a scan reads, which takes
    milliseconds to set up.

    Every op here costs a pipeline over names some tenths of a millisecond, because TensorFlow
    optimizes the function in which it is. A condition would be functions, which cost much more. So
    both datasets are made, which opens nothing, and one of them is taken.
    """
    codecs = tf.constant(codec) if isinstance(codec, str) else codec
    known, other = ops.plain_codec(names, codecs)
    plain = plain_dataset(names, known)._variant_tensor
    if names.shape.rank != 0:
        codecs = tf.fill(tf.shape(names), codecs)
    runs = _runs(names, codecs, options.settings).prefetch(READ_AHEAD)
    streams = stages.records(runs, shuffled=False)._variant_tensor
    found = tf.raw_ops.SelectV2(condition=other, t=streams, e=plain)
    return tf.data.experimental.from_variant(found, tf.TensorSpec([], tf.string))


def stream_dataset(
    files: tf.data.Dataset, options: Options, *, at_once: int = 1
) -> tf.data.Dataset:
    """Records (or batches, or parsed batches) of ``files``, which are pairs (name, codec). One scan
    reads ``at_once`` files, because a scan costs several times as much as a tiny file."""
    if options.shard is not None:
        files = files.shard(*options.shard)
    shuffled, in_turns = options.shuffle is not False, options.parallel_reads is not None
    single = shuffled or in_turns
    shuffle = stages.shuffler(options) if shuffled else None
    if shuffle is not None:
        files = shuffle(files, 1024)
    files = _together(files, 1 if in_turns else at_once, shuffled=shuffled)

    def runs(names: tf.Tensor, codecs: tf.Tensor) -> tf.data.Dataset:
        _mark_as_files(names)
        return _runs(names, codecs, options.settings)

    if in_turns:

        def records(names: tf.Tensor, codecs: tf.Tensor) -> tf.data.Dataset:
            return stages.records(runs(names, codecs), shuffled=False)

        found = interleaved(files, records, options)
    elif shuffled:
        found = stages.slices(files.interleave(runs, cycle_length=1).prefetch(READ_AHEAD))
    else:
        found = files.flat_map(runs).prefetch(READ_AHEAD)
    if shuffle is not None:
        window = options.window
        count = window.amount if window.unit == "records" else _SHUFFLE_RECORDS
        found = shuffle(found, count)
    return finish(found, options, single=single)


def check_sizes(dataset: Dataset, *, skip_corrupt: bool) -> None:
    """Check that a manifest's shards are as long as it says, because a stream ends where its file
    does. TruncatedRecordError for the first shorter one. With ``skip_corrupt`` a warning for each.
    """
    counted = [i for i, shard in enumerate(dataset.shards) if shard.records is not None]
    for index, info in look_at(dataset, counted).items():
        shard = dataset.shards[index]
        if info.size >= shard.nbytes:
            continue
        reason = ends_before(info.size, shard.nbytes, "its manifest")
        error = damaged(Reason.SHORT_FILE, reason, path=shard.url, offset=info.size)
        if not skip_corrupt:
            raise error
        warn(f"{error}: skipped", DataLossWarning)


def _together(files: tf.data.Dataset, count: int, *, shuffled: bool) -> tf.data.Dataset:
    """So many files in one element."""
    if not shuffled:
        return files.batch(count)
    files = _shared_out(files)
    if count == 1:
        return files
    groups = stages.in_batches(files, count)
    return groups.map(lambda *files: tuple(tf.reshape(part, [-1]) for part in files))


def _shared_out(files: tf.data.Dataset) -> tf.data.Dataset:
    """Shuffled ``files`` one by one, string [1], in a form in which tf.data service shares them
    out.

    An interleave does not tell its input which elements are this worker's. A shuffle makes its own
    input late, when it can no longer learn that, and then takes all elements. A concatenation keeps
    what it was given at the start. It has no end here, or it would drop the shuffle: the map ends,
    and keeps it. (`stages.until_error` is a scan, behind which `AutoShardPolicy.FILE` finds no
    files.)
    """
    if not MAPS_CAN_END:
        return files.concatenate(files.take(0)).batch(1)

    def one(name: tf.Tensor, codec: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        over = tf.logical_and(tf.equal(name, ""), tf.equal(codec, stages.END))
        nothing = ops.raise_error(tf.where(over, stages.END, ""), tf.constant(""))
        return tf.strings.join([name, nothing])[None], codec[None]

    ends = tf.data.Dataset.from_tensors(("", stages.END)).repeat()
    return map_in_parallel(files.concatenate(ends), one, 1, deterministic=True, ends=True)


def files_at_once(sizes: Sequence[int]) -> int:
    """How many files one scan reads, by their sizes in bytes. They are so few that
    `AutoShardPolicy.FILE` and tf.data service can share them out evenly."""
    mean = max(1, sum(sizes) // max(1, len(sizes)))
    return max(1, min(_SCAN_BYTES // mean, len(sizes) // _SCANS))


def _mark_as_files(names: tf.Tensor) -> None:
    """Let `AutoShardPolicy.FILE` find the files. In the function that is mapped over them, tf.data
    looks for one of its own readers of the argument. This one opens nothing."""
    tf.raw_ops.TFRecordDataset(filenames=names, compression_type="", buffer_size=0)


def _runs(names: tf.Tensor, codecs: tf.Tensor, settings: Settings) -> tf.data.Dataset:
    """The files' records, as string [n] tensors, in order."""
    runs = tf.TensorSpec([None], tf.string)
    return _scanned(settings, None, [names, codecs], runs)


def _scanned(
    settings: Settings, least: int | None, files: list[tf.Tensor], spec: tf.TensorSpec
) -> tf.data.Dataset:
    """The records that a step of `_reading` reads of ``files``, to their end.

    Errors of damage are raised by another scan behind it. So the first one goes on with the next
    file if nobody minds them: it would raise each again and again."""
    steps = tf.data.Dataset.range(np.iinfo(np.int64).max)
    state = [tf.constant(_BEGIN, tf.int64), tf.constant("")]
    specs = [spec, tf.TensorSpec([], tf.string)]
    read = stages.scanned(steps, _reading(settings, least), state, files, specs)
    return stages.scanned(read, _raising(spec), [tf.constant("")], [], [spec])


@lru_cache(maxsize=2)
def _raising(spec: tf.TensorSpec) -> Any:
    def step(none: tf.Tensor, found: tf.Tensor, error: tf.Tensor) -> tuple[tf.Tensor, ...]:
        return ops.raise_error(error, none), found

    text = tf.TensorSpec([], tf.string)
    return stages.concrete(step, text, spec, text)


@lru_cache(maxsize=16)
def _reading(settings: Settings, least: int | None = None) -> Any:
    """A step that reads on from a position: (file, records of it, byte offset or -1). It reads the
    given version of that file, or any for "". Of each file it takes name and codec, and for packs
    of at ``least`` so many records the name for errors."""
    read: Any = ops.read_stream if least is None else partial(ops.pack_stream, least=least)

    def step(
        position: tf.Tensor, version: tf.Tensor, number: tf.Tensor, *files: tf.Tensor
    ) -> tuple[tf.Tensor, ...]:
        del number
        found, held, after, error = read(*files, version, position, settings)
        return after, held, found, error

    position, number = tf.TensorSpec([3], tf.int64), tf.TensorSpec([], tf.int64)
    text, texts = tf.TensorSpec([], tf.string), tf.TensorSpec([None], tf.string)
    files = [texts] * (2 if least is None else 3)
    return stages.concrete(step, position, text, number, *files)


# Batches of files of which no blocks are known, without a record passing through TensorFlow.
#
#     files ─ packs of records, file by file ─ cut ─ batches of each ─ read
#
# A pack is one tensor of bytes (see ``ext/tensorflow/ops/op_pack.h``). One thread decompresses into
# packs ahead. A scan says where the batches lie in each, and keeps what fills none for the next.
# Then a call for each batch makes tensors of it; calls that also parse run several at once.


SMALL = 2 << 20
"""Bytes of files for which it takes longer to set these stages up than they spare."""

_MOST_CALLS = 4
"""Calls at once: one thread decompresses, and a few keep up with it."""

_BYTES = tf.TensorSpec([None], tf.uint8)
_NOTHING = np.zeros(0, np.uint8)


def can_batch_streams(options: Options, nbytes: int | None = None) -> bool:
    """Whether the ops make these batches of files, of ``nbytes`` in all if that is known. Smaller
    batches cost more to make than to put together."""
    return (
        (options.batch_size or 0) >= FEW
        and (nbytes is None or nbytes >= SMALL)
        and options.shuffle is False
        and options.parallel_reads is None
        and ops.bridge() == "native"
    )


def stream_batches(names: list[str], codecs: tf.Tensor, options: Options, *, at_once: int) -> Any:
    """Batches (or parsed batches) of files, ``at_once`` of which are read by one scan."""
    packs = _packs(_files(names, codecs, options).batch(at_once), options)
    ends = _ends(_files(names, codecs, options))
    cuts = _cut(packs.prefetch(READ_AHEAD).concatenate(ends), options)
    spec = options.feature_spec
    columns = None if spec is None else fused_columns(spec)
    known = options.batch_size if options.drop_remainder else None

    def read(batch: tuple[tf.Tensor, tf.Tensor], cut: tf.Tensor) -> Any:
        found = ops.read_pack(*batch, cut, None if columns is None else columns.attributes)
        if columns is not None:
            return columns.features(found, known)
        found[0].set_shape([known])
        return found[0]

    if columns is None:  # to make strings takes less than to hand each call to a thread
        return parsed(map_in_place(cuts, read).prefetch(READ_AHEAD), options)
    calls = min(_MOST_CALLS, 2 * cores())
    return map_in_parallel(cuts, read, calls, deterministic=options.deterministic)


def _files(names: list[str], codecs: tf.Tensor, options: Options) -> tf.data.Dataset:
    shown = stages.strings([redacted(name) for name in names])
    files = tf.data.Dataset.from_tensor_slices((stages.strings(names), codecs, shown))
    return files if options.shard is None else files.shard(*options.shard)


def _packs(files: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    size = options.batch_size
    assert size is not None

    def packs(names: tf.Tensor, codecs: tf.Tensor, shown: tf.Tensor) -> tf.data.Dataset:
        return _scanned(options.settings, size, [names, codecs, shown], _BYTES)

    return files.flat_map(packs)


def _ends(files: tf.data.Dataset) -> tf.data.Dataset:
    """Empty packs, without end if there is a file.

    They are made of files, as the packs are: so with tf.data service each worker that gets files
    gets an end of its own, however few they are.
    """

    def end(names: tf.Tensor, codecs: tf.Tensor, shown: tf.Tensor) -> tf.data.Dataset:
        del names, codecs, shown
        return tf.data.Dataset.from_tensors(tf.constant(_NOTHING)).repeat()

    return files.batch(1).flat_map(end).repeat()


def _cut(packs: tf.data.Dataset, options: Options) -> tf.data.Dataset:
    """((what is left of earlier packs, pack), batch) for each batch."""
    size = options.batch_size
    sizes = tf.constant([size, size if options.drop_remainder else 1], tf.int64)
    specs = [_BYTES, _BYTES, tf.TensorSpec([None, 4], tf.int64)]
    found = stages.scanned(packs, _cutting(), [tf.constant(_NOTHING)], [sizes], specs)

    def batches(left: tf.Tensor, pack: tf.Tensor, cuts: tf.Tensor) -> tf.data.Dataset:
        # the pack goes with each batch by reference
        together = tf.data.Dataset.from_tensors((left, pack)).repeat()
        return tf.data.Dataset.zip((together, tf.data.Dataset.from_tensor_slices(cuts)))

    return found.interleave(batches, cycle_length=1)


@lru_cache(maxsize=1)
def _cutting() -> Any:
    def step(left: tf.Tensor, pack: tf.Tensor, sizes: tf.Tensor) -> tuple[tf.Tensor, ...]:
        later, cuts = ops.cut_pack(left, pack, sizes)
        return later, left, pack, cuts

    return stages.concrete(step, _BYTES, _BYTES, tf.TensorSpec([2], tf.int64))

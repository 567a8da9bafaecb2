"""Stages of tf.data: the order of numbers (of blocks, batches or files), how a pipeline of them
ends, and maps that stay in their thread.

Many stages of tf.data drop their input once it has ended. With it they drop the state of its
shuffle: an iterator that is saved then has other epochs after the restore than before. Stages also
read ahead, so the input ends long before somebody takes the last record. Hence numbers never end.
Behind the last one comes `NOTHING`, again and again. One stage sees the end (`until_error`), and
keeps its input.
"""

from __future__ import annotations

import inspect
import secrets
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import map_op
from tensorflow.python.data.util import random_seed

from tfio_store.tf.dataset import ops
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.spans import MARKS, REPLACED

NOTHING = -1
END = "11:"
"""An error text for `ops.raise_error`: OUT_OF_RANGE. It ends a scan, as its input's end does."""


def strings(texts: Sequence[str] | Sequence[bytes]) -> tf.Tensor:
    """string [n], also of none."""
    return tf.constant(texts, tf.string, [len(texts)])


def numbers(count: int, options: Options, mark: int | None = None) -> tf.data.Dataset:
    """int64 []: the numbers below ``count`` that this shard has, in the wanted order. `marked`, if
    there is a ``mark``."""
    shards, index = options.shard or (1, 0)
    # not Dataset.shard, which takes every n-th of whatever tf.data service hands a worker
    mine = range(index, count, shards)
    found = tf.data.Dataset.range(index, count, shards) if mark is None else marked(mine, mark)
    if options.shuffle is False:
        return found
    return found.shuffle(
        max(len(mine), 1),
        seed=options.seed,
        reshuffle_each_iteration=options.reshuffle_each_iteration,
    )


def marked(groups: range, mark: int, together: int | None = None) -> tf.data.Dataset:
    """int64 []: numbers of ``groups``, as `group_of` takes them apart. So what is saved of them has
    the ``mark``. tf.data service hands out one by one, or so many ``together``."""
    start, stop, step = (MARKS * each for each in (groups.start, groups.stop, groups.step))
    start += mark
    if together is None or len(groups) <= together:
        return tf.data.Dataset.range(start, stop, step)
    run = together * step
    return _stage(
        tf.raw_ops.FlatMapDataset,
        tf.data.Dataset.range(start, stop, run),
        tf.TensorSpec([], tf.int64),
        other_arguments=[tf.constant([run, stop, step], tf.int64)],
        f=_handed_out_together(),
    )


def in_order(found: tf.data.Dataset, window: int) -> tf.data.Dataset:
    """The numbers, and NOTHING for ever: int64 [] for a window of 1, otherwise int64 [window]."""
    found = then(found, [], ends=True)
    return found if window == 1 else found.batch(window, drop_remainder=True)


def then(found: tf.data.Dataset, last: list[int], *, ends: bool) -> tf.data.Dataset:
    """The numbers, and ``last`` behind them. NOTHING follows for ever if that ``ends`` them.

    This is one concatenation. It keeps the state of a shuffle that is its first input; a
    concatenation of concatenations does not.
    """
    nothing = tf.data.Dataset.from_tensors(tf.constant(NOTHING, tf.int64)).repeat()
    if ends and not last:
        return found.concatenate(nothing)
    behind = tf.data.Dataset.from_tensor_slices(tf.constant(last, tf.int64, [len(last)]))
    return found.concatenate(behind.concatenate(nothing) if ends else behind)


def seeds(options: Options) -> tf.data.Dataset:
    """int64 [], without end. Each epoch has others, unless the options say no."""
    return tf.data.Dataset.random(
        options.seed, rerandomize_each_iteration=options.reshuffle_each_iteration
    )


class Shuffle:
    """`Dataset.shuffle` with seeds that are taken now, as TensorFlow takes them.

    All datasets that are made of one share a generator, as all views of one of TensorFlow's do: an
    iterator of any of them takes the next two numbers, which are the seeds of its epoch. What one
    saves and restores is the state of all.
    """

    def __init__(self, buffer: int, seed: Any = None, again: bool = True) -> None:
        self.buffer = buffer
        self.again = again
        """Whether each iterator has another order (``reshuffle_each_iteration``)."""
        numbers = random_seed.get_seed(seed)
        self.seeds: tuple[int, int] = int(numbers[0]), int(numbers[1])
        self.seeded = self.seeds != (0, 0)
        """Whether the order is known beforehand. Otherwise TensorFlow's kernel draws the seeds, and
        each view would have its own."""
        if not self.seeded:
            self.seeds = secrets.randbelow(1 << 31), 1 + secrets.randbelow(1 << 31)
        with tf.device("CPU:0"):
            self._generator = tf.raw_ops.AnonymousSeedGenerator(
                seed=self.seeds[0], seed2=self.seeds[1], reshuffle=again
            )

    def shuffled(self, found: tf.data.Dataset, buffer: int | None = None) -> tf.data.Dataset:
        """The elements of ``found``, shuffled by TensorFlow."""
        variant = tf.raw_ops.ShuffleDatasetV3(
            input_dataset=tf.data.experimental.to_variant(found),
            buffer_size=self.buffer if buffer is None else buffer,
            seed=self.seeds[0],
            seed2=self.seeds[1],
            seed_generator=self._generator.handle,
            reshuffle_each_iteration=self.again,
            **found._flat_structure,
        )
        made = tf.data.experimental.from_variant(variant, found.element_spec)
        made._generator = self._generator  # which is deleted with the last of its datasets
        return made

    def keys(self) -> tf.data.Dataset:
        """int64 [2], without end: the first are the numbers with which the epoch's order begins. An
        iterator of this takes an epoch's seeds as one of `shuffled` does."""
        if not self.again:
            return tf.data.Dataset.from_tensors(tf.zeros([2], tf.int64)).repeat()
        drawn = tf.raw_ops.RandomDatasetV2(
            seed=self.seeds[0],
            seed2=self.seeds[1],
            seed_generator=self._generator.handle,
            rerandomize_each_iteration=True,
            output_types=[tf.int64],
            output_shapes=[[]],
        )
        made = tf.data.experimental.from_variant(drawn, tf.TensorSpec([], tf.int64))
        found = made.batch(2, drop_remainder=True)
        found._generator = self._generator
        return found


def shuffler(options: Options) -> Callable[[tf.data.Dataset, int], tf.data.Dataset]:
    """Makes the shuffles of one dataset, each of so many elements, as ``options`` say.

    A shuffle makes its input when the first element is asked for, and drops it when it has read all
    of it, long before it has handed out the last one. A checkpoint from before or behind has no
    state of another shuffle in there. So all of them draw their seeds from one generator.
    """
    again = options.reshuffle_each_iteration
    if again and tf.executing_eagerly():
        return Shuffle(1, options.seed).shuffled
    return lambda found, buffer: found.shuffle(
        buffer, seed=options.seed, reshuffle_each_iteration=again
    )


def in_batches(
    found: tf.data.Dataset, size: int, *, drop_remainder: bool = False
) -> tf.data.Dataset:
    """As ``found.batch(size)``, but this keeps its input at the end, and with it the state of a
    shuffle. Threads hand each batch on, which takes two calls at once half as long as one."""
    return found.batch(
        size, drop_remainder=drop_remainder, num_parallel_calls=2, deterministic=True
    )


def slices(runs: tf.data.Dataset) -> tf.data.Dataset:
    """As ``runs.unbatch()``, but this keeps its input at the end."""
    spec = runs.element_spec
    return in_place(runs, _slicing(spec), [], tf.TensorSpec(spec.shape[1:], spec.dtype))


def in_place(
    found: tf.data.Dataset, step: Any, given: list[tf.Tensor], spec: tf.TensorSpec
) -> tf.data.Dataset:
    """The elements, of ``spec``, of the datasets that a ready step makes of each element of
    ``found``; this keeps its input at the end."""
    return _stage(
        tf.raw_ops.InterleaveDataset,
        found,
        spec,
        other_arguments=given,
        cycle_length=tf.constant(1, tf.int64),
        block_length=tf.constant(1, tf.int64),
        f=step,
    )


def when_asked(found: tf.data.Dataset) -> tf.data.Dataset:
    """The elements of ``found``. An iterator of it is made when somebody asks for the first one, as
    a shuffle makes that of its input: a shuffle in there takes its seeds then."""
    return found.shuffle(1, seed=1, reshuffle_each_iteration=False)


def records(runs: tf.data.Dataset, *, shuffled: bool) -> tf.data.Dataset:
    """The records of ``runs``, string [n], one by one. A stage that moves each out of its run,
    where `slices` copies it; but it gives its input up at the end, and so the state of a
    shuffle."""
    if shuffled:
        return slices(runs)
    # not Dataset.unbatch, which first maps a function that makes sparse tensors dense
    return _stage(tf.raw_ops.UnbatchDataset, runs, tf.TensorSpec([], tf.string))


def until_error(found: tf.data.Dataset, versions: tf.Tensor) -> tf.data.Dataset:
    """The tuples of ``found`` without their last part, a text: string []. A text that is not empty
    is an error, which is raised in the turn of the next tuple, or it is `END`. ``versions`` are of
    the files that it comes of."""
    *specs, _ = found.element_spec
    state = [tf.constant(""), versions]
    return scanned(found, _raising(tuple(specs)), state, [versions], specs)


def batches(
    runs: tf.data.Dataset, versions: tf.Tensor, size: int, *, drop_remainder: bool
) -> tf.data.Dataset:
    """``runs`` as `until_error` takes them, of string [n]: their records in batches, string
    [size]."""
    rows = tf.TensorSpec([None, size if drop_remainder else None], tf.string)
    state = [tf.constant(""), tf.constant([], tf.string), versions]
    given = [versions, tf.constant(size, tf.int64)]
    return slices(scanned(runs, _batching(drop_remainder), state, given, [rows]))


# What is saved of an iterator are numbers. They would go on in other files as well. So a state has
# the versions of the files too: where they were, and what was there. They stand beside the numbers,
# or, where no stage keeps a state but the numbers' own, as a mark in each number's last bits.


def other_versions(saved: tf.Tensor, now: tf.Tensor, otherwise: tf.Tensor) -> tf.Tensor:
    """An error text if a state was ``saved`` of other versions than those that are there ``now``,
    in the same place; else another text."""
    same_place, same_files = tf.equal(saved[0], now[0]), tf.equal(saved[1], now[1])
    return tf.where(tf.logical_and(same_place, tf.logical_not(same_files)), _REPLACED, otherwise)


_REPLACED = f"9:{REPLACED}"


def scanned(
    found: tf.data.Dataset, step: Any, state: list[tf.Tensor], given: list[tf.Tensor], specs: Any
) -> tf.data.Dataset:
    """`Dataset.scan` with a ready step, which may end it."""
    return _stage(
        tf.raw_ops.ScanDataset,
        found,
        specs[0] if len(specs) == 1 else tuple(specs),
        initial_state=state,
        other_arguments=given,
        f=step,
        preserve_cardinality=False,
    )


def _stage(op: Any, found: tf.data.Dataset, spec: Any, **given: Any) -> tf.data.Dataset:
    """What an op of `tf.raw_ops` makes of a dataset: elements of ``spec``."""
    specs = tf.nest.flatten(spec)
    variant = op(
        input_dataset=tf.data.experimental.to_variant(found),
        output_types=[each.dtype for each in specs],
        output_shapes=[each.shape for each in specs],
        **given,
    )
    return tf.data.experimental.from_variant(variant, spec)


def concrete(function: Any, *specs: tf.TensorSpec) -> Any:
    """A step for `scanned`. Keep it: TensorFlow's default graph keeps each one for good. It is
    marked as tf.data marks the functions that it traces, so that it is optimized when it is used,
    and not with each graph that has it."""
    marked = {"_tf_data_function": True}
    with tf.init_scope():
        step = tf.function(function, autograph=False, experimental_attributes=marked)
        return step.get_concrete_function(*specs)


_TEXT = tf.TensorSpec([], tf.string)
_VERSIONS = tf.TensorSpec([2], tf.string)
_RUN = tf.TensorSpec([None], tf.string)


@lru_cache(maxsize=1)
def _handed_out_together() -> Any:
    def step(start: tf.Tensor, bounds: tf.Tensor) -> tf.Tensor:
        run, stop, each = tf.unstack(bounds)
        return tf.data.experimental.to_variant(
            tf.data.Dataset.range(start, tf.minimum(start + run, stop), each)
        )

    return concrete(step, tf.TensorSpec([], tf.int64), tf.TensorSpec([3], tf.int64))


@lru_cache(maxsize=64)
def _slicing(spec: tf.TensorSpec) -> Any:
    def step(run: tf.Tensor) -> tf.Tensor:
        return tf.data.experimental.to_variant(tf.data.Dataset.from_tensor_slices(run))

    return concrete(step, spec)


@lru_cache(maxsize=8)
def _raising(specs: Sequence[tf.TensorSpec]) -> Any:
    def step(earlier: tf.Tensor, saved: tf.Tensor, *found: tf.Tensor) -> tuple[tf.Tensor, ...]:
        *values, error, now = found
        earlier = other_versions(saved, now, earlier)
        return ops.raise_error(earlier, error), saved, *values

    return concrete(step, _TEXT, _VERSIONS, *specs, _TEXT, _VERSIONS)


@lru_cache(maxsize=2)
def _batching(drop_remainder: bool) -> Any:
    def step(
        earlier: tf.Tensor,
        left: tf.Tensor,
        saved: tf.Tensor,
        run: tf.Tensor,
        error: tf.Tensor,
        now: tf.Tensor,
        size: tf.Tensor,
    ) -> tuple[tf.Tensor, ...]:
        earlier = other_versions(saved, now, earlier)
        records = tf.concat([left, run], 0)
        count = tf.size(records, tf.int64)
        if not drop_remainder:
            last = tf.logical_and(tf.equal(error, END), count > 0)
            size = tf.where(last, tf.minimum(size, tf.maximum(count, 1)), size)
        whole = count // size * size
        rows = tf.reshape(records[:whole], tf.stack([count // size, size]))
        return ops.raise_error(earlier, error), records[whole:], saved, rows

    size = tf.TensorSpec([], tf.int64)
    return concrete(step, _TEXT, _RUN, _VERSIONS, _RUN, _TEXT, _VERSIONS, size)


# `Dataset.map` for functions of one op that takes microseconds.
#
# A map hands each call to a thread, and that thread hands each op of the function to another.
# Waking them takes longer than reading a batch of short records. TensorFlow has switches against
# both, but hardly documents them. Where they are missing, maps work as usual.


def _switches(name: str) -> Collection[str]:
    kind = getattr(map_op, name, None)
    return () if kind is None else inspect.signature(kind.__init__).parameters.keys()


def _switched(name: str, **switches: bool) -> Callable[..., tf.data.Dataset] | None:
    """The dataset class of that name, with the switches on that it has."""
    kind = getattr(map_op, name, None)
    if kind is None:
        return None
    known = _switches(name)
    found = {switch: value for switch, value in switches.items() if switch in known}

    def build(dataset: tf.data.Dataset, function: Callable[..., Any], **given: Any) -> Any:
        plain = tf.autograph.experimental.do_not_convert(function)
        return kind(dataset, plain, **given, **found)

    return build


_COMMON = {"use_inter_op_parallelism": False, "preserve_cardinality": True}
_parallel = _switched("_ParallelMapDataset", **_COMMON)
_ending = _switched("_ParallelMapDataset", **{**_COMMON, "preserve_cardinality": False})
_in_place = _switched("_MapDataset", force_synchronous=True, **_COMMON)

STAYS_IN_PLACE = "force_synchronous" in _switches("_MapDataset")
"""Whether a map in place stays one. Otherwise TensorFlow may make it one of several calls at once,
in the threads that all share."""

MAPS_CAN_END = "preserve_cardinality" in _switches("_ParallelMapDataset")
"""Whether a map can be one whose function ends it, by OUT_OF_RANGE."""


def map_in_parallel(
    dataset: tf.data.Dataset,
    function: Callable[..., Any],
    calls: int,
    *,
    deterministic: bool | None,
    ends: bool = False,
) -> tf.data.Dataset:
    """As ``dataset.map(function, calls)``; each call stays in the thread that got it. With
    ``ends``, which needs `MAPS_CAN_END`, OUT_OF_RANGE ends it, and it keeps its input."""
    build = (_ending if ends else _parallel) or tf.data.Dataset.map
    return build(dataset, function, num_parallel_calls=calls, deterministic=deterministic)


def map_traced_in_parallel(
    dataset: tf.data.Dataset,
    step: Any,
    given: Sequence[tf.Tensor],
    spec: Any,
    calls: int,
    *,
    deterministic: bool | None,
) -> tf.data.Dataset:
    """As `map_in_parallel`, of a function that was traced before, and takes what is ``given`` as
    well."""
    return _stage(
        tf.raw_ops.ParallelMapDatasetV2,
        dataset,
        spec,
        other_arguments=list(given),
        num_parallel_calls=tf.constant(calls, tf.int64),
        f=step,
        use_inter_op_parallelism=False,
        deterministic={None: "default", True: "true", False: "false"}[deterministic],
        preserve_cardinality=True,
    )


def map_traced_in_turn(
    dataset: tf.data.Dataset, step: Any, given: Sequence[tf.Tensor], spec: Any
) -> tf.data.Dataset:
    """As `map_in_place`, of a function that was traced before, and takes what is ``given`` as well.
    No two calls run at once."""
    if STAYS_IN_PLACE:
        return _stage(
            tf.raw_ops.MapDataset,
            dataset,
            spec,
            other_arguments=list(given),
            f=step,
            use_inter_op_parallelism=False,
            preserve_cardinality=True,
            force_synchronous=True,
        )
    return map_traced_in_parallel(dataset, step, given, spec, 1, deterministic=True)


def map_in_place(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As ``dataset.map(function)``, in the thread of whoever asks for the element."""
    return (_in_place or tf.data.Dataset.map)(dataset, function)


def map_that_waits(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """As `map_in_place`, for a function that waits. Where maps do not stay in place, it holds one
    of the threads that all share, and no more of them."""
    if STAYS_IN_PLACE:
        return map_in_place(dataset, function)
    return map_in_parallel(dataset, function, 1, deterministic=True)

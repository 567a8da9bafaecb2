"""A dataset that knows its plan: what people write behind it becomes one op where that is the same.

Each step (`shuffle`, `map`, `batch`, …) makes a `PlannedDataset`, which remembers the step and the
dataset before it. Nothing is built before somebody needs it. Then the rules decide:

| step | behind | what it becomes |
| --- | --- | --- |
| ``shuffle(n)`` | records, mapped or not | windows of the op, if `batch` follows |
| ``map(f)`` | records | waits for `batch`; until then TensorFlow's |
| ``map(f)`` | records, mapped | the same, if f is element-wise |
| ``batch(n)`` | records | one call of the op for each batch |
| ``batch(n)`` | records of files in turns | the same, in TensorFlow's order |
| ``batch(n)`` | shuffled records | one call of the op for each batch of a window |
| ``batch(n)`` | mapped records | the same, parsed by columns, and the rest of f on columns |
| ``map(f)`` | batches of records | parsed by columns, the rest of f on these, as it stands |
| ``apply(parse_example_dataset(…))`` | batches of records | the same |
| ``repeat``, ``take``, ``skip`` | records, mapped or not | TensorFlow's; `batch` parses |
| ``apply(assert_cardinality(…))`` | records, mapped or not | the same |
| ``padded_batch(n)`` | elements that need no padding | as ``batch(n)`` |
| ``cache``, ``filter`` | records | TensorFlow's; a later `map` and `batch` parse |
| ``prefetch`` | records, mapped or not | nothing: what reads them reads ahead |
| ``with_options`` | anything | the plan goes on, and the options hold for all of it |
| ``interleave(f)``, ``flat_map(f)`` | names that are known | a source of all files (`.listed`) |
| any other | anything | TensorFlow's, over what is fused so far |

An interleave's order is TensorFlow's own, so only what is behind a shuffle is fused.

A function is read by `tfio_store.tf.dataset.record_function`. It waits only if it parses the record
by one `parse_example`, and the rest is element-wise. Where no op makes the batches (names that are
tensors, streams that are shuffled, records that were repeated), TensorFlow batches the records, and
they are parsed by the batch.

The plan ends, and TensorFlow's own step is taken, for whatever is not provably the same: a symbolic
size, ``reshuffle_each_iteration=False`` (several datasets may share one order), files that several
workers share out, `AutoShardPolicy.FILE`, debug mode, and graphs that are being built.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.data.experimental.ops.data_service_ops import ShardingPolicy
from tensorflow.python.data.ops import debug_mode
from tensorflow.python.data.util import nest
from tensorflow.python.eager import context

from tfio_store.storage.cores import cores
from tfio_store.tf.bridge import with_clear_errors
from tfio_store.tf.dataset.record_function import (
    NotElementwise,
    RecordFunction,
    Traced,
    read_function,
)
from tfio_store.tf.dataset.source import ListedFiles, NotFused, Source
from tfio_store.tf.dataset.stages import Shuffle

_Step = Callable[[tf.data.Dataset], tf.data.Dataset]
_TF = tf.data.Dataset
_FILE = tf.data.experimental.AutoShardPolicy.FILE
_FILE_POLICIES = (ShardingPolicy.FILE, ShardingPolicy.FILE_OR_DATA, ShardingPolicy.HINT)
"""These share out files, which blocks have none of."""
_DATA_POLICIES = (ShardingPolicy.DYNAMIC, ShardingPolicy.DATA)


@dataclass(frozen=True)
class Plan:
    """The steps of the records of ``source``, in the order of the fields."""

    source: Source | ListedFiles | None
    """None if a step of TensorFlow's has changed which records there are, or their order."""
    shuffle: Shuffle | None = None
    function: RecordFunction | None = None
    batch: tuple[int, bool] | None = None
    """So many records, and whether a last batch that is not full is dropped."""
    calls: tuple[Any, bool | None] = (None, None)
    """``num_parallel_calls`` and ``deterministic`` of the map whose function runs on batches."""

    def built(self) -> tuple[tf.data.Dataset, int | None]:
        """The dataset, and how many elements it has if TensorFlow does not know. NotFused if it is
        not one pipeline of ops."""
        if self.source is None:
            raise NotFused("a step of TensorFlow's changed the records or their order")
        if self.batch is None:
            raise NotFused("records one by one are TensorFlow's to hand on")
        options = replace(
            self.source.options,
            batch_size=self.batch[0],
            drop_remainder=self.batch[1],
            feature_spec=self.function,
        )
        if options.deterministic is None and self.calls[0] is None:
            options = replace(options, deterministic=True)  # one call after the other was asked for
        found, count, _ = self.source.fused(options, self.shuffle)
        if self.function is not None and not self.function.inline:
            rest = tf.autograph.experimental.do_not_convert(self.function.rest)
            found = _TF.map(found, rest, *self.calls)
        return found, count


_told: list[str] | None = None
"""What `stories` collects, if it was called."""


def stories() -> Callable[[], list[str]]:
    """From now on, keep what `PlannedDataset.explain` says of each dataset that is built. The
    answer gives them: those of whole pipelines, each once."""
    global _told
    _told = told = [] if _told is None else _told

    def found() -> list[str]:
        different = list(dict.fromkeys(told))
        return [
            each
            for each in different
            if not any(other.startswith(f"{each}\n") for other in different)
        ]

    return found


class PlannedDataset(tf.data.Dataset):  # type: ignore[misc]
    """A `tf.data.Dataset` that is built when it is needed, as the rules of this module say."""

    def __init__(
        self,
        plan: Plan | None,
        build: Callable[[], tf.data.Dataset],
        spec: Any = None,
        *,
        before: PlannedDataset | None = None,
        step: _Step | None = None,
        told: str = "",
    ) -> None:
        self._plan = plan
        self._make = build
        self._before = before
        self._step = step
        self._told = told
        self._why = ""
        self._spec = spec
        self._lock = threading.RLock()
        self._made: tf.data.Dataset | None = None
        self._own_records: tf.data.Dataset | None = None
        self._count: int | None = None
        self._eager = bool(context.executing_eagerly())
        super().__init__(None)
        if not context.executing_eagerly() or spec is None:
            self._build()

    # --- what tf.data asks of a dataset -----------------------------------------------------------

    def _build(self) -> tf.data.Dataset:
        with self._lock:
            if self._made is None:
                if context.executing_eagerly() or not self._eager:
                    self._made = self._make()
                else:  # it was made outside of the function that needs it
                    with context.eager_mode():
                        self._made = self._make()
                if _told is not None:
                    _told.append("\n".join(self._story(ends=True)))
            return self._made

    @property
    def _variant_tensor(self) -> tf.Tensor:
        return self._build()._variant_tensor

    def __iter__(self) -> Any:
        return with_clear_errors(super().__iter__())

    def _inputs(self) -> list[tf.data.Dataset]:
        return [] if self._before is None else [self._before]

    @property
    def element_spec(self) -> Any:
        """The type of an element, as of any `tf.data.Dataset`."""
        if self._spec is None:
            self._spec = self._build().element_spec
        return self._spec

    def cardinality(self) -> tf.Tensor:
        """Count the elements without reading them, as of any `tf.data.Dataset`."""
        # No assert_cardinality: a worker of tf.data service sees part of the elements, and it would
        # fail there.
        self._build()
        if self._count is None:
            return super().cardinality()
        return tf.constant(self._count, tf.int64)

    # --- steps ------------------------------------------------------------------------------------

    def shuffle(
        self,
        buffer_size: Any,
        seed: Any = None,
        reshuffle_each_iteration: Any = True,
        name: str | None = None,
    ) -> tf.data.Dataset:
        plan, size = self._open_plan(), integer(buffer_size)
        again = True if reshuffle_each_iteration is None else reshuffle_each_iteration
        known = isinstance(again, bool) and (seed is None or integer(seed) is not None)
        if plan is None or size is None or size < 1 or not known:
            return self._behind("shuffle", buffer_size, seed, reshuffle_each_iteration, name)
        shuffle = Shuffle(size, seed, again)
        told = f"shuffle({size})"
        # It leaves the order as it is. But a shuffle before it draws its seeds when the first
        # element is asked for, and not before.
        if size == 1 and plan.shuffle is None:
            return self._then(plan, shuffle.shuffled, told)
        if plan.source is None or plan.shuffle is not None:
            after = replace(plan, source=None, shuffle=None)
        else:
            after = replace(plan, shuffle=shuffle)
        return self._then(after, shuffle.shuffled, told)

    def map(
        self,
        map_func: Any,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        *others: Any,
        **more: Any,
    ) -> tf.data.Dataset:
        plan = self._open_plan(batched=True)
        given = [each for each in (*others, *more.values()) if each is not None]
        if num_parallel_calls is None:
            known = deterministic is None
        else:
            calls = integer(num_parallel_calls)
            known = calls is not None and (calls > 0 or calls == tf.data.AUTOTUNE)
            known = known and deterministic in (None, True, False)
        if plan is None or given or not known or (plan.batch and plan.function):
            return self._behind("map", map_func, num_parallel_calls, deterministic, *others, **more)
        traced = Traced(map_func, self)
        told, after = f"map({traced.name})", None
        try:
            function = _read(plan, traced)
            after = replace(plan, function=function, calls=(num_parallel_calls, deterministic))
        except NotElementwise as error:
            told += f": by TensorFlow: {error}"
        return self._then(
            after,
            lambda found: traced.map(found, num_parallel_calls, deterministic),
            told,
            traced.element_spec,
        )

    def batch(
        self,
        batch_size: Any,
        drop_remainder: Any = False,
        num_parallel_calls: Any = None,
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> tf.data.Dataset:
        found = self._batched(
            batch_size,
            drop_remainder,
            lambda found, size, drop: _TF.batch(
                found, size, drop, num_parallel_calls, deterministic
            ),
        )
        if found is not None:
            return found
        return self._behind(
            "batch", batch_size, drop_remainder, num_parallel_calls, deterministic, name
        )

    def padded_batch(
        self,
        batch_size: Any,
        padded_shapes: Any = None,
        padding_values: Any = None,
        drop_remainder: Any = False,
        name: str | None = None,
    ) -> tf.data.Dataset:
        found = None
        if padding_values is None and _is_padded(self.element_spec, padded_shapes):
            # not `batch`: TensorFlow runs a map before that ahead, and numbers are drawn in vain
            found = self._batched(
                batch_size,
                drop_remainder,
                lambda found, size, drop: _TF.padded_batch(found, size, drop_remainder=drop),
            )
        if found is not None:
            return found
        return self._behind(
            "padded_batch", batch_size, padded_shapes, padding_values, drop_remainder, name
        )

    def _batched(
        self, batch_size: Any, drop_remainder: Any, native: Callable[[Any, int, bool], Any]
    ) -> tf.data.Dataset | None:
        """Batches of a plan, or what ``native`` makes if it is not carried out. None if nobody can
        tell how they are batched."""
        plan, size, drop = self._open_plan(), integer(batch_size), _truth(drop_remainder)
        if plan is None or size is None or size < 1 or drop is None:
            return None
        made = self._then(
            replace(plan, batch=(size, drop)),
            lambda found: native(found, size, drop),
            f"batch({size})",
            nest.map_structure(lambda each: each._batch(size if drop else None), self.element_spec),
        )
        # Keras looks for these
        made._batch_size = tf.constant(size, tf.int64)
        made._drop_remainder = tf.constant(drop)
        return made

    def repeat(self, count: Any = None, name: str | None = None) -> tf.data.Dataset:
        known = count is None or integer(count) is not None
        return self._on_records("repeat", count, name, known=known)

    def take(self, count: Any, name: str | None = None) -> tf.data.Dataset:
        return self._on_records("take", count, name, known=integer(count) is not None)

    def skip(self, count: Any, name: str | None = None) -> tf.data.Dataset:
        # behind a map, TensorFlow runs the function on what is passed over, which may be an error
        known = integer(count) is not None
        return self._on_records("skip", count, name, known=known, mapped=False)

    def cache(self, filename: Any = "", name: str | None = None) -> tf.data.Dataset:
        known = isinstance(filename, str)
        return self._on_records("cache", filename, name, known=known, mapped=False)

    def filter(self, predicate: Any, name: str | None = None) -> tf.data.Dataset:
        plan = self._open_plan()
        if plan is None or plan.function is not None:
            return self._behind("filter", predicate, name)
        found = super().filter(predicate, name)  # traced now, and once
        return self._then(replace(plan, source=None, shuffle=None), lambda _: found, "filter")

    def prefetch(self, buffer_size: Any, name: str | None = None) -> tf.data.Dataset:
        plan = self._open_plan()
        if plan is None or integer(buffer_size) is None:
            return self._behind("prefetch", buffer_size, name)
        return self._then(plan, lambda found: _TF.prefetch(found, buffer_size, name), "prefetch")

    def with_options(self, options: Any, name: str | None = None) -> tf.data.Dataset:
        plan = self._open_plan(batched=True)
        options = tf.data.Options().merge(options)  # what is changed in them later means nothing
        if options.experimental_distribute.auto_shard_policy == _FILE:
            return _TF.with_options(self._plain(), options, name)
        if options.experimental_symbolic_checkpoint and self._takes_mixed_names():
            # such a state does not say in which order the names of this epoch came
            return _TF.with_options(self._plain(), options, name)
        if plan is None:
            return self._behind("with_options", options, name)
        found = self._then(plan, lambda d: _TF.with_options(d, options, name), "with_options")
        found._options_attr = self._options_attr.merge(options)
        found._options_attr._set_mutable(False)
        return found

    def apply(self, transformation_func: Any) -> tf.data.Dataset:
        if _shares_out(transformation_func, _FILE_POLICIES):
            return _TF.apply(self._plain(), transformation_func)
        if self._is_shuffled() and _shares_out(transformation_func, _DATA_POLICIES):
            return _TF.apply(self._plain(), transformation_func)  # one order has no shares
        if _serves_in_rounds(transformation_func):
            # it refuses what is known to end, which TensorFlow does not know of its own reader
            keep = tf.autograph.experimental.do_not_convert(lambda *_: True)
            return _TF.apply(_TF.filter(self, keep), transformation_func)
        if _is_made_by(transformation_func, "assert_cardinality"):
            return self._on_records("apply", transformation_func)
        plan, parser = self._open_plan(batched=True), _parser_of(transformation_func)
        if parser is None or plan is None or plan.batch is None or plan.function is not None:
            return super().apply(transformation_func)
        features, *how = parser
        return self.map(lambda records: tf.io.parse_example(records, features), *how)

    def ignore_errors(self, log_warning: bool = False, name: str | None = None) -> tf.data.Dataset:
        if self._is_shuffled():  # in TensorFlow's order without the records that damage takes
            return _TF.ignore_errors(self._plain(), log_warning, name)
        dataset = self if self._is_fused() else self._past_damage()
        if dataset is self:
            return self._behind("ignore_errors", log_warning, name)
        return _TF.ignore_errors(dataset, log_warning, name)

    def explain(self) -> str:
        """Explain what is fused, what is not, and why.

        Returns:
            str: A line for each step.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> print(tfs.TFRecordDataset("train").batch(5000).explain())
            TFRecordDataset
            batch(5000): fused: one call of an op makes each element
        """
        self._build()
        return "\n".join(self._story(ends=True))

    # --- the plan ---------------------------------------------------------------------------------

    def _story(self, *, ends: bool) -> list[str]:
        """A line for each step. ``ends``: the plan ends here, or before."""
        before = [] if self._before is None else self._before._story(ends=self._plan is None)
        return [*before, self._told + self._verdict() * ends]

    def _verdict(self) -> str:
        if self._plan is None or self._before is None:
            return ""
        if not self._why:
            return ": fused: one call of an op makes each element"
        return f": not fused: {self._why}"

    def _open_plan(self, *, batched: bool = False) -> Plan | None:
        """The plan, if a step may go on with it."""
        if self._plan is None or debug_mode.DEBUG_MODE or not context.executing_eagerly():
            return None
        return self._plan if batched or self._plan.batch is None else None

    def _then(self, plan: Plan | None, step: _Step, told: str, spec: Any = None) -> PlannedDataset:
        """The dataset behind one more step."""
        made: PlannedDataset

        def build() -> tf.data.Dataset:
            return made._fused_or(lambda: step(self))

        spec = self.element_spec if spec is None else spec
        made = PlannedDataset(plan, build, spec, before=self, step=step, told=told)
        return made

    def _on_records(
        self, told: str, *given: Any, known: bool = True, mapped: bool = True
    ) -> tf.data.Dataset:
        """TensorFlow's step, behind which a later `batch` still parses: if what is ``given`` is
        ``known`` now, and nothing is mapped so far, or it may be ``mapped``."""
        plan = self._open_plan()
        if plan is None or not known or (plan.function is not None and not mapped):
            return self._behind(told, *given)
        step = getattr(_TF, told)
        after = replace(plan, source=None, shuffle=None)
        return self._then(after, lambda found: step(found, *given), told)

    def _behind(self, told: str, *given: Any, **named: Any) -> tf.data.Dataset:
        """TensorFlow's own step, over what is fused so far. It can be explained as well."""
        found = getattr(_TF, told)(self, *given, **named)
        if debug_mode.DEBUG_MODE or not context.executing_eagerly():
            return found
        made = PlannedDataset(
            None,
            lambda: found,
            found.element_spec,
            before=self,
            step=lambda before: getattr(_TF, told)(before, *given, **named),
            told=f"{told}: by TensorFlow",
        )
        made._options_attr = found._options_attr
        for name in ("_batch_size", "_drop_remainder"):
            if hasattr(found, name):
                setattr(made, name, getattr(found, name))
        return made

    def _fused_or(self, native: Callable[[], tf.data.Dataset]) -> tf.data.Dataset:
        """The dataset that the plan makes; ``native`` where it makes none."""
        plan = self._plan
        if plan is None:
            return native()
        try:
            found, self._count = plan.built()
        except NotFused as error:
            self._why = str(error)
            if plan.batch is None or plan.function is None or not plan.function.single:
                return native()
            found = self._parsed_batches(plan, plan.function, *plan.batch)
        if self._options_attr != tf.data.Options():
            found = _TF.with_options(found, self._options_attr)
        return found

    def _parsed_batches(self, plan: Plan, function: RecordFunction, size: int, drop: bool) -> Any:
        """Batches that TensorFlow makes of records, parsed by the batch."""
        node = self
        while node._plan is not None and node._plan.batch is not None:
            assert node._before is not None
            node = node._before
        found = _TF.batch(node._records(), size, drop)
        parse = tf.autograph.experimental.do_not_convert(function.parse_batch)
        calls, deterministic = plan.calls
        self._why += "; but parsed by the batch"
        ordered = True if calls is None else deterministic
        return _TF.map(found, parse, cores(), ordered)

    def _records(self) -> tf.data.Dataset:
        """The records, without the functions mapped over them."""
        plan, before = self._plan, self._before
        if plan is None or plan.function is None or before is None:
            return self
        with self._lock:
            if self._own_records is None:
                mapped = before._plan is not None and before._plan.function is plan.function
                found = before._records()
                self._own_records = self._step(found) if mapped and self._step else found
            return self._own_records

    def _is_fused(self) -> bool:
        node = self
        while node._plan is None and node._before is not None:
            node = node._before
        node._build()
        return node._plan is not None and node._plan.batch is not None and not node._why

    def _takes_mixed_names(self) -> bool:
        """Whether its files come in another order in each epoch."""
        source = None if self._plan is None else self._plan.source
        if isinstance(source, ListedFiles) and source.turns.names is not None:
            return True
        return self._before is not None and self._before._takes_mixed_names()

    def _is_shuffled(self) -> bool:
        """Whether an op makes shuffled batches, here or before."""
        shuffled = self._plan is not None and self._plan.shuffle is not None
        return shuffled or (self._before is not None and self._before._is_shuffled())

    def _past_damage(self) -> tf.data.Dataset:
        """The same steps over a reader that goes on behind damage. One that does not would give the
        same error for good, since a scan that fails stays where it is."""
        if self._before is None or self._step is None:
            return self
        before = self._before._past_damage()
        return self if before is self._before else self._step(before)

    def _plain(self) -> tf.data.Dataset:
        """The same steps, all by TensorFlow."""
        if self._before is None or self._step is None:
            return self
        return self._step(self._before._plain())


def _read(plan: Plan, traced: Traced) -> RecordFunction:
    """The functions mapped so far, and one more. NotElementwise, with the reason, if that ends the
    plan."""
    if plan.function is not None:
        return plan.function.then(traced)
    return read_function(traced, single=plan.batch is None)


def integer(value: Any) -> int | None:
    """A number that is known now."""
    if isinstance(value, bool | np.bool_):
        return None
    if isinstance(value, int | np.integer):
        return int(value)
    if tf.is_tensor(value) and hasattr(value, "numpy") and value.dtype.is_integer:
        return int(value) if value.shape.rank == 0 else None
    return None


def _truth(value: Any) -> bool | None:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if tf.is_tensor(value) and hasattr(value, "numpy") and value.dtype == tf.bool:
        return bool(value) if value.shape.rank == 0 else None
    return None


def _is_padded(spec: Any, shapes: Any) -> bool:
    """Whether elements of this type have the shapes to which they are to be padded."""
    specs = nest.flatten(spec)
    if not all(isinstance(each, tf.TensorSpec) and each.shape.is_fully_defined() for each in specs):
        return False
    try:
        return shapes is None or all(
            not tf.is_tensor(shape) and tf.TensorShape(shape) == each.shape
            for shape, each in zip(nest.flatten_up_to(spec, shapes), specs, strict=True)
        )
    except (TypeError, ValueError):
        return False  # which TensorFlow's method says in its own words


def _is_made_by(transformation: Any, function: str) -> bool:
    """Whether a function of `tf.data.experimental` made what `apply` is given."""
    return str(getattr(transformation, "__qualname__", "")).startswith(f"{function}.<locals>")


def _parser_of(transformation: Any) -> list[Any] | None:
    """The arguments of `parse_example_dataset`, if it made this."""
    if not _is_made_by(transformation, "parse_example_dataset"):
        return None
    named = inspect.getclosurevars(transformation).nonlocals
    wanted = ("features", "num_parallel_calls", "deterministic")
    return [named[name] for name in wanted] if named.keys() >= set(wanted) else None


def _serves_in_rounds(transformation: Any) -> bool:
    """Whether it is tf.data service whose consumers each take an element of a round."""
    if not _is_made_by(transformation, "_distribute"):
        return False
    return inspect.getclosurevars(transformation).nonlocals.get("num_consumers") is not None


def _shares_out(transformation: Any, policies: tuple[Any, ...]) -> bool:
    """Whether it is tf.data service with one of these policies."""
    if "data_service_ops" not in getattr(transformation, "__module__", ""):
        return False
    cells = getattr(transformation, "__closure__", None) or ()
    return any(
        isinstance(cell.cell_contents, ShardingPolicy) and cell.cell_contents in policies
        for cell in cells
    )

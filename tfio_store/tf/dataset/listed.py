"""`list_files`, and what `interleave` and `flat_map` make of file names that are known."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import debug_mode
from tensorflow.python.eager import context

from tfio_store.dataset.source import files_of
from tfio_store.storage import Storage
from tfio_store.storage.cores import cores
from tfio_store.storage.storage import given_storage
from tfio_store.tf.dataset.options import Options
from tfio_store.tf.dataset.picks import FileTurns
from tfio_store.tf.dataset.plan import Plan, PlannedDataset, integer
from tfio_store.tf.dataset.record_function import behind
from tfio_store.tf.dataset.source import ListedFiles, known_names
from tfio_store.tf.dataset.stages import strings

_TF = tf.data.Dataset

_RECORD = tf.TensorSpec([], tf.string)

_READER_OPS = ("TfioStorePlainCodec",)
"""Ops that a reader of ours makes, and that are no datasets."""


@dataclass(frozen=True)
class Reading:
    """The files that a reader was asked to read while a function was traced."""

    reader: tf.data.Dataset
    filenames: Any
    codec: str | None
    """None if it, or anything else that is asked for, keeps the files from being read together."""
    storage: Storage | None
    options: Options


@dataclass
class _Notes(threading.local):
    lists: list[list[Reading]] = field(default_factory=list)


_notes = _Notes()


def note(make: Callable[[], Reading]) -> None:
    """Note what a reader reads, if it is to be noted."""
    if _notes.lists:
        _notes.lists[-1].append(make())


@contextmanager
def _noted() -> Iterator[list[Reading]]:
    _notes.lists.append([])
    try:
        yield _notes.lists[-1]
    finally:
        _notes.lists.pop()


def planned(
    names: list[str], traced: Callable[[], tf.data.Dataset], told: str, turns: FileTurns
) -> tf.data.Dataset:
    """The dataset of ``traced``, which is TensorFlow's `interleave` or `flat_map` over ``names``;
    with a plan, if it reads records. If it reads nothing but these files, the plan knows them.
    ``names`` is empty if they are not known.
    """
    with _noted() as readings:
        native = traced()
    if not readings or native.element_spec != _RECORD:
        return native
    mapped = getattr(native, "_map_func", None)
    files: ListedFiles | None = None
    if names and len(readings) == 1 and mapped and _hands_out(mapped.function.graph, readings[0]):
        (only,) = readings
        assert only.codec is not None
        files = ListedFiles(names, only.codec, only.storage, only.options, turns)
        told = f"{told} of {len(names)} files"
    found = PlannedDataset(Plan(files), lambda: native, _RECORD, told=told)
    if native.options() != tf.data.Options():
        found = found.with_options(native.options())
    return found


def _hands_out(graph: Any, reading: Reading) -> bool:
    """Whether a function makes the reader of its argument, and nothing else."""
    given = graph.inputs[: len(graph.inputs) - len(graph.captures)]
    if reading.codec is None or len(given) != 1 or len(graph.outputs) != 1:
        return False
    if not tf.is_tensor(reading.filenames) or behind(reading.filenames) is not given[0]:
        return False
    if behind(graph.outputs[0]) is not behind(reading.reader._variant_tensor):
        return False
    effects = [op.type for op in graph.get_operations() if op.op_def.is_stateful]
    readers = ("Placeholder", *_READER_OPS)
    return all(kind in readers or "Dataset" in kind for kind in effects)


def is_argument(tensor: Any) -> bool:
    """Whether a traced function was given it."""
    return not hasattr(tensor, "numpy") and behind(tensor).op.type == "Placeholder"


def turns_of(
    names: tf.data.Dataset | None,
    cycle_length: Any = None,
    block_length: Any = None,
    num_parallel_calls: Any = None,
    deterministic: Any = None,
    *_: Any,
    **__: Any,
) -> FileTurns:
    """How an `interleave` with these arguments reads files, whose order is that of ``names`` unless
    that is None."""
    cycle, length = integer(cycle_length), integer(1 if block_length is None else block_length)
    known = cycle is not None and cycle > 0 and length is not None and length > 0
    if cycle is None or length is None or not known:
        free = deterministic is False
        return FileTurns(names, cores(), max(1, length or 1), exact=free)
    return FileTurns(names, cycle, length)


class ListedNames(tf.data.Dataset):  # type: ignore[misc]
    """The names of files, string [], which are known before they are read."""

    def __init__(self, found: tf.data.Dataset, names: list[str], *, ordered: bool) -> None:
        self._found = found
        self.names = names
        self.ordered = ordered
        """Whether they come as in ``names`` in each epoch."""
        super().__init__(found._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return [self._found]

    @property
    def element_spec(self) -> Any:
        """The type of an element, as of any `tf.data.Dataset`."""
        return self._found.element_spec

    def shuffle(self, *given: Any, **named: Any) -> tf.data.Dataset:
        return ListedNames(super().shuffle(*given, **named), self.names, ordered=False)

    def prefetch(self, *given: Any, **named: Any) -> tf.data.Dataset:
        return ListedNames(super().prefetch(*given, **named), self.names, ordered=self.ordered)

    def shard(self, num_shards: Any, index: Any, name: str | None = None) -> tf.data.Dataset:
        found = super().shard(num_shards, index, name)
        known = isinstance(num_shards, int) and isinstance(index, int) and num_shards > 0
        if not self.ordered or not known:  # also SHARD_HINT, in whose place TensorFlow puts numbers
            return found
        return ListedNames(found, self.names[index::num_shards], ordered=True)

    def take(self, count: Any, name: str | None = None) -> tf.data.Dataset:
        found = super().take(count, name)
        if not self.ordered or not isinstance(count, int):
            return found
        return ListedNames(found, self.names[:count] if count >= 0 else self.names, ordered=True)

    def skip(self, count: Any, name: str | None = None) -> tf.data.Dataset:
        found = super().skip(count, name)
        if not self.ordered or not isinstance(count, int):
            return found
        return ListedNames(found, self.names[count:] if count >= 0 else [], ordered=True)

    @property
    def in_order(self) -> tf.data.Dataset | None:
        """What `FileTurns` takes: itself, unless the files always come in the same order."""
        return None if self.ordered else self._found

    def interleave(self, map_func: Any, *given: Any, **named: Any) -> tf.data.Dataset:
        return self._mapped(
            lambda: _TF.interleave(self, map_func, *given, **named),
            "interleave",
            turns_of(self.in_order, *given, **named),
        )

    def flat_map(self, map_func: Any, *given: Any, **named: Any) -> tf.data.Dataset:
        return self._mapped(
            lambda: _TF.flat_map(self, map_func, *given, **named),
            "flat_map",
            FileTurns(self.in_order),
        )

    def _mapped(self, traced: Callable[[], tf.data.Dataset], told: str, turns: FileTurns) -> Any:
        if not context.executing_eagerly() or debug_mode.DEBUG_MODE:
            return traced()
        return planned(self.names, traced, told, turns)


# `list_files`: `tf.data.Dataset.list_files` for globs on any storage.


def list_files(
    file_pattern: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | tf.Tensor,
    shuffle: bool | None = None,
    seed: int | None = None,
    name: str | None = None,
    *,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> tf.data.Dataset:
    """List the files of a source, as a dataset of strings with known cardinality.

    Args:
        file_pattern (str | PathLike | list | tf.Tensor): A path or URL with ``*``, ``?`` or
            ``[…]``, or any other name of a source (see `RecordReader`), or a list or tensor of
            these. Names that begin with "_" or "." match only patterns whose names do.
        shuffle (bool | None): Another order in each epoch. Default None: True. False sorts.
        seed (int | None): Of the shuffle. The same seed gives the same orders. Default None.
        name (str | None): As in TensorFlow. Default None.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        tf.data.Dataset: Of URLs (tf.string, shape []). They open the files, so they hold the
            user and password of a pattern that has them.

    Raises:
        FileNotFoundError: Nothing matches a pattern, or nothing has a name.
        TypeError: A tensor is not of strings, or only running a graph shows what is in it.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=3)
        >>> files = tfs.list_files("train-*.tfrecord")
        >>> len(files), len(list(tfs.TFRecordDataset(files)))
        (3, 3)
    """
    source: Any = file_pattern
    if any(map(tf.is_tensor, tf.nest.flatten(file_pattern))):
        source = known_names(file_pattern)
        if source is None:
            raise TypeError("file_pattern= is not known before the graph runs; give it as text")
    names = sorted(set(files_of(source, given_storage(storage_options, storage))))
    dataset = tf.data.Dataset.from_tensor_slices(strings(names), name=name)
    listed = ListedNames(dataset, names, ordered=True)
    if shuffle is None or shuffle:
        return listed.shuffle(max(len(names), 1), seed=seed, name=name)
    return listed

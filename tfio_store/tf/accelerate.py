"""`accelerate`: `tf.data.TFRecordDataset` plans ahead, in all code of this process.

TensorFlow's class is left in its place, because other modules hold it. What a call of it answers
is another: a `PlannedDataset` whose records TensorFlow's own reader reads. So nothing changes
but what the steps behind it are fused to. Remote files that TensorFlow could only reach through
`register_filesystem` are read as `TFRecordDataset` reads them, which takes fewer requests.

`Dataset.interleave` and `flat_map` are TensorFlow's too, and so is the older interleave that
`make_batched_features_dataset` uses. If their function reads records with that class, the dataset
that they make has a plan. If it does nothing else, and the names are known, the plan knows the
files.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import logging
import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import debug_mode
from tensorflow.python.data.ops.dataset_ops import DatasetV2
from tensorflow.python.data.ops.readers import ParallelInterleaveDataset, TFRecordDatasetV2

from tfio_store.dataset.header_walk import is_remote
from tfio_store.errors import TFIOStoreError
from tfio_store.records.compression import is_as_tensorflow
from tfio_store.storage import Storage
from tfio_store.tf.dataset.listed import (
    ListedNames,
    Reading,
    is_argument,
    note,
    planned,
    turns_of,
)
from tfio_store.tf.dataset.options import Options, Settings, check_compression, to_json
from tfio_store.tf.dataset.picks import FileTurns
from tfio_store.tf.dataset.plan import Plan, PlannedDataset
from tfio_store.tf.dataset.source import Source, known_names, workers
from tfio_store.tf.dataset.streams import plain_dataset, records_of
from tfio_store.tf.filesystem import storage_of


class _Patch(threading.local):
    native = False
    """This thread makes one of TensorFlow's own."""
    reached: _Reached | None = None
    """How the files are reached whose names the function that this thread traces is given."""


@dataclass(frozen=True)
class _Reached:
    """How TensorFlow reaches some files."""

    storage: Storage
    by_us: bool
    """Whether it has no filesystem of its own for them."""

    @classmethod
    def of(cls, names: Iterable[str]) -> _Reached | None:
        """None if no one storage reaches all of them."""
        schemes = {name.partition("://")[0] if is_remote(name) else "" for name in names}
        if len(schemes) != 1:
            return None
        (scheme,) = schemes
        storage = storage_of(scheme)
        alone = storage is not None or scheme not in tf.io.gfile.get_registered_schemes()
        return cls(storage or Storage(), bool(scheme) and alone)

    def options(self) -> Options:
        return Options(Settings(to_json(self.storage)))


_LOCAL = _Reached(Storage(), by_us=False)


_patch = _Patch()
_UNREADABLE = (OSError, TypeError, ValueError, TFIOStoreError)
"""TensorFlow says in its own words what is wrong."""

_ARGUMENTS = inspect.signature(TFRecordDatasetV2.__init__)

_lock = threading.Lock()
_asked = 0
_installed = False


class Accelerated:
    """The handle that `accelerate` returns. Behind ``with``, or `undo`, TensorFlow's class is as it
    was."""

    def __init__(self) -> None:
        self._done = False

    def undo(self) -> None:
        """Take back what this call of `accelerate` did. A second time changes nothing."""
        global _asked
        with _lock:
            if not self._done:
                self._done = True
                _asked -= 1

    def __enter__(self) -> Accelerated:
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()


def accelerate() -> Accelerated:
    """Let `tf.data.TFRecordDataset` fuse the steps that follow it, in all code of this process.

    That is `tf.data.TFRecordDataset` and `tf.compat.v1.data.TFRecordDataset`, also where a module
    has imported them before; and `Dataset.interleave` and `flat_map` of them over names that are
    known, from `list_files` or a list. Elements, their order, errors and checkpoints stay
    TensorFlow's. A file that changes after the dataset was made is
    an error where steps are fused. Remote files that TensorFlow itself can't read are
    read, and their errors told, as by `TFRecordDataset`, with the storage that their scheme was
    registered with, if it was (`register_filesystem`). Each call counts: what is accelerated twice
    is undone twice.

    Returns:
        Accelerated: Undoes it behind ``with``, or by its ``undo()``.

    Example:
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train", num_shards=1)
        >>> import tensorflow as tf
        >>> with tfs.accelerate():
        ...     dataset = tf.data.TFRecordDataset(tfs.list_files("train*", shuffle=False))
        >>> len(list(dataset.batch(2)))
        2
    """
    global _asked, _installed
    with _lock:
        _asked += 1
        if not _installed:
            _installed = True
            # it stays: Python can't take a __new__ away again
            TFRecordDatasetV2.__new__ = _new
            DatasetV2.interleave = _on_names(DatasetV2.interleave)
            DatasetV2.flat_map = _on_names(DatasetV2.flat_map)
            ParallelInterleaveDataset.__new__ = _new_interleave
            ParallelInterleaveDataset.__init__ = _init_once(ParallelInterleaveDataset.__init__)
            TFRecordDatasetV2.register(_PlannedReader)
            TFRecordDatasetV2.register(_OneReader)
            logging.getLogger("tfio_store").info(
                "tf.data.TFRecordDataset fuses the steps that follow it (tfio_store.accelerate)"
            )
    return Accelerated()


class _PlannedReader(PlannedDataset):
    """The records of TensorFlow's reader, with a plan."""


class _OneReader(tf.data.Dataset):  # type: ignore[misc]
    """The records of one file by TensorFlow's op. Its class makes four datasets for this, which a
    function that is mapped over files sets up again for each file."""

    def __init__(self, found: tf.data.Dataset) -> None:
        super().__init__(found._variant_tensor)

    def _inputs(self) -> list[tf.data.Dataset]:
        return []

    @property
    def element_spec(self) -> Any:
        """The type of an element, as of any `tf.data.Dataset`."""
        return tf.TensorSpec([], tf.string)


def _new(cls: Any, *given: Any, **named: Any) -> Any:
    if not _asked or cls is not TFRecordDatasetV2 or _patch.native:
        return object.__new__(cls)
    try:
        _ARGUMENTS.bind(None, *given, **named)
    except TypeError:  # TensorFlow says it of its own class
        return object.__new__(cls)
    made = (_planned if tf.executing_eagerly() else _of_one_name)(*given, **named)
    if made is None:
        made = object.__new__(cls)
    if not isinstance(made, PlannedDataset):
        note(lambda: _reading(made, *given, **named))
    return made


def _of_one_name(
    filenames: Any = None, compression_type: Any = None, *others: Any, **named: Any
) -> Any:
    """None where more is asked for."""
    given = [each for each in (*others, *named.values()) if each is not None]
    if given or not _is_known(compression_type) or not tf.is_tensor(filenames):
        return None
    if filenames.dtype != tf.string or filenames.shape.rank != 0:
        return None
    codec, reached = compression_type or "", _patch.reached or _LOCAL
    if reached.by_us and is_argument(filenames):
        return _OneReader(records_of(filenames, codec, reached.options()))
    return _OneReader(plain_dataset(filenames, codec))


def _reading(
    reader: Any, filenames: Any = None, compression_type: Any = None, *given: Any, **named: Any
) -> Reading:
    """The files that one of TensorFlow's own reads. Buffers and parallel reads make no other
    records."""
    codec = "" if compression_type is None else compression_type
    reached = _patch.reached or _LOCAL
    known = codec if _is_known(codec) else None
    return Reading(reader, filenames, known, reached.storage, reached.options())


def _on_names(method: Any) -> Any:
    """`Dataset.interleave`, `flat_map` or `ParallelInterleaveDataset`, with a plan where it reads
    files that are known."""

    @functools.wraps(method)
    def planning(self: Any, map_func: Any, *given: Any, **named: Any) -> Any:
        def traced(reached: _Reached = _LOCAL) -> Any:
            before, _patch.reached = _patch.reached, reached
            try:
                return method(self, map_func, *given, **named)
            finally:
                _patch.reached = before

        if not _asked or not tf.executing_eagerly() or debug_mode.DEBUG_MODE or workers() > 1:
            return traced()
        if isinstance(self, ListedNames) or tf.config.functions_run_eagerly():
            return traced()
        names, ordered = _names_of(self)
        reached = _Reached.of(names) if names else _LOCAL
        if reached is None:
            return traced()
        told, order = method.__name__, None if ordered else self
        turns = FileTurns(order) if told == "flat_map" else turns_of(order, *given, **named)
        if told == parallel_interleave.__name__ and turns.cycle > 1:
            turns = replace(turns, exact=False)  # an older interleave, whose turns are its own
        return planned(names, partial(traced, reached), f"{told} (TensorFlow's)", turns)

    return planning


def _new_interleave(cls: Any, *given: Any, **named: Any) -> Any:
    del cls
    return parallel_interleave(*given, **named)


@_on_names
def parallel_interleave(dataset: Any, *given: Any, **named: Any) -> Any:
    made = object.__new__(ParallelInterleaveDataset)
    ParallelInterleaveDataset.__init__(made, dataset, *given, **named)
    return made


def _init_once(init: Any) -> Any:
    """Python calls it again for what `_new_interleave` has made already."""

    @functools.wraps(init)
    def once(self: Any, *given: Any, **named: Any) -> None:
        if not hasattr(self, "_map_func"):
            init(self, *given, **named)

    return once


def _names_of(dataset: Any) -> tuple[list[str], bool]:
    """The strings of a dataset that `from_tensor_slices` or `list_files` made, and whether they
    come in this order. None of another."""
    ordered = True
    while type(dataset).__name__ in ("_ShuffleDataset", "_PrefetchDataset"):
        ordered = ordered and type(dataset).__name__ != "_ShuffleDataset"
        dataset = dataset._input_dataset
    tensors: list[Any] = getattr(dataset, "_tensors", [])
    if type(dataset).__name__ != "_TensorSliceDataset" or len(tensors) != 1:
        return [], ordered
    names = tensors[0]
    if not isinstance(dataset.element_spec, tf.TensorSpec) or not hasattr(names, "numpy"):
        return [], ordered
    if names.dtype != tf.string or names.shape.rank != 1:
        return [], ordered
    return [os.fsdecode(name) for name in names.numpy().tolist()], ordered


def _planned(
    filenames: Any = None,
    compression_type: Any = None,
    buffer_size: Any = None,
    num_parallel_reads: Any = None,
    name: Any = None,
) -> Any:
    """None where TensorFlow does what it does with such names, or must say what is wrong."""
    if workers() > 1 or not _is_known(compression_type) or tf.config.functions_run_eagerly():
        return None
    reads, automatic = num_parallel_reads, num_parallel_reads == tf.data.AUTOTUNE
    if not (_is_count(buffer_size) and (automatic or _is_count(reads))):
        return None
    try:
        codec = check_compression("" if compression_type is None else compression_type)
        names = [str(each) for each in known_names(filenames) or ()]
    except _UNREADABLE:
        return None
    if (reached := _Reached.of(names)) is None:
        return None
    options, source = replace(reached.options(), parallel_reads=reads), None
    with contextlib.suppress(*_UNREADABLE):
        source = Source.open(names, codec, reached.storage, options)
    if source is None or not source.is_as_named:
        return _told_when_read(names, codec, options) if reached.by_us else None

    def native() -> Any:  # only if nothing is fused: it is four datasets
        if reached.by_us:
            with contextlib.suppress(*_UNREADABLE):
                return source.prepare()()[0]
            return _told_when_read(names, codec, options)
        before, _patch.native = _patch.native, True
        try:
            given = [os.fsencode(each) for each in names]
            return TFRecordDatasetV2(given, codec, buffer_size, reads, name)
        finally:
            _patch.native = before

    spec = tf.TensorSpec([], tf.string)
    return _PlannedReader(Plan(source), native, spec, told="TFRecordDataset (TensorFlow's)")


def _told_when_read(names: list[str], codec: Any, options: Options) -> Any:
    """Files that only we can reach, and something is wrong: whoever reads them gets the storage's
    error in TensorFlow's words. TensorFlow would say that it does not know their scheme."""
    return _OneReader(Source(names, codec, options, [*names], None).prepare()()[0])


def _is_count(value: Any) -> bool:
    """Whether TensorFlow takes it for a buffer or parallel reads."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return value is None or (number and value > 0)


def _is_known(codec: Any) -> bool:
    """Whether both read such files alike."""
    return codec is None or (isinstance(codec, str) and is_as_tensorflow(codec))

"""`source`: the rows of a dataset as a `grain.MapDataset`, which reads many at a time.

Grain's ``batch`` asks for one element after another. Here each step of a chain knows how to give
many elements, and ``batch`` asks for all of a batch. Where only the order of rows was changed
before, a batch is made of columns: one read, one decode, no row of its own in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import grain
import numpy as np

from tfio_store.dataset.header_walk import is_remote
from tfio_store.dataset.model import CACHE_BUDGET, MEMORY_BUDGET, Dataset
from tfio_store.dataset.source import Source
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.grain.order import Order
from tfio_store.grain.records import Ahead, Records, elements, objects
from tfio_store.grain.states import Hosts, Identified, Shard
from tfio_store.loader.content import LoaderContent
from tfio_store.read.record_source import RecordSource
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage

_ROWS_AT_ONCE = 1024
_BYTES_AT_ONCE = 4 << 20
_BYTES_AT_RANDOM = 1 << 20
"""So much is read and decoded together at most, when rows or small batches are iterated. At random
each record may be a request, and the first batch waits for those of its group."""

_AHEAD = 2
"""So many such groups are read ahead …"""
_MOST_AHEAD = 8
"""… and up to so many from far away, of as many bytes …"""
_BYTES_AHEAD = 32 << 20
_ROWS_AHEAD = 2048
"""… and at random of as many rows: each may be a request."""


def source(
    source: Source,
    *,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    images: Mapping[str, Any] | None = None,
    shard: Shard = None,
    compression: str | None = "auto",
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    idx: Sequence[str] | None = None,
    cache_bytes: int = CACHE_BUDGET,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Rows:
    """Make a Grain dataset of rows, any of which is read by its number.

    ``shuffle``, ``repeat``, ``slice``, ``map``, ``filter``, ``batch`` and the others are Grain's,
    and ``grain.MapDataset.mix`` takes it. ``shuffle`` is a shuffle of all rows. What a batch holds
    is read by one round of requests, and decoded at once. ``to_iter_dataset`` reads some groups of
    rows ahead. Its states name the source, and one of another source is refused.

    A row is a dict of numpy values. A byte string or text is an array of shape (), which keeps
    zeros at its end; ``.item()`` gives the value. A null is None. A batch is a dict of columns, as
    `tfio_store.decode_examples` gives them: a feature of varying length is a `Ragged`.

    Args:
        source (str | PathLike | list): See `RecordSource`.
        schema (Schema | dict | str | None): What the records hold. "bytes": records come as they
            are, and a batch is an array of them. "auto": what the manifest says, or else what
            `infer_schema` finds in some records. Default None: what the manifest says, or
            TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): The features to decode. Default None: all of them.
        images (dict | None): Columns of encoded images to decode, and to which size:
            ``{"photo": (224, 224)}`` gives uint8 arrays [224, 224, 3], and [n, 224, 224, 3] in a
            batch. A dict in place of the size takes options of `tfio_store.image.decode`. A
            damaged image is an error that names its record. Default None.
        shard (ShardOptions | tuple[int, int] | None): This host's part, as
            ``grain.sharding.ShardByJaxProcess()`` or as (index, count). It is a run of the rows.
            With ``drop_remainder=True`` all parts are of the same size. Default None: all rows.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        idx (list[str] | None): See `RecordSource`. Default None.
        cache_bytes (int): See `RecordSource`; each worker has so much. Default 64 MiB.
        memory_budget (int): See `RecordSource`. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        grain.MapDataset: Of rows. It pickles small.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: A shard is a compressed stream that was not written in blocks (`stream` reads
            these), or an argument is not as described.
        KeyError: ``columns`` or ``images`` names no feature of the schema.
        DataLossError: While reading: a record or image is damaged. It gives path and offset.

    Example:
        >>> import tfio_store.grain
        >>> _ = tfs.write_table({"x": [10, 20, 30, 40], "name": ["a", "b", "c", "d"]}, "train")
        >>> rows = tfio_store.grain.source("train")
        >>> len(rows), rows[1]["x"].item(), rows[1]["name"].item()
        (4, 20, 'b')
        >>> batches = rows.shuffle(seed=1).batch(2)
        >>> sorted(x for batch in batches for x in batch["x"].tolist())
        [10, 20, 30, 40]
    """
    hosts = Hosts.of(shard)
    read = RecordSource(
        source,
        compression=compression,
        verify=verify,
        storage_options=storage_options,
        storage=storage,
        idx=idx,
        cache_bytes=cache_bytes,
        memory_budget=memory_budget,
        max_record_bytes=max_record_bytes,
    )
    records = Records(read, LoaderContent.of(source, read, schema, columns, images))
    rows = Rows(grain.MapDataset.source(records), records=records, order=Order(len(records)))
    return rows if hosts.count == 1 else rows.slice(hosts.part(len(records)))


def together(dataset: grain.MapDataset[Any]) -> Rows:
    """Make ``batch`` and ``to_iter_dataset`` of any dataset read many elements at a time.

    What `source` gives does so by itself. ``grain.MapDataset.mix``, ``concatenate`` and others make
    datasets of Grain's own, which read one row after another.

    Args:
        dataset (grain.MapDataset): A dataset over one or more of `source`.

    Returns:
        grain.MapDataset: The same elements.

    Example:
        >>> import grain
        >>> import tfio_store.grain
        >>> _ = tfs.write_table({"x": [1, 2, 3, 4]}, "train")
        >>> _ = tfs.write_table({"x": [10, 20, 30, 40]}, "other")
        >>> parts = [tfio_store.grain.source(name) for name in ("train", "other")]
        >>> mixed = tfio_store.grain.together(grain.MapDataset.mix(parts))
        >>> mixed.batch(4)[0]["x"].tolist()
        [1, 10, 2, 20]
    """
    return Rows(dataset)


class Rows(grain.MapDataset[Any]):  # type: ignore[misc]
    """A dataset of Grain's, and how to read many of its elements at a time. ``order``: which
    records these are, as long as nothing but that was changed."""

    def __init__(
        self,
        inner: grain.MapDataset[Any],
        *,
        records: Records | None = None,
        order: Order | None = None,
        rows_each: int = 1,
    ) -> None:
        super().__init__(inner)
        self._records = records
        self._order = order
        self._rows_each = rows_each
        """How many rows an element holds."""

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded (Schema | None). None: they come as bytes, or they were
        changed."""
        return None if self._records is None else self._records.schema

    @property
    def _nbytes_each(self) -> int:
        return 0 if self._records is None else self._records.nbytes_each

    def __len__(self) -> int:
        return len(self.parents[0])

    def __str__(self) -> str:
        return f"Rows({self.parents[0]})"

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.slice(index)
        if self._order is None:
            return self.parents[0][index]
        return self._getitems((index,))[0]

    def _getitems(self, indices: Sequence[int]) -> Sequence[Any]:
        if self._records is None or (numbers := self.numbers(indices)) is None:
            return elements(self.parents[0], indices)
        return self._records._getitems(numbers)

    def numbers(self, indices: Sequence[int]) -> Any:
        """The numbers of the records at these places. None: only Grain knows."""
        if self._order is None or _length(self) != self._order.size:
            return None
        return self._order.at(np.asarray(indices, np.int64))

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> Rows:
        grains = super().batch(batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)
        made = _Batches(self, grains, batch_size, batch_fn)
        return Rows(made, rows_each=self._rows_each * batch_size)

    def shuffle(self, seed: int | None = None) -> Rows:
        grains = self._order_of_rows().shuffle(seed)
        seed = seed if seed is not None else getattr(grains, "_seed", None)
        return self._reordered(grains, None if seed is None else _order(self, "shuffled", seed))

    def slice(self, sl: Any) -> Rows:
        return self._reordered(self._order_of_rows().slice(sl), _order(self, "sliced", sl))

    def repeat(self, num_epochs: int | None = None, *, reseed_each_epoch: bool = True) -> Rows:
        grains = self._order_of_rows().repeat(num_epochs, reseed_each_epoch=reseed_each_epoch)
        return self._reordered(grains, _order(self, "repeated", reseed_each_epoch))

    def seed(self, seed: int) -> Rows:
        return self._reordered(self._order_of_rows().seed(seed), self._order)

    def filter(self, transform: Any) -> Rows:
        return self._changed(super().filter(transform))

    def map(self, transform: Any) -> Rows:
        return self._changed(super().map(transform))

    def map_with_index(self, transform: Any) -> Rows:
        return self._changed(super().map_with_index(transform))

    def random_map(self, transform: Any, *, seed: int | None = None) -> Rows:
        return self._changed(super().random_map(transform, seed=seed))

    def to_iter_dataset(
        self, read_options: grain.ReadOptions | None = None, *, allow_nones: bool = False
    ) -> grain.IterDataset[Any]:
        sources = _unchanged(self)
        nbytes = max((rows._nbytes_each for rows in sources), default=0)
        at_random = any(rows._order is None or rows._order.is_shuffled for rows in sources)
        most = _BYTES_AT_RANDOM if at_random else _BYTES_AT_ONCE
        rows = min(_ROWS_AT_ONCE, most // max(1, nbytes))
        count = max(1, rows // self._rows_each)
        if read_options is None:
            read_options = grain.ReadOptions(num_threads=1, prefetch_buffer_size=2)
        ahead = 0
        if read_options.num_threads and read_options.prefetch_buffer_size:
            most = _BYTES_AHEAD // max(1, nbytes)
            most = min(most, _ROWS_AHEAD) if at_random else most
            far = any(is_remote(files.shard(0).url) for files in datasets(self) if files.shards)
            ahead = max(_AHEAD, far * min(_MOST_AHEAD, most // (count * self._rows_each)))
        reading = Ahead(self, count, ahead).to_iter_dataset(read_options, allow_nones=allow_nones)
        return Identified(reading, identity(self), datasets(self))

    def _order_of_rows(self) -> Any:
        """Grain's own dataset, which decides the order. Its seeds are those of Grain alone."""
        return self.parents[0]

    def _reordered(self, grains: Any, order: Order | None) -> Rows:
        return Rows(grains, records=self._records, order=order, rows_each=self._rows_each)

    def _changed(self, grains: Any) -> Rows:
        return Rows(grains, rows_each=self._rows_each)


class _Batches(grain.MapDataset[Any]):  # type: ignore[misc]
    """The batches of Grain's ``batch``, read many rows at a time."""

    def __init__(self, rows: Rows, grains: Any, size: int, batch_fn: Any) -> None:
        super().__init__(grains)
        self._rows, self._size, self._batch_fn = rows, size, batch_fn

    def __len__(self) -> int:
        return len(self.parents[0])

    def __str__(self) -> str:
        return str(self.parents[0])

    def __getitem__(self, index: Any) -> Any:
        return self.slice(index) if isinstance(index, slice) else self._getitems((index,))[0]

    def _getitems(self, indices: Sequence[int]) -> list[Any]:
        spans = [self._span(index) for index in indices]
        nothing = np.empty(0, np.int64)
        wanted: Any = np.concatenate([nothing, *(np.arange(*span) for span in spans)])
        bounds = np.cumsum([0, *(stop - start for start, stop in spans)]).tolist()
        cuts = list(pairwise(bounds))
        records, numbers = self._rows._records, self._rows.numbers(wanted)
        if self._batch_fn is None and records is not None and numbers is not None:
            decoded = records.decoded(numbers)
            return [records.batch(records.cut(decoded, *cut)) for cut in cuts]
        found = elements(self._rows, [int(number) for number in wanted])
        together = self._batch_fn or _stacked
        return [together(found[slice(*cut)]) for cut in cuts]

    def _span(self, index: int) -> tuple[int, int]:
        """Grain cuts each epoch into batches by itself."""
        rows = len(self._rows)
        epoch, inside = divmod(index, max(1, len(self)))
        start = epoch * rows + inside * self._size
        return start, min(start + self._size, (epoch + 1) * rows)


def _stacked(rows: Sequence[Any]) -> Any:
    """A batch of rows that were changed, as Grain makes it."""
    whole = [_whole(row) for row in rows]
    return grain.experimental.batch_and_pad(whole, batch_size=len(whole))


def _whole(value: Any) -> Any:
    """Byte strings and texts as arrays that keep the zeros at their ends."""
    if isinstance(value, bytes | str):
        return objects([value])[0, ...]
    if isinstance(value, dict):
        return {name: _whole(part) for name, part in value.items()}
    return value


def _order(rows: Rows, step: str, argument: Any) -> Order | None:
    """The order behind one more step. None: only Grain knows."""
    if rows._order is None:
        return None
    if step == "shuffled":
        return rows._order.shuffled(int(argument), len(rows))
    if step == "sliced":
        return rows._order.sliced(argument, len(rows))
    return rows._order.repeated(len(rows), argument)


def _length(rows: Rows) -> int:
    """How many records Grain reads. Its worker may have a part of them only."""
    dataset: Any = rows
    while dataset.parents:
        dataset = dataset.parents[0]
    return len(dataset)


def _unchanged(dataset: Any) -> list[Rows]:
    """The rows of sources that a dataset is made of, before anything but their order changed."""
    if isinstance(dataset, Rows) and dataset._records is not None:
        return [dataset]
    return [found for parent in dataset.parents for found in _unchanged(parent)]


def datasets(dataset: Any) -> list[Dataset]:
    """The files that a dataset reads."""
    return [rows._records.dataset for rows in _unchanged(dataset) if rows._records is not None]


def identity(dataset: Any) -> str:
    """The source and the order of a dataset, as they are in a state."""
    found = [repr(rows._records) for rows in _unchanged(dataset)]
    return ", ".join(found) or "no source of tfio_store"


# `elastic`: batches that any number of hosts goes on with.


def elastic(
    dataset: grain.MapDataset[Any],
    global_batch_size: int,
    *,
    shard: Shard = None,
    read_options: grain.ReadOptions | None = None,
    multiprocessing_options: grain.MultiprocessingOptions | None = None,
) -> grain.IterDataset[Any]:
    """Make each host's part of batches, so that any number of hosts goes on from a state.

    It is Grain's ``ElasticIterator``, whose states here name the source too. All hosts have the
    same state after the same number of steps. The hosts that go on may be more or fewer, and their
    global batches of another size. Rows that make no whole batch are left out at the end, and one
    host may then end a batch before another. After ``repeat()`` there is no end.

    Args:
        dataset (grain.MapDataset): What `source` gave, perhaps shuffled, repeated and mapped, and
            neither batched nor sharded.
        global_batch_size (int): The rows of a batch on all hosts together. A multiple of their
            number.
        shard (ShardOptions | tuple[int, int] | None): This host, as
            ``grain.sharding.ShardByJaxProcess()`` or as (index, count). Default None: the only one.
        read_options (grain.ReadOptions | None): Grain's. Default None: a few groups of rows are
            read ahead.
        multiprocessing_options (grain.MultiprocessingOptions | None): Grain's. Default None: no
            worker processes.

    Returns:
        grain.IterDataset: Of batches of this host. Its iterator has ``get_state`` and
        ``set_state``.

    Raises:
        ValueError: ``global_batch_size`` is no multiple of the number of hosts, or the dataset is
            filtered. With ``set_state``: the state is of another source.

    Example:
        >>> import tfio_store.grain
        >>> _ = tfs.write_table({"x": list(range(12))}, "train")
        >>> rows = tfio_store.grain.source("train").shuffle(seed=1)
        >>> two = [iter(tfio_store.grain.elastic(rows, 4, shard=(i, 2))) for i in range(2)]
        >>> given = [x for host in two for x in next(host)["x"].tolist()]
        >>> one = iter(tfio_store.grain.elastic(rows, 4))
        >>> one.set_state(two[0].get_state())
        >>> sorted(given + [x for batch in one for x in batch["x"].tolist()])
        [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    hosts = Hosts.of(shard)
    if global_batch_size < 1 or global_batch_size % hosts.count:
        raise ValueError(
            f"global_batch_size= takes a multiple of the {hosts.count} hosts, not "
            f"{global_batch_size}"
        )
    how = {
        "global_batch_size": global_batch_size,
        "shard_options": grain.sharding.ShardOptions(hosts.index, hosts.count),
        "read_options": read_options or grain.ReadOptions(num_threads=1, prefetch_buffer_size=2),
        "multiprocessing_options": multiprocessing_options,
    }
    return Identified(_Elastic(dataset, how), identity(dataset), datasets(dataset))


class _Elastic(grain.IterDataset[Any]):  # type: ignore[misc]
    """Makes an iterator of Grain's for each pass. Grain's own dataset has one for all of them."""

    def __init__(self, dataset: grain.MapDataset[Any], how: dict[str, Any]) -> None:
        super().__init__()
        self._dataset, self._how = dataset, how
        self._made()

    def _made(self) -> Any:
        return grain.experimental.ElasticIterator(self._dataset, **self._how)

    def __iter__(self) -> grain.DatasetIterator[Any]:
        made: grain.DatasetIterator[Any] = iter(self._made())
        return made

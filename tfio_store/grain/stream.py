"""`stream`: a source as a `grain.IterDataset`, shared among hosts and workers by blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import grain

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.model import MEMORY_BUDGET
from tfio_store.dataset.source import Source
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.grain.records import objects, rows_of, threads_of
from tfio_store.grain.states import Hosts, Shard, Standing, check_source, resharded
from tfio_store.loader.content import LoaderContent, Reader, reader_of
from tfio_store.loader.packed_rows import gathered
from tfio_store.loader.packing import Packing, packing_of
from tfio_store.read.mixture import Mixture
from tfio_store.read.reader import OnCorrupt
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.one_thread import OneThread
from tfio_store.storage import Storage


def stream(
    source: Source | Mixture,
    *,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    images: Mapping[str, Any] | None = None,
    pack: Packing | str | Sequence[str] | None = None,
    length: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    window: int = 16,
    num_epochs: int | None = 1,
    shard: Shard = None,
    resume: Sequence[Mapping[str, Any]] | None = None,
    compression: str | None = "auto",
    verify: bool = True,
    on_corrupt: OnCorrupt = "raise",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Stream:
    """Make a Grain dataset that reads a source from its beginning to its end, by blocks.

    It takes what `source` does not: compressed files of others, which are streams, and mixtures of
    `tfio_store.mix`. Hosts and workers of ``mp_prefetch`` share out the blocks. All of them
    together give each record once in an epoch, also when they are more than there are files.

    Rows and batches are as `source` describes them. ``batch``, when nothing was changed before it,
    takes them from decoded blocks.

    ``metrics()`` of an iterator tells what its epoch has read and decoded so far, as
    `RecordReader.metrics` does, and ``decode_s``, the seconds that threads made columns and pixels.

    ``get_state`` of an iterator returns the place of the very next row, and ``set_state`` goes on
    there with as many hosts and workers. On other numbers of them, ``resume=`` goes on.

    Args:
        source (str | PathLike | list | Mixture): See `RecordReader`; or what `tfio_store.mix` made,
            which takes the reader's options then.
        schema (Schema | dict | str | None): See `source`. Default None.
        columns (list[str] | None): The features to decode. Default None: all of them.
        images (dict | None): See `source`. If ``on_corrupt`` is not "raise", zeros stand in the
            place of a damaged image, with a `DataLossWarning`. Default None.
        pack (str | list[str] | Packing | None): The feature of tokens, of which rows of ``length``
            are made: they have ``segment_ids`` and ``positions`` beside it. It is short for
            ``Packing(pack, length)``, which has more to choose. Default None.
        length (int | None): The tokens of a row, if ``pack`` is no Packing. Default None.
        shuffle (bool): Give the records in another random order in each epoch; see
            `RecordReader.shuffle`. Default False.
        seed (int): The same seed gives the same orders. All hosts need the same. Default 0.
        window (int): MiB of records that are shuffled together in memory, in each worker. Default
            16.
        num_epochs (int | None): How often to give each record. None: on and on. Default 1.
        shard (ShardOptions | tuple[int, int] | None): This host's part, as
            ``grain.sharding.ShardByJaxProcess()`` or as (index, count). With
            ``drop_remainder=True`` all shares have the same number of records. Default None: all.
        resume (list[dict] | None): The states that the iterators of all hosts gave after the same
            step. What they have not given is shared out anew. Default None: from the beginning.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        memory_budget (int): See `RecordReader`; each worker has so much. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        grain.IterDataset: Of rows.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: An argument is not as described, or ``resume`` lacks the state of a host or is
            of another source.
        KeyError: ``columns`` or ``images`` names no feature of the schema.
        DataLossError: While iterating: a record or image is damaged. It gives path and offset.

    Example:
        >>> import tfio_store.grain
        >>> _ = tfs.write_table({"x": list(range(6))}, "train", max_shard_bytes=1)
        >>> iterator = iter(tfio_store.grain.stream("train").batch(2))
        >>> next(iterator)["x"]
        array([0, 1])
        >>> states = [iterator.get_state()]
        >>> for host in range(2):
        ...     rest = tfio_store.grain.stream("train", shard=(host, 2), resume=states)
        ...     print([batch["x"].tolist() for batch in rest.batch(2)])
        [[2, 4]]
        [[3, 5]]
    """
    if num_epochs is not None:
        check_positive("num_epochs=", num_epochs, also=", or None")
    reader = reader_of(
        source,
        compression=compression,
        verify=verify,
        on_corrupt=on_corrupt,
        storage_options=storage_options,
        storage=storage,
        memory_budget=memory_budget,
        max_record_bytes=max_record_bytes,
    )
    skips = on_corrupt != "raise"
    packing = packing_of(pack, length)
    content = LoaderContent.of(
        source, reader, schema, columns, images, skips=skips, packing=packing
    )
    course = _Course(reader, (seed, window) if shuffle else None, Hosts.of(shard), resume)
    course.share(0, 0, 1).num_records  # noqa: B018 - walks files that need it, here and not in each worker
    course.begin(course.hosts.index, course.hosts.count)  # so that a wrong state fails at once
    return Stream(course, content, num_epochs)


class _Course:
    """The source that is read, in which order, and by which hosts."""

    def __init__(
        self,
        reader: Reader,
        shuffle: tuple[int, int] | None,
        hosts: Hosts,
        resume: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        self.reader = reader
        self.shuffle = shuffle
        self.hosts = hosts
        self.resume = None if resume is None else list(resume)
        state = reader.state()
        self.source = str(state.get("mixture", state.get("source")))

    def share(self, epoch: int, index: int, count: int) -> Reader:
        """A reader of one share, at the beginning of an epoch."""
        reader = self.reader
        if self.shuffle is not None:
            seed, window = self.shuffle
            reader = reader.shuffle(seed, epoch=epoch, window=window)
        return reader.shard(index, count, even="drop" if self.hosts.even else None)

    def begin(self, index: int, count: int, states: Any = None) -> Standing:
        """Where a share begins."""
        states = states or self.resume
        if states is None:
            return Standing(self.source, index, count)
        return resharded(states, self.source, index, count, self.share)


class Stream(grain.IterDataset[Any]):  # type: ignore[misc]
    """The rows of a source, or batches of them. Grain's workers say by ``set_slice`` which part
    is theirs."""

    def __init__(
        self,
        course: _Course,
        content: LoaderContent,
        num_epochs: int | None,
        worker: tuple[int, int] = (0, 1),
        batch: tuple[int, bool] | None = None,
    ) -> None:
        super().__init__()
        self._course = course
        self._content = content
        self._num_epochs = num_epochs
        self._worker = worker
        self._batch = batch

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded (Schema | None). None: records come as bytes."""
        return self._content.schema

    def set_slice(self, sl: slice, sequential_slice: bool = False) -> None:
        """Take one worker's part of this part. Blocks are shared out either way."""
        index, count = self._worker
        self._worker = index + count * sl.start, count * sl.step

    def batch(
        self,
        batch_size: int,
        *,
        drop_remainder: bool = False,
        batch_fn: Callable[[Sequence[Any]], Any] | None = None,
    ) -> grain.IterDataset[Any]:
        if batch_fn is not None or self._batch is not None:
            return super().batch(batch_size, drop_remainder=drop_remainder, batch_fn=batch_fn)
        check_positive("batch_size=", batch_size)
        batch = batch_size, drop_remainder
        return Stream(self._course, self._content, self._num_epochs, self._worker, batch)

    def __iter__(self) -> grain.DatasetIterator[Any]:
        index, count = self._worker
        hosts = self._course.hosts
        place = hosts.index * count + index, hosts.count * count
        how = self._content, self._num_epochs, self._batch, threads_of(count)
        return _StreamIterator(self._course, place, *how)

    def __str__(self) -> str:
        return f"Stream({self._course.reader!r})"


class _StreamIterator(grain.DatasetIterator[Any]):  # type: ignore[misc]
    """One share. Nothing is read before the first row."""

    def __init__(
        self,
        course: _Course,
        place: tuple[int, int],
        content: LoaderContent,
        num_epochs: int | None,
        batch: tuple[int, bool] | None,
        threads: int | None,
    ) -> None:
        super().__init__()
        self._course, self._content, self._num_epochs = course, content, num_epochs
        self._place, self._batch, self._threads = place, batch, threads
        self._begun: Standing | None = None
        """Where the share stood when its epoch, or this iterator, began. None: the beginning."""
        self._resumed: Any = None
        """The source of a state of the beginning, if it is not that of the dataset."""
        self._steps: _Steps | None = None
        self._turn = OneThread("the stream's iterator")

    def __next__(self) -> Any:
        with self._turn:
            return self._next()

    def _next(self) -> Any:
        while True:
            begun = self._standing()
            if self._num_epochs is not None and begun.epoch >= self._num_epochs:
                raise StopIteration
            if self._steps is None:
                self._steps = self._opened(begun)
            found = self._steps.step()
            if found is not None:
                return found
            nothing = not self._steps.given and begun.reader is None
            self._steps, self._begun = None, _behind(begun)
            if nothing and self._num_epochs is None:
                raise StopIteration  # each epoch would be empty

    def _standing(self) -> Standing:
        if self._begun is None:
            self._begun = self._course.begin(*self._place, self._resumed)
        return self._begun

    def _opened(self, begun: Standing) -> _Steps:
        shares = partial(self._course.share, begun.epoch)
        how = self._content, self._batch, self._threads
        return _Steps(shares, self._place, begun.reader, *how)

    def metrics(self) -> dict[str, float]:
        """What this epoch has read so far, and what it took; see `RecordReader.metrics`."""
        return {} if self._steps is None else self._steps.metrics()

    def get_state(self) -> dict[str, Any]:
        if self._begun is None:
            resumed = self._resumed or self._course.resume or ()
            return Standing(self._course.source, resumed=resumed).to_json()
        if self._steps is None:
            return self._begun.to_json()
        if self._steps.over:
            return _behind(self._begun).to_json()
        begun = self._begun
        index, count = self._place
        now = Standing(begun.source, index, count, begun.epoch, self._steps.state(), begun.later)
        return now.to_json()

    def set_state(self, state: Mapping[str, Any]) -> None:
        found = Standing.from_json(state)
        check_source(found, self._course.source)
        if found.count and (found.index, found.count) != self._place:
            index, count = self._place
            raise ValueError(
                f"the state is of share {found.index} of {found.count}, and this is share {index} "
                f"of {count}: for another number of hosts or workers pass the states of all hosts "
                "as resume= to tfio_store.grain.stream"
            )
        self._begun, self._resumed = (found, None) if found.count else (None, found.resumed)
        self._steps = None
        if found.reader is not None:
            self._steps = self._opened(found)  # so that a state of another order fails at once


def _behind(begun: Standing) -> Standing:
    """At the beginning of the next epoch."""
    later = dict(begun.later)
    epoch = begun.epoch + 1
    return Standing(begun.source, begun.index, begun.count, epoch, later.pop(epoch, None), later)


class _Steps:
    """The rest of one epoch: rows, or batches of them. Not a generator: an error would end it,
    and who asks for the next row would take that for the end of the data."""

    def __init__(
        self,
        shares: Callable[[int, int], Reader],
        place: tuple[int, int],
        state: Mapping[str, Any] | None,
        content: LoaderContent,
        batch: tuple[int, bool] | None,
        threads: int | None,
    ) -> None:
        size, drop_last = batch or (content.rows_at_once, False)
        self._gathering = gathered(shares, place, state, content, size, drop_last, threads)
        self._single = batch is None
        self._rows: list[Any] = []
        self._next = 0
        self.given = False
        """Whether there was anything."""

    @property
    def over(self) -> bool:
        """Whether all has been given."""
        return self._gathering.over and self._next == len(self._rows)

    def state(self) -> dict[str, Any]:
        """The reader's state behind what was given."""
        return self._gathering.state(len(self._rows) - self._next)

    def metrics(self) -> dict[str, float]:
        """What was read and decoded."""
        return self._gathering.metrics()

    def step(self) -> Any:
        """The next row or batch. None at the end."""
        found = self._row() if self._single else self._batch()
        self.given |= found is not None
        return found

    def _batch(self) -> Any:
        batch = self._gathering.batch()
        self._gathering.done()
        return objects(batch) if isinstance(batch, list) else batch

    def _row(self) -> Any:
        if self._next == len(self._rows):
            columns = self._gathering.batch()
            # An error here leaves the rows: the state stands before them, and they are met again.
            rows = [] if columns is None else rows_of(columns)
            self._gathering.done()
            self._rows, self._next = rows, 0
            if not rows:
                return None
        row = self._rows[self._next]
        self._next += 1
        return row

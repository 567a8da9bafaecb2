"""`TFRecordIterable`: a dataset that a job's ranks and their loaders' workers share out."""

from __future__ import annotations

import operator
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from multiprocessing.context import get_spawning_popen
from typing import Any, Literal

from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from tfio_store.dataset.checks import check_positive
from tfio_store.dataset.model import MEMORY_BUDGET
from tfio_store.dataset.source import Source
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.loader.content import Reader, reader_of
from tfio_store.loader.gathering import Gathering
from tfio_store.loader.packed_rows import PackedRows, gathered
from tfio_store.loader.packing import Packing, packing_of
from tfio_store.read.mixture import Mixture, datasets_of
from tfio_store.read.reader import OnCorrupt
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.records.one_thread import OneThread
from tfio_store.storage import Storage
from tfio_store.torch.epochs import Epochs, Ranks, Worker, starter
from tfio_store.torch.metrics import WorkerMetrics
from tfio_store.torch.shared_memory import SharedColumns, SharedRecords
from tfio_store.torch.states import Saved, Standing
from tfio_store.torch.tensors import Content, content_of
from tfio_store.torch.workers import Lent, carrying_errors, threads_here

__all__ = ["Even", "Nothing", "Steps", "TFRecordIterable", "WholeColumns"]

Even = Literal["pad", "drop", "split"]


_AHEAD = {"lightning.pytorch", "pytorch_lightning"}
"""Trainers that read ahead and save the state of their loader, if it has one."""


# How many batches there are. A trainer asks its loader, and the loader its dataset. A trainer that
# gets no answer reads ahead, to see the end when it comes. And an answer must hold in each epoch,
# because most trainers ask once.


class NoLength(AttributeError, TypeError):
    """Nobody knows how many batches there are. `len` raises it as a TypeError. And by `hasattr` the
    dataset then has no ``__len__``, which is what Keras looks at."""


class _Length:
    """A ``__len__`` that is there where the length is known."""

    def __init__(self, steps: Callable[[Any, int, Any], int]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    def __get__(self, dataset: Any, kind: type | None = None) -> Any:
        if dataset is None:
            return self
        frame = sys._getframe(1)
        loader = frame.f_locals.get("self")
        asked = isinstance(loader, DataLoader) and loader.dataset is dataset
        # Accelerate's loaders ask for rows too
        counts = asked and frame.f_code.co_name == "__len__"
        try:
            workers = dataset._workers_of(loader if asked else None)
            length = self._steps(dataset, workers, loader if counts else None)
        except NoLength as unknown:
            if asked and hasattr(loader, "state_dict"):
                dataset._warn_of_reading_ahead(unknown)
            raise
        return lambda: length


class TFRecordIterable(IterableDataset):  # type: ignore[misc]
    """A PyTorch dataset of whole batches, which ranks and workers read in shares.

    All workers of all ranks together give each record once in an epoch. Each pass gives the next
    epoch, also with ``persistent_workers=True``. Use it with ``DataLoader(dataset,
    batch_size=None)``: the batches are made here, a block of records at a time. torchdata's
    ``StatefulDataLoader`` saves and restores where its workers stand.

    A batch is a dict of feature name to tensor. A feature of varying length comes as a
    `RaggedTensor`, one with nulls as a `NullableTensor`, bytes and str as lists. Times come as
    int64. Without a schema a batch is a list of bytes, the records.

    ``DataLoader(dataset, batch_size=None, num_workers=2)`` is a loader of it. Its ``collate_fn``
    gets each batch, behind ``transform``.

    The files of a source without an index are walked once, when the dataset is made.

    Args:
        source (str | PathLike | list | Mixture): See `RecordReader`; or what `tfio_store.mix` made,
            which takes the reader's options then.
        schema (Schema | dict | str | None): What the records hold. "bytes": records come as they
            are. "auto": what the manifest says, or else what `infer_schema` finds in some records.
            Default None: what the manifest says, or TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): The features to decode. Default None: all of them.
        images (dict | None): Columns of encoded images to decode in the worker, and to which size:
            ``{"photo": (224, 224)}`` gives uint8 tensors [n, 224, 224, 3]. A dict in place of the
            size takes options of `tfio_store.image.decode`. If ``on_corrupt`` is not "raise", zeros
            stand in the place of a damaged image, with a `DataLossWarning`. Default None.
        pack (str | list[str] | Packing | None): The feature of tokens, of which rows of ``length``
            are made: a batch has ``segment_ids`` and ``positions`` beside it. It is short for
            ``Packing(pack, length)``, which has more to choose. Default None.
        length (int | None): The tokens of a row, if ``pack`` is no Packing. Default None.
        transform (Callable | None): Called with each batch, a dict (without ``batch_size=``: with
            each row). What it returns is given. Default None.
        batch_size (int | None): The rows of a batch. Default None: single rows, for a loader that
            makes the batches, which is much slower.
        shuffle (bool): Give the records in another random order in each epoch; see
            `RecordReader.shuffle`. Default False.
        seed (int): The same seed gives the same orders. All ranks need the same. Default 0.
        window (int): MiB of records that are shuffled together in memory, in each worker. Default
            16.
        even (str | None): "pad" or "drop" gives each rank the same number of batches, as
            DistributedDataParallel needs; see `RecordReader.shard`. Default None: each record once,
            and ranks that differ. If the order is shuffled, that is "split", where it can be.
        rank (int | None): This process of the job. Default None: what torch.distributed says, or,
            before it is initialized, the environment's RANK. If the trainer shares out batches
            itself, as Accelerate and transformers do, pass ``rank=0, world_size=1``. Otherwise
            reading raises a ValueError.
        world_size (int | None): The number of processes. Default None: as for ``rank``.
        drop_last (bool): Leave out the last batch of a worker, if it is smaller. Default False.
        num_workers (int | None): The loader's number of workers, for ``len()``. Default None:
            ``len()`` is an error.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        on_corrupt (str | Callable): See `RecordReader`. Default "raise".
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        memory_budget (int): See `RecordReader`; each worker has so much. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: An argument is not as described.
        KeyError: ``columns`` names no feature of the schema.
        TypeError: torch lacks the dtype of a feature.
        SchemaError: While iterating: a record is not as the schema says.
        DataLossError: While iterating: a record is damaged. It gives path and offset in the
            training process too.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> from tfio_store.torch import TFRecordIterable
        >>> _ = tfs.write_table({"x": [1, 2, 3], "name": ["a", "b", "c"]}, "train")
        >>> dataset = TFRecordIterable("train", batch_size=2)
        >>> for batch in DataLoader(dataset, batch_size=None):
        ...     print(batch["x"], batch["name"])
        tensor([1, 2]) ['a', 'b']
        tensor([3]) ['c']
    """

    def __init__(
        self,
        source: Source | Mixture,
        *,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        images: Mapping[str, Any] | None = None,
        pack: Packing | str | Sequence[str] | None = None,
        length: int | None = None,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int | None = None,
        shuffle: bool = False,
        seed: int = 0,
        window: int = 16,
        even: Even | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        drop_last: bool = False,
        num_workers: int | None = None,
        compression: str | None = "auto",
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> None:
        self._set_up(
            batch_size=batch_size,
            drop_last=drop_last,
            even=even,
            rank=rank,
            world_size=world_size,
            num_workers=num_workers,
            of="rows",
        )
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
        self._content = content_of(
            source,
            reader,
            schema,
            columns,
            images,
            transform,
            skips=on_corrupt != "raise",
            packing=packing_of(pack, length),
        )
        self._shuffle = (seed, window) if shuffle else None
        self._reader = Lent(reader)
        self._splits = False
        # walks files that need it, here and not in each worker
        counted = self._share(0, 0, 1).num_records is not None
        sources = datasets_of(reader) if isinstance(reader, Mixture) else [reader.dataset]
        long = any(one.shards.long for one in sources)
        self._splits = shuffle and counted and not long

    def _set_up(
        self,
        *,
        batch_size: int | None,
        drop_last: bool,
        even: Even | None,
        rank: int | None,
        world_size: int | None,
        num_workers: int | None,
        of: str,
    ) -> None:
        """Take the arguments of these names, and begin no pass yet. ``of``: what a batch is of."""
        if batch_size is not None:
            check_positive("batch_size=", batch_size, also=f" of {of}, or None")
        if num_workers:
            check_positive("num_workers=", num_workers, also=", 0 or None")
        if drop_last and batch_size is None:
            raise ValueError("drop_last= leaves out a batch, and without batch_size= there is none")
        self._batch_size, self._drop_last = batch_size, drop_last
        self._even = even
        self._ranks = Ranks.given(rank, world_size)
        self._num_workers = num_workers
        self._epochs = Epochs()
        self._metrics = WorkerMetrics()
        self._begun = 0, 0
        """A process, and how many passes have begun in it."""
        self._running: tuple[int, int, int, Steps] | None = None
        """The last pass of this process: its epoch, its share of how many, and its steps."""
        self._restored: Saved | None = None
        """The state that `load_state_dict` was given in a worker."""
        self._warned = False
        self._started_by: tuple[int, Ranks] | None = None
        """The process that this one was started by, if not forked, and which rank that is."""

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded (Schema | None). None: records come as bytes."""
        return self._content.schema

    def set_epoch(self, epoch: int) -> None:
        """Have the next pass give this epoch. Without it, each pass gives the one after the last.

        Args:
            epoch (int): From 0 on. With ``shuffle=True`` it decides the order.

        Raises:
            ValueError: ``epoch`` is negative.

        Example:
            >>> from tfio_store.torch import TFRecordIterable
            >>> _ = tfs.write_table({"x": list(range(100))}, "train")
            >>> dataset = TFRecordIterable("train", batch_size=100, shuffle=True)
            >>> first, second = (next(iter(dataset))["x"] for _ in range(2))
            >>> dataset.set_epoch(0)
            >>> again = next(iter(dataset))["x"]
            >>> first.equal(second), first.equal(again)
            (False, True)
        """
        epoch = operator.index(epoch)
        if epoch < 0:
            raise ValueError(f"epoch= takes a number from 0 on, not {epoch}")
        if self._running is not None and self._running[-1].ended:
            self._running = None
        self._epochs.set_next(epoch)

    @_Length
    def __len__(self, workers: int, loader: Any) -> int:
        """How many batches (or rows) this rank gives in an epoch. ``loader``: who counts them."""
        ranks = self._place()
        count = ranks.world_size * workers
        if not self._as_many_in_each_epoch(count):
            raise NoLength(
                f"len() is not the same in each epoch: {count} shares of a shuffled dataset have "
                'other blocks in each; pass even="split"'
            )
        shares = range(ranks.rank * workers, (ranks.rank + 1) * workers)
        size: int | None = None
        if loader is not None and self._batch_size is None:
            size = loader.batch_size
        if size is None:
            return sum(self._steps_of(index, count) for index in shares)
        # The loader makes batches of each worker's rows, and divides the length by their size.
        short = 0 if loader.drop_last else size - 1
        return sum((self._rows_of(index, count) + short) // size for index in shares) * size

    def __bool__(self) -> bool:
        """True, also where there is no len(), which Python would ask."""
        return True

    def _workers_of(self, loader: Any) -> int:
        """How many workers read for this rank: by ``num_workers=``, or by the loader that asks."""
        workers = self._num_workers
        if workers is None:
            if loader is None:
                raise NoLength(
                    "len() depends on the loader's number of workers: ask the loader, or pass "
                    f"num_workers= to {type(self).__name__} too"
                )
            workers = loader.num_workers
        return max(1, workers)

    def _as_many_in_each_epoch(self, count: int) -> bool:
        """Whether each of so many shares has as many rows in each epoch. Whole blocks that are
        shuffled have not. Of a long list, cutting them would take all its pages."""
        whole = self._even is None and not self._splits
        return self._shuffle is None or count == 1 or not whole

    def _warn_of_reading_ahead(self, unknown: NoLength) -> None:
        """Say what a trainer that reads ahead does to states in mid-epoch. Lightning is one."""
        if self._warned or not _AHEAD & sys.modules.keys():
            return
        self._warned = True
        warnings.warn(
            "Lightning reads one batch ahead of a loader whose len() is unknown, and a checkpoint "
            f"in mid-epoch leaves this batch out: who resumes never gets it. {unknown}",
            UserWarning,
            stacklevel=4,
        )

    def _steps_of(self, index: int, count: int) -> int:
        rows = self._rows_of(index, count)
        if self._batch_size is None:
            return rows
        return rows // self._batch_size if self._drop_last else -(-rows // self._batch_size)

    def _rows_of(self, index: int, count: int) -> int:
        """How many rows a share has in the next epoch."""
        reader = self._reader.value
        if isinstance(reader, Mixture) and len(datasets_of(reader)) > 1:
            raise NoLength(
                "len() is not the same in each epoch: a mixture is as long as its choices make it"
            )
        records = self._share(self._epochs.next, index, count).num_records
        if records is None:
            raise NoLength("len() is not known: the source is a stream, or on_corrupt= may skip")
        return records if self._content.packing is None else self._packed_rows(reader, count)

    def _packed_rows(self, reader: Reader, count: int) -> int:
        """How many rows the only share has, of documents that are laid end to end."""
        packing = self._content.packing
        assert packing is not None
        tokens = None
        if packing.how == "concat" and count == 1 and not isinstance(reader, Mixture):
            tokens = reader.dataset.values.get(packing.columns[0])
        if tokens is None:
            raise NoLength(
                "len() is not known: the lengths of documents say how many rows there are"
            )
        return -(-tokens // packing.length)

    def _share(self, epoch: int, index: int, count: int) -> Reader:
        """A reader of one share, at the beginning of an epoch."""
        return self._shares(epoch)(index, count)

    def _shares(self, epoch: int) -> Callable[[int, int], Reader]:
        """What makes readers of shares, and does not hold the dataset."""
        split = self._even is None and self._splits
        return partial(_share_of, self._reader.value, self._shuffle, self._even, split, epoch)

    def __iter__(self) -> Steps:
        worker = Worker.found()
        if self._num_workers is not None and max(1, self._num_workers) != worker.count:
            raise ValueError(
                f"num_workers={self._num_workers}, and the loader has {worker.count} workers"
            )
        ranks = self._place()
        index = ranks.rank * worker.count + worker.number
        count = ranks.world_size * worker.count
        process, passes = self._begun
        self._begun = os.getpid(), passes + 1 if process == os.getpid() else 1
        key = None if worker.seed is None else [worker.seed, self._begun[1]]
        saved, self._restored = self._restored, None
        at = None if saved is None else saved.epoch
        begun = self._epochs.begin(key, worker, at)
        if saved is None and begun.saved is not None:
            saved = Saved.from_json(begun.saved)
        try:
            steps = self._steps(begun.epoch, index, count, saved)
        except Exception:
            self._epochs.refuse(begun, loader=worker.loader)
            raise
        if worker.seed is not None:
            steps.tell = partial(self._metrics.put, worker)
        self._running = begun.epoch, index, count, steps
        return steps

    def _place(self) -> Ranks:
        """The rank of the loader's process, which a worker that is not forked was given."""
        if self._ranks is not None:
            return self._ranks
        if self._started_by is not None and get_worker_info() is not None:
            process, ranks = self._started_by
            if process == starter():
                return ranks.sharing_once()
        return Ranks.found().sharing_once()

    def _steps(self, epoch: int, index: int, count: int, saved: Saved | None) -> Steps:
        standing = None if saved is None else saved.share(index, count)
        if standing is not None and standing.ended:
            return Nothing(standing.reader)
        if standing is not None:
            standing.check_size(self._batch_size)
        return self._begin(epoch, index, count, None if standing is None else standing.reader)

    def _begin(self, epoch: int, index: int, count: int, state: Mapping[str, Any] | None) -> Steps:
        """A pass over a share, from its beginning or from a state of its reader."""
        content, size = self._content, self._batch_size
        how = content, size or content.rows_at_once, self._drop_last, threads_here()
        gathering = gathered(self._shares(epoch), (index, count), state, *how)
        return Rows(gathering, content) if size is None else Batches(gathering, content)

    def metrics(self) -> dict[str, float]:
        """What the last pass has read so far, and what it took; see `RecordReader.metrics`.

        With workers, the numbers of all of them are added up, as they were after the last batch of
        each.

        Returns:
            dict: Empty before the first pass. ``records`` are those that were given. ``decode_s``:
            seconds that threads made columns and pixels. ``waited_s``: seconds that the loop, or
            the workers, waited for batches.

        Example:
            >>> from tfio_store.torch import TFRecordIterable
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> dataset = TFRecordIterable("train", batch_size=2)
            >>> _ = list(dataset)
            >>> dataset.metrics()["records"]
            3
        """
        if get_worker_info() is None and self._epochs.in_workers:
            return self._metrics.total()
        return {} if self._running is None else self._running[-1].metrics()

    def state_dict(self) -> dict[str, Any]:
        """Return where this process, or this worker, stands. ``StatefulDataLoader`` asks for it.

        Returns:
            dict: Small, and JSON can hold it.

        Raises:
            RuntimeError: Workers read the dataset, and only their loader knows where they stand.

        Example:
            >>> from tfio_store.torch import TFRecordIterable
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> dataset = TFRecordIterable("train", batch_size=2)
            >>> _ = next(iter(dataset))
            >>> other = TFRecordIterable("train", batch_size=2)
            >>> other.load_state_dict(dataset.state_dict())
            >>> [batch["x"] for batch in other]
            [tensor([3])]
        """
        if get_worker_info() is None and self._epochs.in_workers:
            raise RuntimeError(
                "the dataset's workers know where they stand, and it does not: use torchdata's "
                "StatefulDataLoader, and save what its state_dict() gives"
            )
        if self._running is not None:
            epoch, index, count, steps = self._running
            # A loader with workers may count batches that follow: see snapshot_every_n_steps=.
            size = None if get_worker_info() is None else self._batch_size
            standing = Standing(steps.ended, steps.state(), size)
            return Saved(epoch, count, {index: standing}).to_json()
        return self._epochs.saved or Saved(self._epochs.next, 0, {}).to_json()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Have the next pass go on where a state was taken. The pass after it is the next epoch.

        Args:
            state (dict): What `state_dict` returned in a process or worker of the same place, or
                what `reshard` made.

        Raises:
            ValueError: It is no state. With the next pass: it is of another source or order, or of
                another number of ranks or workers.
        """
        saved = Saved.from_json(state)
        if get_worker_info() is not None:
            self._restored = saved
            return
        self._running = None
        self._epochs.set_next(saved.epoch, saved.to_json())

    def __getstate__(self) -> dict[str, Any]:
        """Which rank starts a process. A worker is of the same rank, and
        cannot find it. Another process is a rank of its own."""
        kept = {**self.__dict__, "_running": None}
        if get_spawning_popen() is not None:
            kept["_started_by"] = os.getpid(), self._place()
        return kept

    def __repr__(self) -> str:
        return f"<TFRecordIterable of {self._reader.value!r}>"


def _share_of(
    reader: Reader,
    shuffle: tuple[int, int] | None,
    even: Even | None,
    split: bool,
    epoch: int,
    index: int,
    count: int,
) -> Reader:
    """A reader of one share, at the beginning of an epoch."""
    if shuffle is not None:
        seed, window = shuffle
        reader = reader.shuffle(seed, epoch=epoch, window=window)
    return reader.shard(index, count, even="split" if split and count > 1 else even)


# One pass over a share of a dataset: batches or rows, and a state behind each of them.
#
# Nothing here is a generator: an error would end one, and who asked for the next batch would take
# that for the end of the data.


class Steps(Iterator[Any]):
    """The records of a pass, for one thread at a time. RuntimeError for others meanwhile."""

    ended = False
    """Whether everything was given."""
    tell: Callable[[dict[str, float]], None] | None = None
    """In a worker: what takes its numbers."""

    def __init__(self) -> None:
        self._turn = OneThread("the dataset's iterator")

    def state(self) -> dict[str, Any]:
        """The state of the reader behind what was given."""
        raise NotImplementedError

    def metrics(self) -> dict[str, float]:
        """What was read and decoded."""
        return {}

    def __next__(self) -> Any:
        with self._turn, carrying_errors:
            return self._step()

    def _told(self) -> None:
        if self.tell is not None:
            self.tell(self.metrics())

    def _step(self) -> Any:
        raise NotImplementedError


class WholeColumns(SharedColumns):
    """A batch. By this class torch's default collate_fn finds `_refused`."""


class WholeRecords(SharedRecords):
    """A batch of records as they are. By this class torch's default collate_fn finds `_refused`."""


def _refused(batches: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """A loader makes batches of batches, and rows of each in one more dimension."""
    raise TypeError(
        "the dataset gives whole batches, and the DataLoader would make batches of them: pass "
        "batch_size=None to the DataLoader (its default is 1), or leave out batch_size= of "
        "TFRecordIterable, which is slower"
    )


default_collate_fn_map[WholeColumns] = default_collate_fn_map[WholeRecords] = _refused


class Nothing(Steps):
    """The rest of a share that has ended."""

    ended = True

    def __init__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self._state = state

    def state(self) -> dict[str, Any]:
        return self._state

    def _step(self) -> Any:
        raise StopIteration


class Batches(Steps):
    """Batches of rows."""

    def __init__(self, gathering: Gathering | PackedRows, content: Content) -> None:
        super().__init__()
        self._gathering, self._content = gathering, content

    def state(self) -> dict[str, Any]:
        return self._gathering.state()

    def metrics(self) -> dict[str, float]:
        return self._gathering.metrics()

    def _step(self) -> Any:
        columns = self._gathering.batch()
        # An error here leaves the batch: the state stands before it, and it is met again.
        batch = None if columns is None else self._content.given(self._content.batch(columns))
        self._gathering.done()
        self.ended = self._gathering.over
        self._told()
        if columns is None:
            raise StopIteration
        if type(batch) is dict:
            return WholeColumns(batch)
        return WholeRecords(batch) if type(batch) is list else batch


class Rows(Steps):
    """Single rows."""

    def __init__(self, gathering: Gathering | PackedRows, content: Content) -> None:
        super().__init__()
        self._gathering, self._content = gathering, content
        self._rows: list[Any] = []
        self._next = 0

    def state(self) -> dict[str, Any]:
        return self._gathering.state(len(self._rows) - self._next)

    def metrics(self) -> dict[str, float]:
        return self._gathering.metrics()

    def _step(self) -> Any:
        if self._next == len(self._rows):
            columns = self._gathering.batch()
            rows = [] if columns is None else self._content.rows(columns)
            self._gathering.done()
            self._rows, self._next = rows, 0
            self._told()
            if columns is None:
                self.ended = True
                raise StopIteration
        row = self._content.given(self._rows[self._next])
        self._next += 1
        return row

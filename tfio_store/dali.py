"""NVIDIA DALI: what ``fn.external_source`` calls for batches of records. It needs no package
beyond DALI itself, and imports none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tfio_store.dataset.checks import check_from_0, check_positive, whole_number
from tfio_store.dataset.model import CACHE_BUDGET, MEMORY_BUDGET
from tfio_store.dataset.source import Source as AnySource
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.ragged import Nullable, Ragged
from tfio_store.example.schema import Schema
from tfio_store.loader.content import LoaderContent
from tfio_store.maintain.build_index import write_idx
from tfio_store.read.order import generator
from tfio_store.read.record_source import RecordSource
from tfio_store.read.state import hold_to, versions_text
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES
from tfio_store.storage import Storage

__all__ = ["source", "write_idx"]

Even = Literal["pad", "drop"]

_KEY = "tfio_store.dali"
_VERSION = 1


def source(
    source: AnySource,
    *,
    batch_size: int,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    shuffle: bool = False,
    seed: int = 0,
    shard_id: int = 0,
    num_shards: int = 1,
    even: Even | None = None,
    resume: Mapping[str, Any] | None = None,
    compression: str | None = "auto",
    verify: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
    idx: Sequence[str] | None = None,
    cache_bytes: int = CACHE_BUDGET,
    memory_budget: int = MEMORY_BUDGET,
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
) -> Batches:
    """Make a callable that gives a DALI pipeline batches of a source's records.

    ``fn.external_source(train, num_outputs=len(train.outputs), batch=True, batch_info=True)`` in a
    pipeline of the same ``batch_size`` calls it. Each call reads the records of its batch by one
    round of requests, and decodes them at once. It holds no place in the data: a batch depends on
    its number and epoch alone. So ``parallel=True`` may call it in several processes, and
    checkpoints of DALI's own pipelines hold for it. At the end of an epoch it raises StopIteration,
    and after ``pipeline.reset()`` the next epoch has another order.

    With ``batch=False`` it gives single samples, each by a request of its own, and leaves out a
    last batch that is not whole.

    Args:
        source (str | PathLike | list): See `RecordSource`.
        batch_size (int): Records in a batch of one GPU, as the pipeline's.
        schema (Schema | dict | str | None): What the records hold; see
            `tfio_store.grain.source`. Default None: what the manifest says, or TensorFlow Datasets
            wrote, or else "bytes".
        columns (list[str] | None): The features to decode, in the order of the outputs. Default
            None: all of them.
        shuffle (bool): Give all records in another random order in each epoch. Each process holds
            4 bytes a record for it. Default False.
        seed (int): The same seed gives the same orders. All shards need the same. Default 0.
        shard_id (int): This GPU. All GPUs together have batches of ``batch_size * num_shards``
            records, of which each has a run. Default 0.
        num_shards (int): How many GPUs share out each epoch. Default 1.
        even (str | None): "pad" repeats some records, and "drop" leaves some out, so that all
            batches are whole and all shards have as many. Default None: each record once; last
            batches are smaller, and may be missing on some shards.
        resume (dict | None): What `Batches.state` gave. The first epoch begins there, also with
            another ``batch_size`` or ``num_shards``. Default None: from the beginning.
        compression (str | None): See `RecordReader`. Default "auto".
        verify (bool): See `RecordReader`. Default True.
        storage_options (dict | None): See `RecordReader`. Default None.
        storage (Storage | None): See `RecordReader`. Default None.
        idx (list[str] | None): See `RecordSource`. Default None.
        cache_bytes (int): See `RecordSource`; each process has so much. Default 64 MiB.
        memory_budget (int): See `RecordSource`. Default 256 MiB.
        max_record_bytes (int): See `RecordReader`. Default 1 GiB.

    Returns:
        Batches: The callable. It pickles small.

    Raises:
        OSError: The storage fails: FileNotFoundError, PermissionError and others, with the URL.
        ValueError: A shard is a compressed stream that was not written in blocks, DALI has no
            arrays of a feature, ``resume`` is of another source or order, or an argument is not as
            described.
        ReplacedError: ``resume`` is of another version of a file.
        KeyError: ``columns`` names no feature of the schema.
        DataLossError: When it is called: a record is damaged. It gives path and offset.

    Example:
        >>> import tfio_store.dali
        >>> _ = tfs.write_table({"photo": [b"abc", b"d", b"ef"], "label": [7, 8, 9]}, "train")
        >>> train = tfio_store.dali.source("train", batch_size=2, columns=["photo", "label"])
        >>> train.outputs, len(train)
        (['photo', 'label'], 2)
        >>> photos, labels = train(0)
        >>> photos, labels
        ([array([97, 98, 99], dtype=uint8), array([100], dtype=uint8)], array([7, 8]))
    """
    check_positive("batch_size=", batch_size)
    check_positive("num_shards=", num_shards)
    check_from_0("shard_id", shard_id)
    check_from_0("seed", seed)
    if shard_id >= num_shards:
        raise ValueError(f"shard_id= takes 0 to num_shards - 1, not {shard_id} of {num_shards}")
    if even not in (None, "pad", "drop"):
        raise ValueError(f'even= takes "pad", "drop" or None, not {even!r}')
    records = RecordSource(
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
    content = LoaderContent.of(source, records, schema, columns)
    _check_arrays(content.schema)
    order = _Order(len(records), int(seed) if shuffle else None)
    share = _Share(int(shard_id), int(num_shards), int(batch_size), even)
    return Batches(records, content, order, share, resume)


class Batches:
    """The object that `source` makes: DALI calls it for the batches of one shard.

    Calling it with DALI's ``BatchInfo`` gives one output, or a tuple of them, as `outputs` names
    them: an array [n, ...] of a feature with a shape of its own, and else a list of arrays, of
    uint8 for byte strings and texts. With the number of a batch alone, that is of the first
    epoch. With ``SampleInfo``, arrays of one sample.
    """

    def __init__(
        self,
        records: RecordSource,
        content: LoaderContent,
        order: _Order,
        share: _Share,
        resume: Mapping[str, Any] | None,
    ) -> None:
        self._records, self._content, self._order, self._share = records, content, order, share
        self._epoch, self._first = (0, 0) if resume is None else self._resumed(resume)

    @property
    def schema(self) -> Schema | None:
        """The features that are decoded (Schema | None). None: records come as bytes."""
        return self._content.schema

    @property
    def outputs(self) -> list[str]:
        """The features, in the order of DALI's outputs (list[str])."""
        return ["record"] if self.schema is None else list(self.schema)

    def __len__(self) -> int:
        """How many batches this shard has in the next epoch."""
        return self._share.count(self._order.size - self._first)

    def __call__(self, info: Any, /) -> Any:
        """A batch, or one sample. StopIteration behind the last one of the epoch."""
        epoch, iteration = getattr(info, "epoch_idx", None), getattr(info, "iteration", info)
        if epoch is None and self._order.seed is not None:
            raise ValueError(
                "shuffle=True needs the epoch, and fn.external_source gives the number of the batch"
                " only: pass batch_info=True to it"
            )
        first = 0 if epoch else self._first
        numbers = self._share.places(self._order.size - first, int(iteration)) + first
        at = getattr(info, "idx_in_batch", None)
        if not len(numbers) or (at is not None and len(numbers) < self._share.batch_size):
            raise StopIteration
        if at is not None:
            numbers = numbers[at : at + 1]
        numbers = self._order.at(self._epoch + (epoch or 0), numbers % self._order.size)
        found = self._arrays(numbers.tolist())
        if at is not None:
            found = tuple(column[0] for column in found)
        return found if len(found) > 1 else found[0]

    def _arrays(self, numbers: list[int]) -> tuple[Any, ...]:
        decoded = self._content.decode(self._records.__getitems__(numbers))
        if self.schema is None:
            return ([np.frombuffer(record, np.uint8) for record in decoded],)
        return tuple(_arrays(decoded[name]) for name in self.schema)

    def state(self, iteration: int, epoch: int = 0) -> dict[str, Any]:
        """Return where all shards stand after as many batches.

        Args:
            iteration (int): How many batches of the epoch each shard has been given.
            epoch (int): As DALI counts: 0 is the first one of this callable. Default 0.

        Returns:
            dict: For ``resume=`` of `source`. JSON can hold it.

        Raises:
            ValueError: A number is negative.

        Example:
            >>> import tfio_store.dali
            >>> _ = tfs.write_table({"x": list(range(6))}, "train")
            >>> train = tfio_store.dali.source("train", batch_size=2)
            >>> state = train.state(1)
            >>> rest = tfio_store.dali.source("train", batch_size=4, resume=state)
            >>> rest(0)
            array([2, 3, 4, 5])
        """
        check_from_0("iteration", iteration)
        check_from_0("epoch", epoch)
        given = iteration * self._share.batch_size * self._share.shards
        place = min(given + (0 if epoch else self._first), self._order.size)
        return {
            _KEY: _VERSION,
            "source": repr(self._records),
            "versions": versions_text(self._records.dataset),
            "seed": self._order.seed,
            "epoch": self._epoch + epoch,
            "record": place,
        }

    def _resumed(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """The epoch, and how many of its records were given."""
        if not isinstance(state, Mapping) or state.get(_KEY) != _VERSION:
            raise ValueError(f"resume= takes what Batches.state gave, not {state!r}")
        for what, mine in (("source", repr(self._records)), ("seed", self._order.seed)):
            if state.get(what) != mine:
                raise ValueError(
                    f"resume= is of {what} {state.get(what)!r}, and this is of {mine!r}: pass a "
                    "state of the same files and order"
                )
        hold_to(state.get("versions", ""), self._records.dataset)
        epoch, record = (whole_number(state.get(name)) for name in ("epoch", "record"))
        if epoch is None or record is None or epoch < 0 or not 0 <= record <= self._order.size:
            raise ValueError(f"resume= takes what Batches.state gave, not {state!r}")
        whole = record >= self._order.size or not self._share.any(self._order.size - record)
        return (epoch + 1, 0) if whole else (epoch, record)

    def __repr__(self) -> str:
        mine = self._share
        return f"<Batches of {self._records!r}, shard {mine.index} of {mine.shards}>"


class _Order:
    """Which record is at which place of an epoch. ``seed`` None: as they are stored."""

    def __init__(self, size: int, seed: int | None) -> None:
        self.size, self.seed = size, seed
        self._held: tuple[int, Any] | None = None
        """The order of one epoch."""

    def at(self, epoch: int, places: Any) -> Any:
        if self.seed is None:
            return places
        held = self._held
        if held is None or held[0] != epoch:
            numbers = np.arange(self.size, dtype=np.uint32 if self.size < 1 << 32 else np.uint64)
            generator(self.seed, epoch).shuffle(numbers)
            held = self._held = epoch, numbers
        return held[1][places]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_held": None}


@dataclass(frozen=True, slots=True)
class _Share:
    """One of the shards that share out batches of ``batch_size * shards`` records."""

    index: int
    shards: int
    batch_size: int
    even: str | None

    def places(self, records: int, iteration: int) -> Any:
        """The places of a batch among so many records; none behind the end. With "pad", places
        behind the last record stand for those from the first one on."""
        whole = self.batch_size * self.shards
        start = iteration * whole
        left = records - start
        if left <= 0 or (left < whole and self.even == "drop"):
            return np.empty(0, np.int64)
        if left >= whole or self.even == "pad":
            mine = start + self.index * self.batch_size, self.batch_size
        else:
            each, more = divmod(left, self.shards)
            mine = start + self.index * each + min(self.index, more), each + (self.index < more)
        return np.arange(mine[0], mine[0] + mine[1])

    def count(self, records: int) -> int:
        """How many batches there are."""
        whole, left = divmod(records, self.batch_size * self.shards)
        return whole + bool(len(self.places(left, 0)))

    def any(self, records: int) -> bool:
        """Whether any shard has a batch."""
        return self.even != "drop" or records >= self.batch_size * self.shards


def _check_arrays(schema: Schema | None) -> None:
    """ValueError for features of which there are no arrays for DALI."""
    for name, feature in (schema or {}).items():
        text = feature.dtype in ("bytes", "str")
        if feature.nullable or (text and feature.shape) or feature.shape[1:2] == (None,):
            raise ValueError(
                f"feature {name!r}: DALI takes arrays, and {feature} may be null, or holds lists "
                "of strings or of lists: leave it out by columns="
            )


def _arrays(column: Any) -> Any:
    """A column as DALI takes it: an array, or a list of them."""
    assert not isinstance(column, Nullable)
    if isinstance(column, Ragged):
        return [_plain(row) for row in column]
    if column.dtype.hasobject:
        encoded = [text.encode() if isinstance(text, str) else text for text in column.tolist()]
        return [np.frombuffer(data, np.uint8) for data in encoded]
    return _plain(column)


def _plain(array: Any) -> Any:
    """Times as int64."""
    return array.view(np.int64) if array.dtype.kind in "mM" else array

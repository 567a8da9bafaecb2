"""`partitions`: a dataset in parts that engines read, each by a task."""

from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from typing import Any

import numpy as np

from tfio_store.dataset.checks import check_from_1
from tfio_store.dataset.inflate.index import with_checkpoints
from tfio_store.dataset.listed_shards import ListedShards, Places
from tfio_store.dataset.model import (
    MEMORY_BUDGET,
    Dataset,
    DatasetPart,
    Limits,
    Shard,
    Shards,
    Told,
    common_told,
)
from tfio_store.dataset.shards import cut_shard
from tfio_store.dataset.source import Source, open_dataset, repeatable
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.read.reader import OnCorrupt, RecordReader
from tfio_store.records.arrays import Int64Array
from tfio_store.records.compression import codec_name
from tfio_store.records.framing import DEFAULT_MAX_RECORD_BYTES, RecordBatch
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import read_by
from tfio_store.tables.packed_shards import pack_shards, unpack_shards
from tfio_store.tables.read_table import arrow_types, rows_maker, table_batches


def partitions(
    source: Source,
    *,
    target_bytes: int = 128 << 20,
    num_partitions: int | None = None,
    compression: str | None = "auto",
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> list[Partition]:
    """Cut a source into runs of blocks of about the same size, for the tasks of an engine.

    A partition may begin and end in the middle of a shard, also of a compressed one. Together the
    partitions have each record once, in the order of the source. Nothing is read but the manifest
    and the index. A file without an index, whose blocks are unknown, is never cut: it is a
    partition of its own, unless ``num_partitions`` asks for fewer than there are files.

    Args:
        source (str | PathLike | list): See `RecordReader`.
        target_bytes (int): Stored bytes of a partition, at most, as far as blocks allow: they are
            about 1 MiB before compression. Default 128 MiB.
        num_partitions (int | None): How many partitions to make, whatever their size. There are
            fewer if there are fewer blocks, since none is empty. Default None: ``target_bytes``
            decides.
        compression (str | None): See `RecordReader`. Default "auto".
        storage_options (dict | None): See `RecordReader`. Each partition holds them, and so does
            its pickle. Default None.
        storage (Storage | None): See `RecordReader`. Default None.

    Returns:
        list[Partition]: In order. Empty for a source without records.

    Raises:
        OSError: The storage fails.
        ManifestError: A manifest or index cannot be read.
        TypeError: ``target_bytes`` or ``num_partitions`` is no whole number.
        ValueError: One of them is below 1.

    Example:
        >>> _ = tfs.write_table({"x": list(range(10))}, "train", num_shards=4)
        >>> [part.num_records for part in tfs.partitions("train", num_partitions=2)]
        [5, 5]
        >>> [part.num_records for part in tfs.partitions("train")]
        [10]
    """
    check_from_1("target_bytes", target_bytes)
    if num_partitions is not None:
        check_from_1("num_partitions", num_partitions)
    storage = given_storage(storage_options, storage)
    source = repeatable(source)
    opened = open_dataset(source, storage, compression=compression)
    dataset = with_checkpoints(opened, whatever_name=True)
    told = (common_told(dataset.told),) if dataset.told else ()
    found: Iterable[tuple[Shards, int | None]]
    if isinstance(dataset.shards, ListedShards) and dataset.shards.long:
        found = long_parts(dataset.shards, target_bytes, num_partitions)
    else:
        found = _Units(dataset).parts(target_bytes, num_partitions)
    return [
        Partition(index, replace(dataset, shards=shards, told=told), first)
        for index, (shards, first) in enumerate(found)
    ]


@dataclass(frozen=True, eq=False)
class Partition(DatasetPart):
    """A run of neighbouring blocks of a dataset, as `partitions` makes it.

    It pickles small, and any process reads it, with nothing but the pickle: it holds the names of
    its files, where its own blocks lie, and the ``storage_options`` (also credentials that were
    passed so, which ``repr`` never shows). A file without a manifest that was replaced since, as
    far as its store has versions, is an error. The shards of a dataset with a manifest are never
    written again by this library. Who deletes them by hand, and writes others of the same names and
    sizes, is not noticed. Functions that read take a partition as a source.

    Attributes:
        index (int): Its number among the partitions, from 0 on.
        dataset (Dataset): Its shards, of which the first and the last one may be cut.
        first_record (int | None): The number of its first record in the source. Default None: it is
            not known, because a file before it has no index.

    Example:
        >>> _ = tfs.write_table({"x": list(range(6))}, "train", num_shards=2)
        >>> for part in tfs.partitions("train", num_partitions=2):
        ...     print(part.first_record, part.num_records, len(list(part.reader())))
        0 3 3
        3 3 3
    """

    index: int
    dataset: Dataset = field(repr=False)
    first_record: int | None = None

    @property
    def schema(self) -> Schema | None:
        """The schema of the records that manifests have (Schema | None).

        None if they say nothing, or if those of several sources differ.
        """
        return self.dataset.schema

    @property
    def metadata(self) -> dict[str, Any] | None:
        """The metadata in the manifest (dict | None).

        None if there is none, or if those of several sources differ.
        """
        return self.dataset.metadata

    @property
    def num_records(self) -> int | None:
        """How many records it has (int). None where a file has no index."""
        return self.dataset.num_records

    @property
    def nbytes(self) -> int:
        """The bytes of its blocks, as they are stored (int)."""
        return self.dataset.nbytes

    @property
    def urls(self) -> tuple[str, ...]:
        """The files that it reads of, without secrets (tuple[str])."""
        return tuple(self.dataset.shard(i).url for i in range(len(self.dataset.shards)))

    def reader(
        self,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
        storage: Storage | None = None,
    ) -> RecordReader:
        """Open the partition.

        Args:
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.
            storage (Storage | None): How storage is reached. Default None: as `partitions` was
                told.

        Returns:
            RecordReader: Of these records alone. Its states fit readers of this partition only.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> with part.reader() as reader:
            ...     print(len(list(reader)))
            3
        """
        return RecordReader.of(
            open_dataset(self, given_storage(None, storage)),
            verify=verify,
            on_corrupt=on_corrupt,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        )

    def batches(
        self,
        *,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> Iterator[RecordBatch]:
        """Read the records in batches.

        Args:
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.

        Yields:
            RecordBatch: About a block of records (1 MiB), not copied.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> [len(batch) for batch in part.batches()]
            [3]
        """
        with self.reader(
            verify=verify,
            on_corrupt=on_corrupt,
            memory_budget=memory_budget,
            max_record_bytes=max_record_bytes,
        ) as reader:
            yield from reader.batches()

    def arrow_schema(
        self, schema: SchemaToRead | None = None, columns: Sequence[str] | None = None
    ) -> Any:
        """Return the types of `arrow_batches` without reading anything. Needs pyarrow.

        Args:
            schema (Schema | dict | str | None): What the records hold, or "bytes": they are the
                column ``record`` themselves. Default None: what the manifest says.
            columns (list[str] | None): The columns to read. Default None: all of them.

        Returns:
            pyarrow.Schema: The same for each partition of a dataset.

        Raises:
            ValueError: No schema is given, and the manifest has none.
            KeyError: There is no such column.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2], "y": ["a", "b"]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> part.arrow_schema(columns=["y"]).names
            ['y']
        """
        return arrow_types(self._wanted(schema, columns))

    def arrow_batches(
        self,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        *,
        batch_rows: int | None = None,
        verify: bool = True,
        on_corrupt: OnCorrupt = "raise",
        memory_budget: int = MEMORY_BUDGET,
        max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES,
    ) -> Iterator[Any]:
        """Read Examples as Arrow record batches, as `iter_tables` does. Needs pyarrow.

        The arguments are checked at once, and reading begins with the first batch.

        Args:
            schema (Schema | dict | str | None): What the records hold, or "bytes": they are the
                column ``record`` themselves. Default None: what the manifest says.
            columns (list[str] | None): The columns to read. The others are stepped over undecoded.
                Default None: all of them.
            batch_rows (int | None): The rows of each batch but the last. Default None: those of a
                block, about 1 MiB of records.
            verify (bool): See `RecordReader`. Default True.
            on_corrupt (str | Callable): See `RecordReader`. Default "raise".
            memory_budget (int): See `RecordReader`. Default 256 MiB.
            max_record_bytes (int): See `RecordReader`. Default 1 GiB.

        Returns:
            Iterator[pyarrow.RecordBatch]: Of the types of `arrow_schema`.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: No schema is given, and the manifest has none; or ``batch_rows`` is below 1.
            KeyError: There is no such column.
            SchemaError: A record is not as the schema says. This comes with its batch.

        Example:
            >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
            >>> (part,) = tfs.partitions("train")
            >>> [batch.to_pydict() for batch in part.arrow_batches()]
            [{'x': [1, 2, 3]}]
        """
        if batch_rows is not None and batch_rows < 1:
            raise ValueError(f"batch_rows must be at least 1, got {batch_rows}")
        wanted = self._wanted(schema, columns)
        how: dict[str, Any] = {
            "verify": verify,
            "on_corrupt": on_corrupt,
            "memory_budget": memory_budget,
            "max_record_bytes": max_record_bytes,
        }
        read = partial(self.reader, **how)
        batches: Iterator[Any] = table_batches(read, self, wanted, arrow_types(wanted), batch_rows)
        return batches

    def _wanted(self, schema: SchemaToRead | None, columns: Sequence[str] | None) -> Schema:
        full = self.schema if schema is None else read_by(schema, self.dataset)
        if full is None:
            raise ValueError(
                f"{self}: no manifest says what the records hold; pass schema=, for example what "
                "tfio_store.infer_schema(source) finds"
            )
        return full if columns is None else full.select(columns)

    def _open(self, storage: Storage | None, compression: str | None, limits: Limits) -> Dataset:
        del limits  # all is known since the partition was made
        self._check_codec(compression)
        return self.dataset if storage is None else replace(self.dataset, storage=storage)

    def _reached(self) -> Storage:
        return self.dataset.storage

    def _check_codec(self, compression: str | None) -> None:
        """ValueError if somebody asks for another one than that of the files."""
        written = self.dataset.shard(0).compression
        if "auto" not in (compression, written) and codec_name(compression) != written:
            raise ValueError(
                f"compression={compression!r}: {self} was made of files that are "
                f'{written or "raw"}; leave it at "auto"'
            )

    def __str__(self) -> str:
        first = self.dataset.shard(0).url
        more = len(self.dataset.shards) - 1
        return f"partition {self.index} of {first}" + (f" and {more} more" if more else "")

    def __repr__(self) -> str:
        return f"<Partition {self.index}: {self.dataset.summary()}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return self._facts == other._facts

    def __hash__(self) -> int:
        return hash((self.index, self.first_record, self.dataset.shard(0).url))

    @property
    def _facts(self) -> tuple[Any, ...]:
        return self.index, self.first_record, self.schema, self.metadata, self.dataset

    def __reduce__(self) -> tuple[Any, ...]:
        dataset = self.dataset
        kept = (
            zlib.compress(pickle.dumps(tuple(common_told(dataset.told)))) if dataset.told else b""
        )
        lazy = isinstance(dataset.shards, ListedShards)
        shards = dataset.shards if lazy else pack_shards(dataset.shards)
        return _restored, (self.index, self.first_record, kept, dataset.storage, shards)


def _restored(
    index: int,
    first_record: int | None,
    told: bytes,
    storage: Storage,
    shards: ListedShards | bytes,
) -> Partition:
    known = (Told(*pickle.loads(zlib.decompress(told))),) if told else ()
    unpacked = unpack_shards(shards) if isinstance(shards, bytes) else shards
    return Partition(index, Dataset(unpacked, storage, known), first_record)


def row_batches(
    partition: Partition,
    schema: Schema | None,
    columns: Sequence[str] | None,
    how: Mapping[str, Any],
) -> Iterator[Any]:
    """The rows as Arrow record batches of `row_types`. ``schema`` is that of the partition if there
    is no other; ``how`` are options of `Partition.batches`."""
    known = partition.schema if schema is None else schema
    if known is not None:
        yield from partition.arrow_batches(known, columns, **how)
        return
    make = rows_maker(None, columns, partition)
    for batch in partition.batches(**how):
        yield from make(batch)


# Where a dataset is cut.


class _Units:
    """The blocks of a dataset in their order, and shards of which the blocks are not known."""

    def __init__(self, dataset: Dataset) -> None:
        # an empty file holds nothing that a task could read
        self._shards = [s for s in dataset.shards if s.nbytes or s.blocks is not None]
        sizes = [_sizes(shard) for shard in self._shards]
        self._nbytes = np.concatenate([np.zeros(0, np.int64), *sizes])
        self._starts = np.cumsum([0, *map(len, sizes)])
        self._records = list(_running(self._shards))

    def parts(self, target_bytes: int, count: int | None) -> Iterator[tuple[Shards, int | None]]:
        """The shards of each partition, and the number of its first record."""
        runs = self._runs(target_bytes) if count is None else self._cut(0, len(self._nbytes), count)
        for start, stop in runs:
            shards, first = self._between(start, stop)
            if shards:
                yield shards, first

    def _runs(self, target_bytes: int) -> Iterator[tuple[int, int]]:
        """Units from and to, for each partition of about so many bytes. A shard of which the blocks
        are not known is a unit, and a partition."""
        numbers = range(len(self._shards))
        for known, group in groupby(numbers, lambda i: self._shards[i].blocks is not None):
            shards = list(group)
            begin, end = self._starts[[shards[0], shards[-1] + 1]].tolist()
            if known:
                nbytes = int(self._nbytes[begin:end].sum())
                yield from self._cut(begin, end, math.ceil(nbytes / target_bytes))
            else:
                yield from pairwise(range(begin, end + 1))

    def _cut(self, begin: int, end: int, count: int) -> Iterator[tuple[int, int]]:
        """The same for ``count`` partitions of units ``begin:end``."""
        count = min(count, end - begin)
        cuts = runs_of(self._nbytes[begin:end], count) + begin if count else np.zeros(0, np.int64)
        yield from pairwise(cuts.tolist())

    def _between(self, start: int, stop: int) -> tuple[Shards, int | None]:
        """The shards of units ``start:stop``, and the number of the first record there."""
        begin = int(np.searchsorted(self._starts, start, side="right")) - 1
        end = int(np.searchsorted(self._starts, stop))
        found, before = [], self._records[begin]
        for i in range(begin, end):
            shard, first = self._shards[i], int(self._starts[i])
            last = min(stop, int(self._starts[i + 1]))
            part = _blocks_of(shard, max(start - first, 0), last - first)
            if i == begin and before is not None and shard.blocks is not None:
                before += int(shard.blocks.records[start - first])
            found += [part] if part is not None else []
        return Shards(found), before


def _sizes(shard: Shard) -> Int64Array:
    if shard.blocks is None:
        return np.array([shard.nbytes], np.int64)
    return np.diff(shard.blocks.offsets)


def _running(shards: Iterable[Shard]) -> Iterator[int | None]:
    """How many records stand before each shard. None after the first shard whose count is
    unknown."""
    before: int | None = 0
    for shard in shards:
        yield before
        before = None if before is None or shard.records is None else before + shard.records


def _blocks_of(shard: Shard, start: int, stop: int) -> Shard | None:
    """Blocks ``start:stop`` of a shard, without the places of single records. None without any."""
    table = shard.blocks
    if table is None:
        return shard
    plain = shard.known(blocks=table.without_starts())
    first, last = table.records[[start, stop]].tolist()
    return cut_shard(plain, first, last) if first < last else None


# Where to cut a row of units of known sizes, so that the runs between cuts are alike. No I/O.


def runs_of(nbytes: Int64Array, count: int) -> Int64Array:
    """int64 [count + 1]: where ``count`` runs of units of ``nbytes`` each begin and end. Each run
    has a unit at least, so ``count`` is at most their number."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), count + 1)[1:-1]
    after = np.searchsorted(ends, wanted)
    begins = ends[after] - nbytes[after]
    cuts = after + (ends[after] - wanted <= wanted - begins)  # the nearer end of the unit
    return in_turn(cuts, len(nbytes))


def in_turn(cuts: Int64Array, units: int) -> Int64Array:
    """The cuts with both ends of a row of units, moved so that a unit lies between any two."""
    number = np.arange(1, len(cuts) + 1)
    # cut i has at least i units before it, and as many behind it as runs are to come
    room = np.maximum.accumulate(np.maximum(cuts - number, 0))
    inside = np.minimum(room, units - len(cuts) - 1) + number
    return np.concatenate([[0], inside, [units]]).astype(np.int64)


# The partitions of a long dataset. Of its block tables only those are read in which a cut lies.


_NEAR = 16
"""A cut moves to the end of a shard that is nearer than this part of a partition."""


def long_parts(
    shards: ListedShards, target_bytes: int, count: int | None
) -> Iterator[tuple[ListedShards, int]]:
    """The shards of each partition, and the number of its first record.

    All pages of the list are read, once. Blocks of one shard are taken for equally long.
    """
    nbytes, records, blocks = shards.columns("nbytes", "records", "blocks")
    total = int(blocks.sum())
    wanted = math.ceil(int(nbytes.sum()) / target_bytes) if count is None else count
    parts = min(wanted, total)
    if not parts:
        return
    cuts = in_turn(_cuts(nbytes, blocks, parts), total)
    for places in _places(shards, cuts, nbytes, records, blocks):
        if places.records[0] < places.records[1]:
            yield shards.part_at(places), places.records[0]


def _cuts(nbytes: Int64Array, blocks: Int64Array, parts: int) -> Int64Array:
    """int64 [parts - 1]: the blocks before which the cuts lie."""
    ends = np.cumsum(nbytes)
    wanted = np.linspace(0, float(ends[-1]), parts + 1)[1:-1]
    shard = np.searchsorted(ends, wanted)
    share = (wanted - (ends[shard] - nbytes[shard])) / nbytes[shard]
    near = ends[-1] / parts / _NEAR / nbytes[shard]
    share = np.where(share < near, 0, np.where(share > 1 - near, 1, share))
    before = np.cumsum(blocks) - blocks
    found: Int64Array = before[shard] + np.rint(share * blocks[shard]).astype(np.int64)
    return found


def _places(
    shards: ListedShards,
    cuts: Int64Array,
    nbytes: Int64Array,
    records: Int64Array,
    blocks: Int64Array,
) -> Iterator[Places]:
    """Where the runs of blocks between neighbouring ``cuts`` lie."""
    ends, bytes_end = np.cumsum(blocks), np.cumsum(nbytes)
    first = np.searchsorted(ends, cuts[:-1], side="right")
    last = np.searchsorted(ends, cuts[1:] - 1, side="right")
    inside = cuts[:-1] - (ends[first] - blocks[first])
    record = (np.cumsum(records) - records)[first]
    byte = (bytes_end - nbytes)[first]
    split = np.unique(first[inside > 0]).tolist()
    for shard, table in zip(split, shards.tables(split), strict=True):
        mine = slice(*np.searchsorted(first, [shard, shard + 1]))
        record[mine] += table.records[inside[mine]]
        byte[mine] += table.offsets[inside[mine]] - table.offsets[0]
    record, inside = np.append(record, records.sum()), np.append(inside, 0)
    sizes = np.minimum(np.append(byte[1:], bytes_end[-1]), bytes_end[last]) - byte
    is_cut = (inside[:-1] > 0) | (inside[1:] > 0)
    columns = first, last + 1, record[:-1], record[1:], cuts[:-1], cuts[1:], sizes, is_cut
    for begin, end, start, stop, block, behind, size, cut in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield Places((begin, end), (start, stop), (block, behind), size, cut)

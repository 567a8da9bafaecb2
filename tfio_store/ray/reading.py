"""Reads TFRecord datasets into Ray Data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import ray.data
from ray.data import Dataset, Datasource, FileShuffleConfig
from ray.data.block import BlockMetadata
from ray.data.datasource import ReadTask

from tfio_store.dataset.model import Dataset as Opened
from tfio_store.dataset.source import Source, open_dataset, repeatable
from tfio_store.example.codec import SchemaToRead
from tfio_store.example.schema import Schema
from tfio_store.ray.tensors import ONLY_ROWS, tensor_names, with_tensors
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.infer import named_schema, telling
from tfio_store.tables.partitions import Partition, partitions, row_batches
from tfio_store.tables.read_table import row_types

_BLOCK_BYTES = 16 << 20
"""Bytes of records that go to Ray as one table. It joins them to larger blocks."""


class _Plan:
    """The partitions of a source, which is opened once: Ray asks for them five times before it
    reads."""

    def __init__(
        self, paths: Source, compression: str | None, storage: Storage | None, schema: object
    ) -> None:
        self._paths = repeatable(paths)
        self._compression = compression
        self._storage = storage
        self._asked = schema
        self._made: dict[int, list[Partition]] = {}

    def partitions(self, tasks: int) -> list[Partition]:
        """About as many as there are to be tasks."""
        tasks = max(1, tasks)
        if tasks not in self._made:
            self._made[tasks] = self._cut(tasks) if tasks > 1 else self._whole()
        return self._made[tasks]

    def _cut(self, tasks: int) -> list[Partition]:
        return [
            part
            for whole in self.partitions(1)
            for part in partitions(whole, num_partitions=tasks, storage=self._storage)
        ]

    def _whole(self) -> list[Partition]:
        """All in one; none of a source without records."""
        return partitions(self._opened, num_partitions=1)

    @cached_property
    def _opened(self) -> Opened:
        found = open_dataset(self._paths, self._storage, compression=self._compression)
        return telling(found, self._asked)

    @property
    def schema(self) -> Schema | None:
        """The schema of all records that the source has."""
        return self._opened.schema

    def __getstate__(self) -> dict[str, Any]:  # what is planned can be large, and found again
        kept = {name: value for name, value in vars(self).items() if name != "_opened"}
        return kept | {"_made": {}}


class TFRecordDatasource(Datasource):  # type: ignore[misc]
    """Reads a TFRecord dataset for `ray.data.read_datasource`. `read_tfrecords` makes one.

    Args:
        paths (str | PathLike | list): See `read_tfrecords`.
        schema (Schema | dict | str | None): See `read_tfrecords`. Default None.
        columns (list[str] | None): See `read_tfrecords`. Default None.
        shuffle (str | FileShuffleConfig | None): See `read_tfrecords`. Default None.
        compression (str | None): See `read_tfrecords`. Default "auto".
        on_corrupt (str): See `read_tfrecords`. Default "raise".
        storage_options (dict | None): See `read_tfrecords`. Default None.
        storage (Storage | None): See `read_tfrecords`. Default None.

    Raises:
        ValueError: ``shuffle`` is neither None, "files" nor a `ray.data.FileShuffleConfig`.

    Example:
        >>> import ray
        >>> from tfio_store.ray import TFRecordDatasource
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> source = TFRecordDatasource("train")
        >>> len(source.get_read_tasks(1)), source.get_name()
        (1, 'TFRecord')
        >>> source.supports_projection_pushdown(), source.estimate_inmemory_data_size()
        (True, 90)
        >>> ray.data.read_datasource(source).count()  # doctest: +SKIP
        3
    """

    def __init__(
        self,
        paths: Source,
        *,
        schema: SchemaToRead | None = None,
        columns: Sequence[str] | None = None,
        shuffle: Literal["files"] | FileShuffleConfig | None = None,
        compression: str | None = "auto",
        on_corrupt: str = "raise",
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        super().__init__()
        if not (shuffle in (None, "files") or isinstance(shuffle, FileShuffleConfig)):
            raise ValueError(
                f'shuffle= takes None, "files" or a ray.data.FileShuffleConfig, not {shuffle!r}'
            )
        self._given = named_schema(schema)
        self._plan = _Plan(paths, compression, given_storage(storage_options, storage), schema)
        self._schema = self._given or self._plan.schema
        row_types(self._schema, columns)  # KeyError here, if there is no such column
        self._projection_map = None if columns is None else {name: name for name in columns}
        self._shuffle = shuffle
        self._on_corrupt = on_corrupt

    @property
    def _columns(self) -> list[str] | None:
        """Those that Ray wants too, once it knows what comes after the reading."""
        return None if self._projection_map is None else list(self._projection_map)

    def supports_projection_pushdown(self) -> bool:
        """Tell Ray that columns which it does not need are not decoded.

        Returns:
            bool: True.
        """
        return True

    def estimate_inmemory_data_size(self) -> int | None:
        """Estimate what the rows take in memory. Ray asks it how many tasks there are to be.

        Returns:
            int | None: The bytes of the partitions, as they are stored.
        """
        return sum(part.nbytes for part in self._plan.partitions(1))

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: Any = None,
    ) -> list[ReadTask]:
        """Make the tasks, of which each reads a partition.

        Args:
            parallelism (int): How many are wanted. There are fewer where there are fewer blocks.
            per_task_row_limit (int | None): The rows that a task's block may have. Default None:
                any.
            data_context (ray.data.DataContext | None): Which execution they are for, for the seed
                of ``shuffle``. Default None: none yet.

        Returns:
            list[ReadTask]: One at least; it tells Ray the types of the columns.
        """
        types = row_types(self._schema, self._columns)
        tensors = [] if self._schema is None else tensor_names(self._schema, types)
        shown = with_tensors(types.empty_table(), tensors).schema
        limit = {} if per_task_row_limit is None else {"per_task_row_limit": per_task_row_limit}
        how = {"on_corrupt": self._on_corrupt}
        found = self._shuffled(self._plan.partitions(parallelism), data_context)
        return [
            ReadTask(
                _reading(part, self._given, self._columns, how, tensors),
                self._metadata(part),
                schema=shown,
                **limit,
            )
            for part in found
        ] or [ReadTask(lambda: [shown.empty_table()], _NO_ROWS, schema=shown)]

    def _metadata(self, part: Partition) -> BlockMetadata:
        exact = self._on_corrupt == "raise"
        return BlockMetadata(
            num_rows=part.num_records if exact else None,
            size_bytes=part.nbytes,
            input_files=list(part.urls),
            exec_stats=None,
        )

    def _shuffled(self, parts: list[Partition], context: Any) -> list[Partition]:
        if self._shuffle is None:
            return parts
        seed = None
        if isinstance(self._shuffle, FileShuffleConfig):
            seed = self._shuffle.get_seed(getattr(context, "_execution_idx", 0))
        order = np.random.default_rng(seed).permutation(len(parts))
        return [parts[i] for i in order.tolist()]


_NO_ROWS = BlockMetadata(num_rows=0, size_bytes=0, input_files=None, exec_stats=None)


def _reading(
    part: Partition,
    schema: Schema | None,
    columns: Sequence[str] | None,
    how: Mapping[str, Any],
    tensors: Sequence[str],
) -> Callable[[], Iterator[pa.Table]]:
    """The work of a task. It holds nothing but its own partition."""

    def read_tfrecords() -> Iterator[pa.Table]:
        for table in _joined(row_batches(part, schema, columns, how)):
            if table.num_columns == 0:
                table = table.append_column(ONLY_ROWS, pa.nulls(table.num_rows))
            yield with_tensors(table, tensors)

    return read_tfrecords


def _joined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Tables of several batches, which are not copied."""
    waiting: list[pa.RecordBatch] = []
    nbytes = 0
    for batch in batches:
        waiting.append(batch)
        nbytes += batch.nbytes
        if nbytes >= _BLOCK_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, nbytes = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


def read_tfrecords(
    paths: Source,
    *,
    schema: SchemaToRead | None = None,
    columns: Sequence[str] | None = None,
    shuffle: Literal["files"] | FileShuffleConfig | None = None,
    compression: str | None = "auto",
    on_corrupt: str = "raise",
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
    num_cpus: float | None = None,
    memory: float | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> Dataset:
    """Read TFRecord files of Examples as a dataset of Ray.

    Tasks read runs of blocks, also from the middle of a shard that is compressed, and check every
    record. What Ray selects with `ray.data.Dataset.select_columns` is all that is decoded.
    ``count()`` and ``schema()`` read no records of a dataset with an index. The rows come in the
    order of the dataset if Ray's ``DataContext.execution_options.preserve_order`` is set.

    Numbers and booleans of one shape in all rows, with one dimension or more, become tensors of
    Ray. What can be null, strings, and what is of any length become Arrow's lists and values.

    Args:
        paths (str | PathLike | list): What `tfio_store.RecordReader` takes as a source: a dataset's
            folder and name, files, globs, or a list of these.
        schema (Schema | dict | str | None): What the records hold. "bytes": one column, ``record``,
            of the records as they are. "auto": what the manifest says, or else what
            `tfio_store.infer_schema` finds in some records; what these lack is not read. Default
            None: what the manifest says, or TensorFlow Datasets wrote, or else "bytes".
        columns (list[str] | None): The columns to read. The others are stepped over undecoded.
            Default None: all of them.
        shuffle (str | FileShuffleConfig | None): "files" reads the tasks' runs of blocks in random
            order, a `ray.data.FileShuffleConfig` by a seed. Rows within them keep their order.
            Default None.
        compression (str | None): See `tfio_store.RecordReader`. Default "auto".
        on_corrupt (str): See `tfio_store.RecordReader`. Default "raise".
        concurrency (int | None): How many tasks read at a time. Default None: Ray decides.
        override_num_blocks (int | None): How many tasks read in all. Default None: Ray decides, by
            the size.
        num_cpus (float | None): CPUs that a task reserves. Default None: one.
        memory (float | None): Bytes that a task reserves. Default None: none.
        storage_options (dict | None): See `tfio_store.RecordReader`. They travel to the tasks.
            Default None.
        storage (Storage | None): In place of ``storage_options``; see `tfio_store.RecordReader`.
            Default None.

    Returns:
        ray.data.Dataset: One row for each record.

    Raises:
        FileNotFoundError: There are no such files.
        KeyError: There is no such column.
        ValueError: An argument is not as described.
        DataLossError: A record is damaged. Ray raises it from the task, as the cause of its own.

    Example:
        >>> from tfio_store.ray import read_tfrecords
        >>> _ = tfs.write_table({"x": [1, 2, 3]}, "train")
        >>> read_tfrecords("train", columns=["x"]).take_all()  # doctest: +SKIP
        [{'x': 1}, {'x': 2}, {'x': 3}]
    """
    source = TFRecordDatasource(
        paths,
        schema=schema,
        columns=columns,
        shuffle=shuffle,
        compression=compression,
        on_corrupt=on_corrupt,
        storage_options=storage_options,
        storage=storage,
    )
    options = {"num_cpus": num_cpus, "memory": memory}
    return ray.data.read_datasource(
        source,
        concurrency=concurrency,
        override_num_blocks=override_num_blocks,
        **{name: value for name, value in options.items() if value is not None},
    )

"""Writes Ray's datasets as TFRecord datasets, each row once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

from ray.data import DataContext, Dataset, Datasink
from ray.data.block import Block
from ray.data.datasource import WriteResult

from tfio_store.dataset.manifest import DatasetManifest
from tfio_store.dataset.names import DEFAULT_SHARD_BYTES
from tfio_store.dataset.source_names import refuse_number
from tfio_store.example.codec import SchemaLike
from tfio_store.ray.tensors import columns_of_block
from tfio_store.storage import Storage
from tfio_store.storage.storage import given_storage
from tfio_store.tables.write_table import TableJob, WrittenTable
from tfio_store.write.commit import KEEP_REPLACED, IfExists, Names


class TFRecordDatasink(Datasink[WrittenTable]):  # type: ignore[misc]
    """Writes a dataset of Ray for `ray.data.Dataset.write_datasink`. It writes one, once.

    Each task of Ray writes shards of its own, in the order of Ray's blocks. The dataset is there
    when the last task has ended, whole, or not at all. What tasks wrote that died, or whose result
    Ray dropped, is deleted.

    Args:
        path (str): See `write_tfrecords`.
        schema (Schema | dict | str | None): See `write_tfrecords`. Default None.
        nan_as_null (bool): See `write_tfrecords`. Default False.
        compression (str | None): See `write_tfrecords`. Default None.
        if_exists (str): See `write_tfrecords`. Default "error".
        keep_replaced (float): See `write_tfrecords`. Seconds, default 3600.
        names (str): See `write_tfrecords`. Default "tagged".
        max_shard_bytes (int): See `write_tfrecords`. Default 256 MiB.
        min_rows_per_file (int | None): See `write_tfrecords`. Default None.
        storage_options (dict | None): See `write_tfrecords`. Default None.
        storage (Storage | None): See `write_tfrecords`. Default None.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from tfio_store.ray import TFRecordDatasink
        >>> sink = TFRecordDatasink("s3://bucket/train")  # doctest: +SKIP
        >>> ray.data.range(1000).write_datasink(sink)  # doctest: +SKIP
        >>> sink.manifest.records  # doctest: +SKIP
        1000
    """

    def __init__(
        self,
        path: str,
        *,
        schema: SchemaLike | Literal["bytes"] | None = None,
        nan_as_null: bool = False,
        compression: str | None = None,
        if_exists: IfExists = "error",
        keep_replaced: float = KEEP_REPLACED,
        names: Names = "tagged",
        max_shard_bytes: int = DEFAULT_SHARD_BYTES,
        min_rows_per_file: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        storage: Storage | None = None,
    ) -> None:
        refuse_number(path)
        self._begin = partial(
            TableJob.begin,
            path,
            schema=schema,
            nan_as_null=nan_as_null,
            max_shard_bytes=max_shard_bytes,
            compression=compression,
            if_exists=if_exists,
            keep_replaced=keep_replaced,
            names=names,
            storage=given_storage(storage_options, storage),
        )
        self._min_rows = min_rows_per_file
        self._job: TableJob | None = None
        self._manifest: DatasetManifest | None = None
        self._keeps_all = False
        """Whether it is known that Ray drops no rows of the dataset."""

    @property
    def manifest(self) -> DatasetManifest:
        """The manifest that was committed (DatasetManifest). ValueError before that."""
        if self._manifest is None:
            raise ValueError(f"{type(self).__name__} has committed nothing yet")
        return self._manifest

    @property
    def min_rows_per_write(self) -> int | None:
        """The rows that Ray gives to a task at least (int). None if Ray decides."""
        return self._min_rows

    def on_write_start(self, schema: Any = None) -> None:
        """Claim the dataset's name. Ray calls it, before the first task.

        Args:
            schema (pyarrow.Schema | None): Not heeded: the first block may have other types than
                later ones. Default None.

        Raises:
            FileExistsError: There is a dataset, and ``if_exists`` is "error".
            ValueError: The sink was used before, or Ray is told to go on without blocks that
                failed.
        """
        _refuse_lost_blocks(DataContext.get_current())
        if self._job is not None:
            raise ValueError(f"{type(self).__name__} writes one dataset, once; make another one")
        self._job = self._begin()

    def write(self, blocks: Iterable[Block], ctx: Any) -> WrittenTable:
        """Write the blocks of one task. Ray calls it, in any process, perhaps more than once.

        Args:
            blocks (Iterable[Block]): Ray's blocks.
            ctx (TaskContext): Has the task's number, which is its place in the dataset.

        Returns:
            WrittenTable: What the commit needs, a few KiB.

        Raises:
            ValueError: Ray is told to go on without blocks that failed.
        """
        assert self._job is not None
        _refuse_lost_blocks(DataContext.get_current())  # here it is the one of the blocks' dataset
        return self._job.write(map(columns_of_block, blocks), order=ctx.task_idx)

    def on_write_complete(self, write_result: WriteResult[WrittenTable]) -> None:
        """Commit what the tasks have written. Ray calls it, when the last one has ended.

        Args:
            write_result (WriteResult): What `write` returned in each task, in any order.

        Raises:
            RuntimeError: Ray counts other rows than were written, reports no task of those that it
                has begun, or has begun none. Nothing is committed.
            OSError: The store fails; see `tfio_store.WriteJob.commit`.
        """
        written = write_result.write_returns
        if self._job is None:  # Ray starts no task for a dataset without blocks
            if not self._keeps_all:
                raise RuntimeError(
                    "Ray has begun no task: the dataset has no blocks, or under its "
                    "max_errored_blocks Ray dropped all of them. Nothing is committed. Write an "
                    "empty dataset by tfio_store.ray.write_tfrecords, which can tell"
                )
            self.on_write_start()
        elif not written:
            raise RuntimeError(
                "Ray reports none of the tasks that it has begun: nothing is committed"
            )
        assert self._job is not None
        _check_complete(written, int(write_result.num_rows))
        self._manifest = self._job.commit(written)

    def on_write_failed(self, error: Exception) -> None:
        """Remove what tasks have written, unless it was committed or may yet be. Ray calls it.

        Args:
            error (Exception): What stopped the job.
        """
        self.abort()

    def abort(self) -> None:
        """Remove what tasks have written. It does nothing once the dataset is committed.

        Example:
            >>> from tfio_store.ray import TFRecordDatasink
            >>> TFRecordDatasink("train").abort()
        """
        if self._job is not None:
            self._job.abort()


def _refuse_lost_blocks(context: DataContext) -> None:
    if context.max_errored_blocks != 0:
        raise ValueError(
            f"DataContext.max_errored_blocks is {context.max_errored_blocks}: Ray would drop the "
            "rows of tasks that fail, and the dataset would lack them without a word. Set it to 0, "
            "or materialize() what it shall drop rows of, and write the result"
        )


def _check_complete(written: list[WrittenTable], rows: int) -> None:
    """RuntimeError unless each row that Ray counts was written, by one task."""
    orders = {one.result.order for one in written}
    found = sum(one.result.num_records for one in written)
    if len(orders) != len(written) or found != rows:
        raise RuntimeError(
            f"Ray counts {rows} rows, and its {len(written)} tasks, of {len(orders)} numbers, "
            f"wrote {found}: nothing is committed"
        )


def write_tfrecords(
    dataset: Dataset,
    path: str,
    *,
    schema: SchemaLike | Literal["bytes"] | None = None,
    nan_as_null: bool = False,
    compression: str | None = None,
    if_exists: IfExists = "error",
    keep_replaced: float = KEEP_REPLACED,
    names: Names = "tagged",
    max_shard_bytes: int = DEFAULT_SHARD_BYTES,
    min_rows_per_file: int | None = None,
    concurrency: int | None = None,
    ray_remote_args: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    storage: Storage | None = None,
) -> DatasetManifest:
    """Write each row of a dataset of Ray as an Example. `read_tfrecords` reads the same rows.

    The dataset is there when the last task has ended, whole, or not at all. Tasks that Ray retries
    or runs twice count once. If the driver dies, nothing of it appears, and `tfio_store.clean`
    removes what is left. All tasks must write the same columns, of the same types.

    Args:
        dataset (ray.data.Dataset): What to write.
        path (str): Folder and name, such as ``s3://bucket/folder/train``.
        schema (Schema | dict | str | None): See `tfio_store.write_table`. Default None: as the
            dtypes say.
        nan_as_null (bool): See `tfio_store.write_table`. Default False.
        compression (str | None): See `tfio_store.ShardedWriter`. Default None.
        if_exists (str): See `tfio_store.ShardedWriter`. Default "error".
        keep_replaced (float): See `tfio_store.ShardedWriter`. Seconds, default 3600.
        names (str): See `tfio_store.WriteJob`. "plain" is for readers that find shards by a glob.
            Default "tagged".
        max_shard_bytes (int): A task begins another shard when one has about this size. Default 256
            MiB.
        min_rows_per_file (int | None): Ray gives a task this many rows at least, so that there are
            fewer and larger shards. Default None: a task gets a block of Ray's, up to 128 MiB.
        concurrency (int | None): How many tasks write at a time. Default None: Ray decides.
        ray_remote_args (dict | None): What Ray gives to the tasks, such as ``num_cpus``. Default
            None.
        storage_options (dict | None): See `tfio_store.RecordReader`. They travel to the tasks.
            Default None.
        storage (Storage | None): In place of ``storage_options``; see `tfio_store.RecordReader`.
            Default None.

    Returns:
        DatasetManifest: What was committed. It holds the schema.

    Raises:
        FileExistsError: There is a dataset, and ``if_exists`` is "error".
        ValueError: Ray is told to go on without blocks that failed; or tasks found columns of
            different types.
        TypeError: A column is of a type that no Example holds.
        OSError: The store fails.

    Example:
        >>> import ray  # doctest: +SKIP
        >>> from tfio_store.ray import write_tfrecords
        >>> write_tfrecords(ray.data.range(1000), "train").records  # doctest: +SKIP
        1000
    """
    _refuse_lost_blocks(dataset.context)
    sink = TFRecordDatasink(
        path,
        schema=schema,
        nan_as_null=nan_as_null,
        compression=compression,
        if_exists=if_exists,
        keep_replaced=keep_replaced,
        names=names,
        max_shard_bytes=max_shard_bytes,
        min_rows_per_file=min_rows_per_file,
        storage_options=storage_options,
        storage=storage,
    )
    sink._keeps_all = True
    remote = None if ray_remote_args is None else dict(ray_remote_args)
    try:
        dataset.write_datasink(sink, ray_remote_args=remote, concurrency=concurrency)
    except BaseException:
        sink.abort()  # Ray itself does not heed Ctrl-C
        raise
    return sink.manifest
